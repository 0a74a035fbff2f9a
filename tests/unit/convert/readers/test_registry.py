"""Readers are found by their folder, and a page shows how to add one."""

from __future__ import annotations

import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from energon_cli.main import main
from loader.convert import readers as room
from loader.convert.readers.registry import reader_of, readers
from tests.layouts.answers import contents_of_dataset
from tests.layouts.layout import write
from tests.source_tree import ROOT

PAGE = ROOT / "docs" / "how-to" / "write-a-reader.md"


def test_each_module_with_a_reader_is_one() -> None:
    assert {"voc"} <= readers().keys()
    assert [*readers()] == sorted(readers())
    assert {"reader", "registry"}.isdisjoint(readers())


def test_a_format_of_fewer_than_seven_in_ten_is_none() -> None:
    voc = b"<annotation><object><name>a</name><bndbox/></object></annotation>"
    other = b"<a/>"
    assert reader_of([voc] * 7 + [other] * 3, "xml") == "voc"
    assert reader_of([voc] * 6 + [other] * 3, "xml") == ""
    assert reader_of([b"", b"\n"], "xml") == ""
    assert reader_of([], "xml") == ""
    assert reader_of([voc], "txt") == ""


@pytest.fixture
def blocks_of_the_page(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Add the reader of the page, and yield the blocks of code."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    module = ModuleType(f"{room.__name__}.supervisely")
    module.__package__ = room.__name__
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(blocks[0], "supervisely.py", "exec", dont_inherit=True), module.__dict__)
    files = [*pkgutil.iter_modules(room.__path__), SimpleNamespace(name="supervisely")]
    monkeypatch.setattr(pkgutil, "iter_modules", lambda _: files)
    readers.cache_clear()
    yield blocks
    readers.cache_clear()


def test_the_page_shows_a_reader_that_works(blocks_of_the_page: list[str]) -> None:
    _, test = blocks_of_the_page
    names: dict[str, Any] = {}
    exec(compile(test, "test_supervisely.py", "exec", dont_inherit=True), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for each in tests:
        each()


@pytest.mark.parametrize(
    ("outer", "options"), [("ds0/", []), ("", []), ("ds0/", ["--group-by", "parallel"]), ("ds0/", ["--from", "folder"])]
)
def test_a_project_of_the_page_is_imported(
    blocks_of_the_page: list[str], outer: str, options: list[str], tmp_path: Path
) -> None:
    names: dict[str, Any] = {}
    exec(compile(blocks_of_the_page[1], "test_supervisely.py", "exec", dont_inherit=True), names)
    project, document = tmp_path / "project", json.dumps(names["FILE"])
    write(project, [f"{outer}img/{name}.jpg" for name in "abcd"])
    write(project, {f"{outer}ann/{name}.jpg.json": document for name in "abcd"})
    write(project, {"meta.json": '{"classes": [{"title": "cat", "shape": "rectangle"}], "tags": []}'})
    assert main(["import", str(project), str(tmp_path / "out"), "--yes", *options]) == 0
    # Only the named kind of source keeps the files as they are.
    is_raw = "--from" in options
    samples, texts = contents_of_dataset(tmp_path / "out")
    assert samples == {f"{outer}{name}": "jpg jpg.json" if is_raw else "jpg json" for name in "abcd"}
    assert is_raw or json.loads(texts[f"{outer}c.json"])["objects"][0]["bbox"] == [3, 4, 20, 30]
