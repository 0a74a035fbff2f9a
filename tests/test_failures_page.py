"""The page about failures: its links lead to tests, and its texts are those of the code or of the tests."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.source_tree import ROOT, sources

PAGE = ROOT / "docs/how-to/what-happens-when.md"
JOBS = ROOT / "tests/e2e/no_hang_jobs.py"
LINK = re.compile(r"\[([^\]]+)\]\((\.\./\.\./tests/[^ )]+)(?: \"(\w+)\")?\)")
_MIN_LETTERS = 4  # of a text that is compared


def rows() -> list[list[str]]:
    """Return the cells of the rows that link to tests."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if LINK.search(line)]


def linked_tests(row: list[str]) -> list[tuple[str, Path, str | None]]:
    """Return the text, the file and the function of each link of a row."""
    return [
        (text, (PAGE.parent / target).resolve(), name or None) for text, target, name in LINK.findall(" ".join(row))
    ]


@cache
def texts_of_the_code() -> str:
    """Return all literal texts of the packages, and the errors of the system, a line each."""
    of_system = [os.strerror(number) for number in errno.errorcode]
    return "\n".join([*of_system, *(text for source in sources() for text in _texts(source.tree))])


def _texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def quoted_fragments(cells: list[str]) -> Iterator[str]:
    """Yield the fixed parts of the texts in cells: those between ``…``, of quotations with a space in them."""
    for quotation in re.findall(r"`([^`]+)`", " ".join(cells)):
        if " " in quotation:
            yield from (part.strip() for part in quotation.split("…") if len(part.strip()) >= _MIN_LETTERS)


def test_every_row_leads_to_tests_that_exist() -> None:
    events = set(re.findall(r'^    "([^"]+)": Event\(', JOBS.read_text(encoding="utf-8"), flags=re.MULTILINE))
    shown = set()
    for row in rows():
        for text, file, name in linked_tests(row):
            assert file.is_file(), f"{row[0]}: there is no {file}"
            if file.name == "test_no_hang.py":
                assert text in events, f"{row[0]}: there is no event {text!r}"
                shown.add(text)
            else:
                assert name is not None, f"{row[0]}: the link names no test"
                assert re.search(rf"^def {name}\(", file.read_text(encoding="utf-8"), flags=re.MULTILINE), name
    assert shown == events


def test_every_quoted_text_is_one_of_the_code_or_of_its_test() -> None:
    unknown = []
    for row in rows():
        files = [file for _, file, _ in linked_tests(row)] + [JOBS]
        tested = "\n".join(file.read_text(encoding="utf-8") for file in files)
        unknown += [
            f"{row[0]}: {text}"
            for text in quoted_fragments(row[1:-1])
            if text not in texts_of_the_code() and text not in tested
        ]
    assert not unknown
