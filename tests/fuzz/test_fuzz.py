"""Files that were changed at random end in errors of this library; ``make fuzz`` looks for longer."""

from __future__ import annotations

import io
import json
import logging
import random
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from loader.errors import FormatError
from tests.fuzz import run
from tests.fuzz.files import write_files
from tests.fuzz.mutations import mutate
from tests.fuzz.uses import USES, Use


@pytest.mark.slow
def test_changed_files_end_in_errors_of_this_library() -> None:
    assert run.fuzz(60, first=0) == []


def _raise(folder: Path) -> str:
    raise IndexError("out of bounds")


def _write_outside(folder: Path) -> str:
    (folder.parent / "owned").touch()
    return ""


def _log(folder: Path) -> str:
    logging.getLogger("loader.test").warning("key \x1b[31m")
    return ""


def _warn(folder: Path) -> str:
    warnings.warn("key \u202e", UserWarning, stacklevel=1)
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
        (lambda folder: "a\u200bb", "a control character in the output"),
        (_log, "a control character in the output"),
        (_warn, "a control character in the output"),
        (_refuse, ""),
        (lambda folder: "error: damaged\n", ""),
    ],
)
def test_what_the_fuzzer_takes_for_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Path], str], found: str
) -> None:
    (tmp_path / "pristine").mkdir()
    (tmp_path / "pristine/a").write_bytes(b"some bytes")
    monkeypatch.setattr(run, "USES", (Use(("a",), (use,)),))
    assert [failure[: len(found)] for failure in run.run_case(tmp_path, 1)] == ([found] if found else [])


def test_a_case_is_its_number() -> None:
    data = bytes(range(256)) * 9
    assert [mutate(data, random.Random(case)) for case in range(40)] == [
        mutate(data, random.Random(case)) for case in range(40)
    ]
    assert len({mutate(data, random.Random(case)) for case in range(40)}) > 30


@pytest.mark.parametrize("suffix", [".npy", ".idx", ".json", ".pt"])
def test_structured_changes_stay_readable(suffix: str) -> None:
    file = io.BytesIO()
    if suffix == ".npy":
        np.save(file, np.arange(9))
    elif suffix == ".pt":
        torch.save({"a": [1, 2]}, file)
    else:
        file.write(b'{"a": [1, 2]}' if suffix == ".json" else bytes(range(80)))
    found = {mutate(file.getvalue(), random.Random(case), suffix) for case in range(40)}
    assert len(found) > 20
    readable = 0
    for data in found:
        with suppress(Exception):
            np.load(io.BytesIO(data)) if suffix == ".npy" else None
            json.loads(data) if suffix == ".json" else None
            torch.load(io.BytesIO(data)) if suffix == ".pt" else None
            readable += 1
    assert readable > 10


@pytest.mark.slow
def test_files_that_are_not_changed_cause_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "mutate", lambda data, chance, suffix: data)
    (tmp_path / "pristine").mkdir()
    write_files(tmp_path / "pristine")
    for case in range(len(USES)):
        assert run.run_case(tmp_path, case) == []
