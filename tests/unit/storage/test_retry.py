"""Reads that fail for a moment are repeated; others are errors with the path."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.errors import StorageError
from loader.storage import LocalStorage


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses of this test, which take no time."""
    slept: list[float] = []
    monkeypatch.setattr("loader.storage.local.time.sleep", slept.append)
    return slept


def failing(function: Callable[..., Any], number: int, times: int) -> Callable[..., Any]:
    """Return a system call that fails some times, then works."""
    left = [times]

    def call(*arguments: Any, **keywords: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return function(*arguments, **keywords)

    return call


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_read_is_repeated(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x").write_bytes(b"0123")
    with LocalStorage(tmp_path).open("x") as file:
        monkeypatch.setattr(os, "pread", failing(os.pread, number, 2))
        assert file.read_at(1, 2) == b"12"
    assert pauses == [0.1, 0.5]
    assert str(tmp_path / "x") in caplog.text


def test_opening_and_the_status_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"0123")
    storage = LocalStorage(tmp_path)
    monkeypatch.setattr(os, "open", failing(os.open, errno.ESTALE, 1))
    monkeypatch.setattr(os, "stat", failing(os.stat, errno.EIO, 3))
    assert storage.read("x") == b"0123"
    assert storage.stat("x").size_bytes == 4


def test_a_stale_handle_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"0123")
    with LocalStorage(tmp_path).open("x") as file:
        status = (tmp_path / "x").stat()
        (tmp_path / "y").write_bytes(b"4567")
        os.utime(tmp_path / "y", ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(tmp_path / "y", tmp_path / "x")
        assert file.read_at(0, 4) == b"0123"
        monkeypatch.setattr(os, "pread", failing(os.pread, errno.ESTALE, 1))
        assert file.read_at(0, 4) == b"4567"


def test_another_file_in_the_place_of_a_stale_one_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"0123")
    with LocalStorage(tmp_path).open("x") as file:
        (tmp_path / "x").unlink()
        (tmp_path / "x").write_bytes(b"longer")
        monkeypatch.setattr(os, "pread", failing(os.pread, errno.ESTALE, 1))
        with pytest.raises(StorageError, match="was replaced while it was open") as caught:
            file.read_at(0, 4)
    assert caught.value.path == str(tmp_path / "x")
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no procfs")
def test_a_read_that_keeps_failing_is_an_error_with_the_path(pauses: list[float]) -> None:
    with LocalStorage("/proc/self").open("mem") as file, pytest.raises(StorageError, match="Input/output") as caught:
        file.read_at(0, 16)  # a real EIO: nothing is mapped there
    assert caught.value.path == "/proc/self/mem"
    assert not caught.value.is_missing
    assert pauses == [0.1, 0.5, 2.0]


def test_a_missing_file_is_not_waited_for(tmp_path: Path, pauses: list[float]) -> None:
    with pytest.raises(StorageError, match="No such file") as caught:
        LocalStorage(tmp_path).open("x")
    assert caught.value.is_missing
    assert not pauses
