"""Files mapped into memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from loader.storage import map_file


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_a_map_takes_no_file_descriptor_and_ends_with_what_looks_into_it(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(5000).tobytes())
    before = len(os.listdir("/proc/self/fd"))
    numbers = np.frombuffer(map_file(path), np.int64)
    some = numbers[10:20]
    del numbers
    assert some.tolist() == list(range(10, 20))
    assert (len(os.listdir("/proc/self/fd")), is_mapped(path)) == (before, True)
    del some
    assert not is_mapped(path)


def test_a_file_that_is_removed_stays_mapped(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"x" * 10_000)
    mapped = map_file(path)
    path.unlink()
    assert bytes(mapped) == b"x" * 10_000


def test_what_cannot_be_mapped_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(OSError, match="Invalid argument"):
        map_file(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        map_file(tmp_path / "gone")
