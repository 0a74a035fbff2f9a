"""``SECURITY.md`` names a test for each promise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (?P<promise>.+?) \| `(?P<path>tests/[\w/]+\.py)::(?P<name>\w+)` \|$")


def promises() -> list[str]:
    section = (
        (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## What is promised")[2].partition("\n## ")[0]
    )
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [row for row in rows[1:] if not row.endswith("| |")]  # without the header and the headings


def test_each_promise_has_a_test_that_exists() -> None:
    rows = promises()
    assert len(rows) > 40
    for row in rows:
        match = ROW.match(row)
        assert match, f"expected a sentence and path::name of a test, found {row}"
        file = ROOT / match["path"]
        assert file.exists(), row
        names = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
        assert match["name"] in names, row


def test_no_promise_is_given_twice() -> None:
    rows = promises()
    assert len(set(rows)) == len(rows)
