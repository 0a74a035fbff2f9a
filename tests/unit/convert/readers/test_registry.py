"""Readers are found by their folder, and a page shows how to add one by a package."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from loader.convert.readers import registry
from loader.convert.readers.registry import reader_of, readers
from loader.errors import ConfigError
from tests.installed_package import blocks_of, install
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed package of the page."""
    return install(PAGE, tmp_path_factory.mktemp("package"))


@pytest.fixture
def tests_of_the_page(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Add the reader of the page, and yield the names in its test."""
    monkeypatch.syspath_prepend(site)
    readers.cache_clear()
    names: dict[str, Any] = {}
    exec(compile(blocks_of(PAGE, "python")[1], "test_supervisely.py", "exec", dont_inherit=True), names)
    yield names
    sys.modules.pop("supervisely_reader", None)
    readers.cache_clear()


def test_the_page_shows_a_reader_that_works(tests_of_the_page: dict[str, Any]) -> None:
    tests = [value for name, value in tests_of_the_page.items() if name.startswith("test_")]
    assert len(tests) == 2
    for each in tests:
        each()


@pytest.mark.parametrize(
    ("outer", "options"), [("ds0/", []), ("", []), ("ds0/", ["--group-by", "parallel"]), ("ds0/", ["--from", "folder"])]
)
def test_a_project_of_the_page_is_imported(
    tests_of_the_page: dict[str, Any], outer: str, options: list[str], tmp_path: Path
) -> None:
    project, document = tmp_path / "project", json.dumps(tests_of_the_page["FILE"])
    write(project, [f"{outer}img/{name}.jpg" for name in "abcd"])
    write(project, {f"{outer}ann/{name}.jpg.json": document for name in "abcd"})
    write(project, {"meta.json": '{"classes": [{"title": "cat", "shape": "rectangle"}], "tags": []}'})
    assert main(["import", str(project), str(tmp_path / "out"), "--yes", *options]) == 0
    # Only the named kind of source keeps the files as they are.
    is_raw = "--from" in options
    samples, texts = contents_of_dataset(tmp_path / "out")
    assert samples == {f"{outer}{name}": "jpg jpg.json" if is_raw else "jpg json" for name in "abcd"}
    assert is_raw or json.loads(texts[f"{outer}c.json"])["objects"][0]["bbox"] == [3, 4, 20, 30]


def test_an_installed_reader_does_not_replace_one_of_this_library(
    tests_of_the_page: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "extension_names", lambda _: ["voc"])
    with pytest.raises(ConfigError, match="adds a reader 'voc', which this library has already"):
        readers()
