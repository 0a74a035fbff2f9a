"""Shards in an object store are indexed as files are, by few requests."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest

from loader.errors import FormatError
from loader.format.index import remote_shard
from loader.format.index.remote_shard import RemoteIndexer, ScanMode
from loader.format.index.shard_index import ShardIndex, encode_shard_index, index_shard
from loader.storage import FileInfo, LocalStorage, RemoteStorage
from tests.e2e.dataset_tree import write_tar

MIB = 1 << 20


class Arrived:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def result(self) -> bytes:
        return self._data


class CountingStore:
    """A folder that is read as an object store is, and counts requests."""

    url = "s3://bucket"

    def __init__(self, folder: Path) -> None:
        self._folder = LocalStorage(folder)
        self.requests: list[tuple[int, int]] = []

    def path(self, name: str) -> str:
        return self._folder.path(name)

    def fetch_range(self, info: FileInfo, start: int, stop: int, *, is_sparse: bool = False) -> Arrived:
        assert 0 <= start < stop <= info.size_bytes
        self.requests.append((start, stop))
        return Arrived(self._folder.read(info.name, start, stop))


def index_far(folder: Path, mode: ScanMode, *, at_once: int = 1) -> tuple[ShardIndex, list[tuple[int, int]]]:
    store = CountingStore(folder)
    indexer = RemoteIndexer(cast("RemoteStorage", cast("Any", store)), mode, at_once=at_once)
    shard = LocalStorage(folder).stat("s.tar")
    try:
        return indexer.index(shard), store.requests
    finally:
        assert indexer._buffered._left == remote_shard._MAX_BUFFERED


def write_hollow(path: Path, sizes: list[int]) -> int:
    """Write a tar of members of these sizes, whose contents are holes; return its size."""
    with path.open("wb") as file:
        for number, size in enumerate(sizes):
            member = tarfile.TarInfo(f"{number:06}.bin")
            member.size = size
            file.write(member.tobuf())
            file.seek(-(-size // 512) * 512, 1)
        file.write(bytes(1024))
    return path.stat().st_size


@pytest.mark.parametrize("mode", ["auto", "hop", "stream"])
@pytest.mark.parametrize("stream_bytes", [512, 1536, 4096, 16 * MIB])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.sampled(3)
def test_any_way_of_scanning_finds_what_a_local_scan_finds(
    tmp_path: Path, mode: ScanMode, stream_bytes: int, form: int
) -> None:
    for seed in range(10):
        random.seed(seed)
        sizes = random.choices([0, 10, 511, 512, 3000, 20_000], k=random.randrange(40))
        names = [f"{'long' * 20 * (n % 3 == 0 and form != tarfile.USTAR_FORMAT)}{n // 2}.{n % 2}" for n in range(40)]
        write_tar(tmp_path / "s.tar", [(names[n], bytes(size)) for n, size in enumerate(sizes)], form=form)
        expected = index_shard(LocalStorage(tmp_path), "s.tar")
        with mock.patch.object(remote_shard, "_STREAM_BYTES", stream_bytes):
            index, _ = index_far(tmp_path, mode)
        assert encode_shard_index(index) == encode_shard_index(expected)


def test_a_hop_takes_one_request(tmp_path: Path) -> None:
    write_hollow(tmp_path / "s.tar", [600_000] * 200)
    index, requests = index_far(tmp_path, "hop")
    assert len(index) == 200
    assert len(requests) <= 1.05 * 200
    assert sum(stop - start for start, stop in requests) < 200 * 4096 + 20_000


def test_small_neighbours_share_a_hop(tmp_path: Path) -> None:
    write_hollow(tmp_path / "s.tar", [600_000, 100, 300] * 100)
    _, requests = index_far(tmp_path, "hop")
    assert len(requests) <= 1.05 * 101


@pytest.mark.parametrize("mode", ["auto", "stream"])
def test_a_streamed_shard_takes_a_request_for_each_16_mib(tmp_path: Path, mode: ScanMode) -> None:
    size = write_hollow(tmp_path / "s.tar", [50_000] * 1500)
    index, requests = index_far(tmp_path, mode)
    assert len(index) == 1500
    assert len(requests) <= size / (16 * MIB) + 2


def test_a_stream_skips_what_lies_inside_a_large_member(tmp_path: Path) -> None:
    write_hollow(tmp_path / "s.tar", [100, 400 * MIB, 100])
    index, requests = index_far(tmp_path, "stream")
    assert np.diff(index.part_ends, prepend=0).tolist() == [1, 1, 1]
    assert sum(stop - start for start, stop in requests) < 160 * MIB


@pytest.mark.parametrize(("sizes", "is_streamed"), [([20_000] * 100, True), ([30 * MIB] * 20, False)])
def test_auto_hops_over_large_members(tmp_path: Path, sizes: list[int], is_streamed: bool) -> None:
    size = write_hollow(tmp_path / "s.tar", sizes)
    _, requests = index_far(tmp_path, "auto", at_once=64)
    fetched = sum(stop - start for start, stop in requests)
    assert (fetched > size / 2) == is_streamed


def test_a_damaged_shard_gives_back_what_it_has_buffered(tmp_path: Path) -> None:
    write_hollow(tmp_path / "s.tar", [50_000] * 900)
    with (tmp_path / "s.tar").open("r+b") as file:
        file.seek(512 + 50_176)
        file.write(b"x" * 512)
    modes: tuple[ScanMode, ...] = ("hop", "stream")
    for mode in modes:
        with pytest.raises(FormatError) as caught:
            index_far(tmp_path, mode)
        assert "s.tar" in str(caught.value)
