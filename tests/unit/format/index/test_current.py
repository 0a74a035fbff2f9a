"""Rows of the current index are copied to the next one unchanged, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from loader.errors import FormatError
from loader.format.index import writer as index_writer
from loader.format.index.dataset_index import DatasetIndex
from loader.format.index.shard_index import index_shard
from loader.format.index.writer import DuplicateKeys, IndexWriter
from loader.format.nv_meta import INDEX_FOLDER
from loader.storage import LocalStorage
from tests.malformed.tar_bytes import END, member

# The shards "empty" and "last" have no samples; "b" of "two" and "three" is a key of both.
SHARDS = {
    "empty.tar": [],
    "one.tar": ["z.txt", "a.jpg", "a.txt"],
    "three.tar": ["b.png", "c.txt"],
    "two.tar": ["b.txt", "x.jpg", "y.jpg"],
    "zlast.tar": [],
}


def write_index(
    storage: LocalStorage, uuid: str, *, shards: Sequence[str] = tuple(SHARDS), keep: Sequence[str] = (), of: str = ""
) -> DuplicateKeys:
    """Index shards, some of them with the rows of another index."""
    earlier = DatasetIndex(storage, of) if of else None
    with IndexWriter(storage, f"{INDEX_FOLDER}/{uuid}", kept=earlier) as writer:
        for name in shards:
            if earlier and name in keep:
                writer.keep(next(shard for shard in earlier.shards if shard.name == name))
            else:
                writer.add(storage.stat(name), index_shard(storage, name))
        return writer.finish(prepared_by="a test")[1]


def columns(storage: LocalStorage, uuid: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in storage.local_path(f"{INDEX_FOLDER}/{uuid}").glob("*.npy")}


def write_shard(folder: Path, name: str, members: Sequence[str]) -> None:
    (folder / name).write_bytes(b"".join(member(part.encode(), b"1" * len(part)) for part in members) + END)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """A dataset with an index named ``u``."""
    for name, members in SHARDS.items():
        write_shard(tmp_path, name, members)
    storage = LocalStorage(tmp_path)
    write_index(storage, "u")
    return storage


@pytest.mark.parametrize("rows_at_once", [1, 2, 1 << 20])
@pytest.mark.parametrize("changed", [name for name in SHARDS if name != "empty.tar"])
def test_an_index_with_kept_rows_is_the_one_of_a_scan(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, changed: str, rows_at_once: int
) -> None:
    monkeypatch.setattr(index_writer, "_ROWS_AT_ONCE", rows_at_once)
    write_shard(storage.local_path(), changed, ["b.mp3", "c.txt", "n1.txt", "n2.txt", "n2.mp3"])
    shards = [
        name for name in SHARDS if name != "empty.tar"
    ]  # the first shard is dropped, so all others get another number
    found = write_index(storage, "v", shards=shards, keep=[name for name in shards if name != changed], of="u")
    expected = write_index(storage, "w", shards=shards)
    assert columns(storage, "v") == columns(storage, "w")
    assert DatasetIndex(storage, "v").shards == DatasetIndex(storage, "w").shards
    assert DatasetIndex(storage, "v").part_stats() == DatasetIndex(storage, "w").part_stats()
    assert [(key, samples.tolist()) for key, samples in found.groups] == [
        (key, samples.tolist()) for key, samples in expected.groups
    ]


def test_shards_may_come_in_another_order(storage: LocalStorage) -> None:
    shards = ["two.tar", "one.tar", "three.tar"]
    write_index(storage, "v", shards=shards, keep=["two.tar", "three.tar"], of="u")
    write_index(storage, "w", shards=shards)
    assert columns(storage, "v") == columns(storage, "w")
    # A look-up needs ascending rows.
    index = DatasetIndex(storage, "v")
    rows = list(zip(index.key_hash.tolist(), index.key_sample.tolist(), strict=True))
    assert all(row < following for row, following in pairwise(rows))


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        ("key_hash", {0: (1 << 64) - 1}),
        ("key_hash", {3: 0}),
        ("key_sample", {2: 1 << 63}),
        ("key_sample", {2: 7}),
        ("key_sample", {0: 3, 1: 3, 2: 3}),
        ("part_ends", {1: 1 << 40}),
        ("part_ends", {2: (1 << 64) - 1}),
        ("key_ends", {1: 0}),
        ("part_name", {2: 9}),
    ],
)
@pytest.mark.parametrize("rows_at_once", [1, 1 << 20])
def test_columns_that_contradict_each_other_are_not_kept(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, column: str, rows: dict[int, int], rows_at_once: int
) -> None:
    monkeypatch.setattr(index_writer, "_ROWS_AT_ONCE", rows_at_once)
    path = storage.local_path(f"{INDEX_FOLDER}/u/{column}.npy")
    values = np.load(path)
    for row, value in rows.items():
        values[row] = value
    np.save(path, values)
    with pytest.raises(FormatError, match="columns of the index contradict each other") as caught:
        write_index(storage, "v", keep=tuple(SHARDS), of="u")
    assert caught.value.shard == str(path.parent)
    assert caught.value.hint == "run energon prepare --force-overwrite on this dataset"


def test_without_an_earlier_index_nothing_can_be_kept(storage: LocalStorage) -> None:
    entry = DatasetIndex(storage, "u").shards[1]
    with IndexWriter(storage, "v") as writer, pytest.raises(LookupError):
        writer.keep(entry)
