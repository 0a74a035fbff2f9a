"""Find the shards below a folder in their order, and scan them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from loader.errors import ConfigError, FormatError, StorageError
from loader.format.prepare import shards as module
from loader.format.prepare.plan import PrepareProgress
from loader.format.prepare.shards import ShardScans, find_shards
from loader.storage import FileInfo, LocalStorage


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
    assert find_shards(storage).size_bytes == 10 * len(ordered)


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
    assert ([shard.name for shard in search.shards], search.excluded) == (["train/1.tar"], 2)
    assert names(storage, exclude="1") == ["val/2.tar"]
    with pytest.raises(StorageError, match=r"--exclude matches all 3 \.tar files"):
        find_shards(storage, exclude="tar")


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<a>x)(?P<a>y)"])
def test_a_pattern_that_is_none_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        find_shards(make(tmp_path, "a.tar"), exclude=pattern)


def test_a_folder_of_compressed_shards_is_told_how_to_unpack_them(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"3 compressed ones without random access, first a\.tar\.gz") as caught:
        find_shards(make(tmp_path, "a.tar.gz", "b.tgz", "c.TAR.ZST", "d.gz"))
    assert "gunzip" in (caught.value.hint or "")


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

    def run_in_order(
        function: Callable[[FileInfo], FormatError], items: Sequence[FileInfo], *, workers: int
    ) -> Iterator[tuple[int, FormatError]]:
        yield from ((number, function(items[number])) for number in order)

    monkeypatch.setattr(module, "run_in_workers", run_in_order)
    shards = find_shards(storage).shards
    progress: list[PrepareProgress] = []
    scans = ShardScans(storage, shards, total=5, workers=3, on_progress=progress.append)
    with pytest.raises(FormatError, match="3 shards cannot be indexed") as caught:
        scans.wait_for(shards[0])
    assert all(storage.path(shard.name) in caught.value.message for shard in shards)
    assert [(now.shards_done, now.shards_total) for now in progress] == [(2, 5)]
