"""Disks that are soon full, and folders that cannot be written."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk of 1 MiB at a new folder; skip the test if that is not permitted."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "umount2"):
        pytest.skip("this is not Linux")
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=1m") != 0:
        pytest.skip(f"no permission to mount a disk: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        libc.umount2(str(folder).encode(), 2)  # MNT_DETACH


_BIND, _READ_ONLY_AGAIN = 4096, 4096 | 32 | 1  # MS_BIND; MS_BIND | MS_REMOUNT | MS_RDONLY


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """Forbid writing to a folder, for root too; skip the test if that is not permitted."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        try:
            yield folder
        finally:
            folder.chmod(0o755)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    path = str(folder).encode()
    if not hasattr(libc, "umount2"):
        pytest.skip("this is not Linux")
    if libc.mount(path, path, None, _BIND, None) != 0:
        pytest.skip(f"no permission to mount a folder: {os.strerror(ctypes.get_errno())}")
    try:
        assert libc.mount(None, path, None, _READ_ONLY_AGAIN, None) == 0
        yield folder
    finally:
        libc.umount2(path, 2)  # MNT_DETACH
