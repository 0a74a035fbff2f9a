"""Files mapped into memory."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from loader.storage import map_file, memory_map


@pytest.fixture(params=["C library", "Python"])
def caller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a test with each ``mmap``: Python's serves if the C library cannot be found."""

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError("no dynamic linking here")

    memory_map._libc_calls.cache_clear()
    if request.param == "Python":
        monkeypatch.setattr(ctypes, "CDLL", refuse)
    yield request.param
    memory_map._libc_calls.cache_clear()


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def is_open(path: Path) -> bool:
    """Return True if a file descriptor of this process is one of the file."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            if os.readlink(descriptor) == str(path):
                return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_map_takes_no_file_descriptor_and_ends_with_what_looks_into_it(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(5000).tobytes())
    numbers = np.frombuffer(map_file(path), np.int64)
    some = numbers[10:20]
    del numbers
    assert some.tolist() == list(range(10, 20))
    assert (is_open(path), is_mapped(path)) == (False, True)
    del some
    assert not is_mapped(path)


def test_a_file_is_mapped_by_either_call(tmp_path: Path, caller: str) -> None:
    (tmp_path / "numbers").write_bytes(np.arange(5000).tobytes())
    numbers = np.frombuffer(map_file(tmp_path / "numbers"), np.int64)
    assert np.array_equal(numbers, np.arange(5000))


def test_a_file_that_is_removed_stays_mapped(tmp_path: Path, caller: str) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"x" * 10_000)
    mapped = map_file(path)
    path.unlink()
    assert bytes(mapped) == b"x" * 10_000


def test_what_cannot_be_mapped_is_an_error(tmp_path: Path, caller: str) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(OSError, match="Invalid argument"):
        map_file(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        map_file(tmp_path / "gone")
