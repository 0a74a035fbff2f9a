"""Files that were changed at random end in errors of this library; ``make fuzz`` looks for longer."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.errors import FormatError
from tests.fuzz import run
from tests.fuzz.mutations import mutate
from tests.fuzz.uses import Use


@pytest.mark.slow
def test_changed_files_end_in_errors_of_this_library() -> None:
    assert run.fuzz(60, first=0) == []


def _raise(folder: Path) -> str:
    raise IndexError("out of bounds")


def _write_outside(folder: Path) -> str:
    (folder.parent / "owned").touch()
    return ""


def _refuse(folder: Path) -> str:
    raise FormatError("damaged")


@pytest.mark.parametrize(
    ("use", "found"),
    [
        (_raise, "IndexError: out of bounds"),
        (_write_outside, "files outside of the dataset"),
        (lambda folder: "\x1b[31m", "a control character in the output"),
        (lambda folder: "\u202e", "a control character in the output"),
        (lambda folder: "error: x\n  this is a bug or", "a fault of the program"),
        (_refuse, ""),
        (lambda folder: "error: damaged\n", ""),
    ],
)
def test_what_the_fuzzer_takes_for_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Path], str], found: str
) -> None:
    (tmp_path / "pristine").mkdir()
    (tmp_path / "pristine/a").write_bytes(b"some bytes")
    monkeypatch.setattr(run, "USES", (Use(("a",), use),))
    assert [failure[: len(found)] for failure in run.run_case(tmp_path, 1)] == ([found] if found else [])


def test_a_case_is_its_number() -> None:
    data = bytes(range(256)) * 9
    assert [mutate(data, random.Random(case)) for case in range(40)] == [
        mutate(data, random.Random(case)) for case in range(40)
    ]
    assert len({mutate(data, random.Random(case)) for case in range(40)}) > 30
