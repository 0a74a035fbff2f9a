"""Disk space that is freed in pieces, and at the latest when its process ends."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loader.stores import FileStoreCachePool, SystemFileStore, scratch_file
from loader.stores.scratch_file import ScratchFile
from tests.processes import wait_until
from tests.small_disks import mounted_disk
from tests.source_tree import ROOT

BLOCK = 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    with mounted_disk(tmp_path / "disk") as disk:
        yield disk


def taken(disk: Path) -> int:
    status = os.statvfs(disk)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def write(scratch: ScratchFile, data: bytes) -> scratch_file.Extent:
    extent = scratch.reserve(len(data))
    extent.write(data)
    return extent


def test_a_piece_that_is_given_back_is_free_on_the_disk_and_the_others_stay(small_disk: Path) -> None:
    scratch = ScratchFile(small_disk, max_bytes=1 << 20)
    before = taken(small_disk)
    pieces = [write(scratch, bytes([number]) * size) for number, size in enumerate([1, BLOCK, 3 * BLOCK + 1, 0, 7])]
    assert (scratch.size_bytes, taken(small_disk) - before) == (4 * BLOCK + 9, 7 * BLOCK)
    scratch.release(pieces[2])
    assert (scratch.size_bytes, taken(small_disk) - before) == (BLOCK + 8, 3 * BLOCK)
    assert [pieces[number].read() for number in (0, 1, 3, 4)] == [b"\0", b"\1" * BLOCK, b"", b"\4" * 7]
    for number in (0, 1, 3, 4):
        scratch.release(pieces[number])
    assert scratch.size_bytes == taken(small_disk) - before == 0
    assert write(scratch, b"again").offset == 0


@pytest.fixture
def without_holes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A system without ``fallocate``, as macOS."""
    scratch_file._fallocate.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
        assert scratch_file._fallocate() is None  # and stays so, because it is cached
    yield
    scratch_file._fallocate.cache_clear()


@pytest.fixture
def without_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without ``O_TMPFILE``, as macOS."""
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)  # tempfile checks this at import


def test_without_fallocate_a_disk_has_no_holes_and_all_pieces_can_be_read(tmp_path: Path, without_holes: Any) -> None:
    scratch = ScratchFile(tmp_path, max_bytes=1 << 20)
    first, second = write(scratch, b"x" * 10), write(scratch, b"y" * BLOCK)
    assert not scratch_file._punch_hole(first.segment.fd, 0, BLOCK)
    scratch.release(first)
    assert (scratch.size_bytes, second.read()) == (10 + BLOCK, b"y" * BLOCK)
    scratch.release(second)
    assert scratch.size_bytes == 0


@pytest.mark.parametrize("method", ["raw", "pickle"])
def test_a_pool_works_without_the_calls_that_only_linux_has(
    tmp_path: Path, without_holes: Any, without_unnamed_files: Any, method: Any
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    contents = {f"{number:02d}": bytes([number]) * 3000 for number in range(30)}
    for name, data in contents.items():
        (files / name).write_bytes(data)
    size = 5 * 3033 / (1 << 30)  # a pickle has some bytes more than the file
    cache = tmp_path / "cache"
    pool = FileStoreCachePool(parent_cache_dir=cache, method=method, num_workers=2, max_cache_size_gbytes=size)
    lazies = [pool.get_lazy(SystemFileStore(files), name) for name in contents]
    wait_until(lambda: pool.fetcher.count == 5)
    assert os.listdir(cache) == []
    assert [lazy.get() for lazy in lazies] == list(contents.values())
    wait_until(lambda: pool.fetcher.size_bytes == 0)
    pool.close()


def test_where_the_disk_has_no_holes_a_segment_is_free_when_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch_file, "_punch_hole", lambda *_: False)
    scratch = ScratchFile(tmp_path, max_bytes=1 << 20)
    pieces = [write(scratch, b"x" * 10) for _ in range(3)]
    scratch.release(pieces[0])
    scratch.release(pieces[1])
    assert scratch.size_bytes == 30
    scratch.release(pieces[2])
    assert scratch.size_bytes == 0


def test_a_segment_is_closed_when_it_is_full_and_its_last_piece_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch_file, "_MIN_SEGMENT_BYTES", 2 * BLOCK)
    scratch = ScratchFile(tmp_path, max_bytes=8 * BLOCK)
    pieces = [write(scratch, bytes([number])) for number in range(5)]
    assert len({piece.segment.fd for piece in pieces}) == 3
    fd = pieces[0].segment.fd
    for piece in pieces[:2]:
        scratch.release(piece)
    del piece, pieces[:2]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert [piece.read() for piece in pieces] == [b"\2", b"\3", b"\4"]
    assert scratch.size_bytes == 3


@pytest.mark.parametrize("method", ["raw", "pickle"])
def test_on_a_full_disk_files_are_read_when_they_are_got_and_one_warning_says_so(
    small_disk: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: Any
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    contents = {f"{number:02d}": bytes([number]) * 60_000 for number in range(40)}
    for name, data in contents.items():
        (files / name).write_bytes(data)
    pool = FileStoreCachePool(parent_cache_dir=small_disk, method=method, num_workers=3)
    with caplog.at_level(logging.WARNING):
        lazies = [pool.get_lazy(SystemFileStore(files), name) for name in contents]
        value = bytes(900_000)
        values = [pool.to_cache(value, "value") for _ in range(3)]
        assert [lazy.get() for lazy in lazies] == list(contents.values())
        assert all(lazy.get() == value for lazy in values)
    assert len(caplog.records) == 1
    assert "cannot cache all files" in caplog.text
    assert "No space left on device" in caplog.text
    wait_until(lambda: pool.fetcher.size_bytes == 0)
    pool.close()
    del lazies, values
    assert taken(small_disk) == 0


HOLDER = """
import sys, time
from loader.stores import FileStoreCachePool, SystemFileStore

pool = FileStoreCachePool(parent_cache_dir=sys.argv[1])
lazies = [pool.get_lazy(SystemFileStore(sys.argv[2]), name) for name in ("a", "b")]
while pool.fetcher.size_bytes < 2 * 200_000 or any(e.state.name != "CACHED" for e in pool.fetcher._entries.values()):
    time.sleep(0.01)
print("there", flush=True)
if sys.argv[3] == "raise":
    raise SystemExit(3)
time.sleep(60)
"""


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM", "raise"])
def test_nothing_is_left_on_the_disk_however_a_process_ends(small_disk: Path, tmp_path: Path, end: str) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for name in "ab":
        (files / name).write_bytes(bytes(200_000))
    command = [sys.executable, "-c", HOLDER, str(small_disk), str(files), end]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        if end != "raise":
            assert taken(small_disk) >= 400_000
            assert os.listdir(small_disk) == []
            process.send_signal(getattr(signal, end))
        process.wait(20)
    assert process.returncode == (3 if end == "raise" else -getattr(signal, end))
    deadline = time.monotonic() + 5
    while taken(small_disk) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (taken(small_disk), os.listdir(small_disk)) == (0, [])
