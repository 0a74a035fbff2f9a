"""Shards that are written with their index have the bytes of tarfile, and the index of a scan."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loader.convert.writing.shard_file import FileContents, ShardFile, member_bytes, plain_header
from loader.errors import StorageError
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.storage import LocalStorage

Parts = dict[str, bytes | FileContents]


def write_shard(folder: Path, samples: list[tuple[str, Parts]]) -> ShardIndex:
    with LocalStorage(folder).create("s.tar") as file:
        shard = ShardFile(file)
        for key, parts in samples:
            shard.write(key, parts)
        return shard.finish()


def assert_same(index: ShardIndex, scanned: ShardIndex) -> None:
    for one in dataclasses.fields(ShardIndex):
        value, expected = getattr(index, one.name), getattr(scanned, one.name)
        same = np.array_equal(value, expected) if isinstance(value, np.ndarray) else value == expected
        assert same, one.name


def test_the_index_is_that_of_a_scan(tmp_path: Path) -> None:
    samples: list[tuple[str, Parts]] = []
    for number in range(5000):  # more than a batch of headers
        key = f"{number:06d}" if number % 7 else f"{'folder/' * 30}ü{number}"
        parts: Parts = {"jpg": bytes(number % 1500), "txt": b"text", "seg.png": b""}
        if number % 100 == 0:
            parts["mp4"] = FileContents(io.BytesIO(b"video" * 1000), 5000)
        samples.append((key, parts))
    assert_same(write_shard(tmp_path, samples), index_shard(LocalStorage(tmp_path), "s.tar"))
    with tarfile.open(tmp_path / "s.tar") as tar:
        names = tar.getnames()
    assert names[:4] == [f"{'folder/' * 30}ü0.{part}" for part in ("jpg", "mp4", "seg.png", "txt")]


def test_a_shard_without_samples_has_an_empty_index(tmp_path: Path) -> None:
    assert len(write_shard(tmp_path, [])) == 0
    with tarfile.open(tmp_path / "s.tar") as tar:
        assert tar.getnames() == []


@given(
    name=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=120),
    size=st.integers(0, 8**11 + 5),
)
def test_a_header_has_the_bytes_of_tarfile(name: str, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    header = plain_header(name.encode(), size)
    expected = member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    assert header == expected if len(expected) == 512 and size < 8**11 else header is None


@given(
    key=st.text(st.characters(exclude_characters="\0/.", codec="utf-8"), min_size=1, max_size=200),
    sizes=st.lists(st.integers(0, 2000), min_size=1, max_size=4),
)
def test_the_size_of_a_shard_is_known_before_it_is_written(key: str, sizes: list[int]) -> None:
    shard = ShardFile(io.BytesIO())
    shard.write(key, {f"p{number}": bytes(size) for number, size in enumerate(sizes)})
    names = (f"{key}.p{number}".encode() for number in range(len(sizes)))
    assert shard.size_bytes == sum(member_bytes(len(name), size) for name, size in zip(names, sizes, strict=True))


def test_a_file_that_ends_early_damages_no_shard_unnoticed(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="ended 20 bytes early"):
        write_shard(tmp_path, [("a", {"mp4": FileContents(io.BytesIO(b"x" * 80), 100)})])
    assert not (tmp_path / "s.tar").exists()


def test_writing_imports_no_torch() -> None:
    code = "import io, sys; from loader.convert.writing.shard_file import ShardFile; ShardFile(io.BytesIO());"
    done = subprocess.run(
        [sys.executable, "-c", code + "print('torch' in sys.modules)"], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr
