"""Columns on disk, where the process or the file is at fault."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest

from loader.errors import FormatError, StorageError
from loader.format.index.npy_column import map_column
from loader.storage import open_storage


def test_a_process_without_free_descriptors_blames_its_limit_and_no_file(tmp_path: Path) -> None:
    np.save(tmp_path / "column.npy", np.arange(4, dtype=np.int64))
    storage = open_storage(str(tmp_path))
    assert map_column(storage, "column.npy", "<i8").tolist() == [0, 1, 2, 3]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while taken[-1] <= highest:  # gaps below the highest descriptor
            taken.append(os.open(os.devnull, os.O_RDONLY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1, limits[1]))
        with pytest.raises(StorageError, match="cannot map this column: Too many open files") as caught:
            map_column(storage, "column.npy", "<i8")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)
    assert caught.value.hint == "raise the limit of open files (ulimit -n)"


def test_a_missing_column_blames_the_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot map this column"):
        map_column(open_storage(str(tmp_path)), "column.npy", "<i8")
