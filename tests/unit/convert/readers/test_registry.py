"""Readers are found by their folder, and a page shows how to add one."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from loader.convert import readers as room
from loader.convert.readers import registry
from loader.convert.readers.registry import reader_of, readers
from tests.source_tree import ROOT


def test_each_module_with_a_reader_is_one() -> None:
    assert {"voc"} <= readers().keys()
    assert [*readers()] == sorted(readers())
    assert {"reader", "registry"}.isdisjoint(readers())


def test_a_format_of_fewer_than_nine_in_ten_is_none() -> None:
    voc = b"<annotation><object><name>a</name><bndbox/></object></annotation>"
    other = b"<a/>"
    assert reader_of([voc] * 9 + [other], "xml") == "voc"
    assert reader_of([voc] * 8 + [other], "xml") == ""
    assert reader_of([b"", b"\n"], "xml") == ""
    assert reader_of([], "xml") == ""
    assert reader_of([voc], "txt") == ""


def test_the_page_shows_a_reader_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "write-a-reader.md").read_text("utf-8")
    code, test = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    module = ModuleType(f"{room.__name__}.supervisely")
    module.__package__ = room.__name__
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "supervisely.py", "exec", dont_inherit=True), module.__dict__)
    added: Mapping[str, Any] = {**readers(), "supervisely": module.READER}
    monkeypatch.setattr(registry, "readers", lambda: added)
    names: dict[str, Any] = {}
    exec(compile(test, "test_supervisely.py", "exec", dont_inherit=True), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for each in tests:
        each()
