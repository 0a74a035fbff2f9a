"""Find the shards below a folder in their order, and scan them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loader.engine import Engine
from loader.errors import ConfigError, FormatError, StorageError
from loader.format.index.journal import StoredScans
from loader.prepare import scans as module
from loader.prepare.plan import PrepareProgress, ScanHow
from loader.prepare.scans import ShardScans
from loader.prepare.shards import find_shards
from loader.storage import FileInfo, LocalStorage
from tests.malformed.tar_bytes import END, member


def make(folder: Path, *names: str) -> LocalStorage:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
    return LocalStorage(folder)


def names(storage: LocalStorage, exclude: str | None = None) -> list[str]:
    return [shard.name for shard in find_shards(storage, exclude=exclude).shards]


def test_shards_are_sorted_by_the_parts_of_their_paths(tmp_path: Path) -> None:
    ordered = [
        "B.tar",
        "a/b/c.tar",
        "a/part_1.tar",
        "a/z.tar",
        "a b.tar",
        "a-b/q.tar",
        "a.tar",
        "b/s1.tar",
        "b/s10.tar",
        "b/s2.tar",
        "zz.tar",
        "é.tar",
    ]
    storage = make(tmp_path, *reversed(ordered))
    assert names(storage) == ordered
    assert {shard.size_bytes for shard in find_shards(storage).shards} == {10}


def test_only_tar_files_that_are_not_hidden_are_shards(tmp_path: Path) -> None:
    storage = make(
        tmp_path, "a.tar", "b.TAR", ".c.tar", ".d/e.tar", ".nv-meta/f.tar", "g.tar.idx", "h.txt", "tar", "x.tgz"
    )
    (tmp_path / "folder.tar").mkdir()
    os.symlink("nowhere", tmp_path / "dangling.tar")
    os.mkfifo(tmp_path / "pipe.tar")
    assert names(storage) == ["a.tar"]
    assert find_shards(storage).compressed == ("x.tgz",)


def test_linked_shards_and_folders_are_followed(tmp_path: Path) -> None:
    make(tmp_path, "far/a.tar")
    storage = make(tmp_path / "data", "b.tar")
    os.symlink(tmp_path / "far", tmp_path / "data" / "near")
    os.symlink(tmp_path / "far" / "a.tar", tmp_path / "data" / "link.tar")
    assert names(storage) == ["b.tar", "link.tar", "near/a.tar"]


def test_names_that_are_no_utf8_survive(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.tar", os.O_CREAT))
    assert names(LocalStorage(tmp_path)) == ["\udcff.tar"]


def test_excluded_shards_are_counted(tmp_path: Path) -> None:
    storage = make(tmp_path, "train/1.tar", "val/1.tar", "val/2.tar")
    search = find_shards(storage, exclude="^val/")
    assert [shard.name for shard in search.shards] == ["train/1.tar"]
    assert names(storage, exclude="1") == ["val/2.tar"]
    with pytest.raises(StorageError, match=r"--exclude matches all 3 \.tar files"):
        find_shards(storage, exclude="tar")


def test_compressed_shards_that_are_excluded_or_decompressed_need_no_warning(tmp_path: Path) -> None:
    storage = make(tmp_path, "a.tar", "a.tgz", "b.tar.xz", "c.tar.zst")
    assert find_shards(storage).compressed == ("b.tar.xz", "c.tar.zst")
    assert find_shards(storage, exclude="^b").compressed == ("c.tar.zst",)


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<a>x)(?P<a>y)"])
def test_a_pattern_that_is_none_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        find_shards(make(tmp_path, "a.tar"), exclude=pattern)


def test_a_folder_of_compressed_shards_is_told_how_to_unpack_them(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"3 compressed ones without random access, first a\.tar\.gz") as caught:
        find_shards(make(tmp_path, "a.tar.gz", "b.tgz", "c.TAR.ZST", "d.gz"))
    assert (caught.value.hint or "").endswith("--decompress")


def test_a_folder_without_shards_or_none_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no \.tar files here") as caught:
        find_shards(make(tmp_path, "a.txt"))
    assert caught.value.path == str(tmp_path)
    with pytest.raises(StorageError, match="does not exist"):
        find_shards(LocalStorage(tmp_path / "missing"))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_every_shard_that_cannot_be_scanned_is_named_in_whatever_order_the_results_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: list[int]
) -> None:
    storage = make(tmp_path, "a.tar", "b.tar", "c.tar")  # too short for a tar file

    def stream_in_order(
        _: Engine, function: Callable[[Any], Iterator[Any]], items: Sequence[Any], **__: object
    ) -> Iterator[tuple[int, Any]]:
        yield from ((number, result) for number in order for result in function(items[number]))

    monkeypatch.setattr(Engine, "stream", stream_in_order)
    shards = find_shards(storage).shards
    progress: list[PrepareProgress] = []
    scans = ShardScans(
        storage,
        storage,
        StoredScans(storage),
        shards,
        ScanHow(engine=Engine(workers=3), on_progress=progress.append),
        total=5,
    )
    with pytest.raises(FormatError, match="3 shards cannot be indexed") as caught:
        scans.wait_for(shards[0])
    assert all(storage.path(shard.name) in caught.value.message for shard in shards)
    assert [(now.shards_done, now.shards_total) for now in progress] == [(2, 5)]


def test_many_small_shards_are_scanned_in_groups_and_resumed_one_by_one(tmp_path: Path) -> None:
    for number in range(300):
        name = f"{number:03}"
        (tmp_path / f"{name}.tar").write_bytes(member(f"{name}.txt".encode(), b"1") + END)
    storage = LocalStorage(tmp_path)
    shards, journal = find_shards(storage).shards, StoredScans(storage)
    progress: list[PrepareProgress] = []
    with closing(
        ShardScans(
            storage, storage, journal, shards, ScanHow(engine=Engine(workers=2), on_progress=progress.append), total=300
        )
    ) as scans:
        for shard in shards:
            scans.wait_for(shard)
            index = journal.load(shard)
            assert index is not None
            assert index.keys() == [shard.name.removesuffix(".tar")]
    files = list((tmp_path / ".nv-meta/.prepare/scans").iterdir())
    assert 16 <= len(files) <= 20  # each worker gets several
    assert progress[-1].shards_done == progress[-1].samples == 300
    again = StoredScans(storage)
    assert all(again.has(shard) for shard in shards)


def test_a_large_shard_is_a_group_of_its_own() -> None:
    sizes = [10 << 20, 10 << 20, 60 << 20, 30 << 20, 1 << 20, 40 << 20]
    shards = [FileInfo(name=f"{number}.tar", size_bytes=size, mtime_ns=0) for number, size in enumerate(sizes)]
    groups = module._groups(shards * 20, workers=1)
    assert [shard.size_bytes >> 20 for group in groups[:5] for shard in group] == [10, 10, 60, 30, 1, 40, 10, 10]
    assert [len(group) for group in groups[:4]] == [2, 1, 2, 1]
    assert groups[0].name == "2 shards from 0.tar to 1.tar"
    assert [len(group) for group in module._groups(shards[:3], workers=2)] == [1, 1, 1]
