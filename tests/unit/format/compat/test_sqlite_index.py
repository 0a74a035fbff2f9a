"""Write an ``index.sqlite`` with the rows that other readers of the format expect."""

from __future__ import annotations

import resource
import signal
import sqlite3
from concurrent.futures import CancelledError
from contextlib import closing
from pathlib import Path

import pytest

from loader.errors import StorageError
from loader.format.compat import sqlite_index as sqlite_index_module
from loader.format.compat.sqlite_index import BackgroundIndexWriter, NotPatchable
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.storage import LocalStorage
from tests.malformed.tar_bytes import END, member

Rows = tuple[list[tuple[object, ...]], list[tuple[object, ...]]]


def indexed(folder: Path, *names: str | bytes) -> ShardIndex:
    members = [member(name if isinstance(name, bytes) else name.encode(), b"hello") for name in names]
    (folder / "s.tar").write_bytes(b"".join(members) + END)
    return index_shard(LocalStorage(folder), "s.tar")


def rows_of(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as database:
        return (
            database.execute("SELECT * FROM samples ORDER BY tar_file_id, sample_index").fetchall(),
            database.execute("SELECT * FROM sample_parts ORDER BY 1, 2, 4").fetchall(),
        )


def write(path: Path, *shards: ShardIndex) -> None:
    with closing(BackgroundIndexWriter(path)) as writer:
        for number, shard in enumerate(shards):
            writer.add(number, shard)
        assert writer.finish()


@pytest.mark.parametrize("rows_at_once", [1, 2, 20_000])
def test_the_rows_are_those_of_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int) -> None:
    monkeypatch.setattr(sqlite_index_module, "_ROWS_AT_ONCE", rows_at_once)
    first = indexed(tmp_path, "a.txt", "README", "a.jpg", "é.txt", "c.")
    second = indexed(tmp_path, "d.txt", "d.txt")
    write(tmp_path / "i.sqlite", first, indexed(tmp_path, "README"), second)
    assert rows_of(tmp_path / "i.sqlite") == (
        [(0, "a", 0, 0, 3072), (0, "é", 1, 3072, 1024), (0, "c", 2, 4096, 1024), (2, "d", 0, 0, 2048)],
        [
            (0, 0, "txt", 512, 5),
            (0, 0, "jpg", 2560, 5),
            (0, 1, "txt", 3584, 5),
            (0, 2, "", 4608, 5),
            (2, 0, "txt", 512, 5),
            (2, 0, "txt", 1536, 5),
        ],
    )


def test_many_rows_arrive_whole(tmp_path: Path) -> None:
    index = indexed(tmp_path, *[f"{number}.{part}" for number in range(150) for part in ("a", "b", "c")])
    write(tmp_path / "i.sqlite", index)
    samples, parts = rows_of(tmp_path / "i.sqlite")
    assert [row[1] for row in samples] == [str(number) for number in range(150)]
    assert [row[1:3] for row in parts] == [(number, part) for number in range(150) for part in "abc"]


def test_a_key_of_two_shards_is_refused(tmp_path: Path) -> None:
    for patched in (False, True):
        path = tmp_path / f"{patched}.sqlite"
        if patched:
            write(tmp_path / "earlier.sqlite", indexed(tmp_path, "a.txt"))
        writer = BackgroundIndexWriter(path, earlier=tmp_path / "earlier.sqlite" if patched else None)
        if not patched:
            # The index over keys is built last, and only then finds a repeated key.
            writer.add(0, indexed(tmp_path, "a.txt"))
            writer.add(1, indexed(tmp_path, "a.txt"))
            with pytest.raises(StorageError, match="UNIQUE"):
                writer.finish()
        else:
            writer.add(1, indexed(tmp_path, "a.txt"))
            writer.add(2, indexed(tmp_path, "b.txt"))
            assert not writer.finish()
        writer.close()


def test_shards_that_changed_are_replaced_and_those_that_are_gone_removed(tmp_path: Path) -> None:
    write(tmp_path / "1.sqlite", *[indexed(tmp_path, f"{name}.txt") for name in "abc"])
    writer = BackgroundIndexWriter(tmp_path / "2.sqlite", earlier=tmp_path / "1.sqlite", replaced=[1, 2])
    writer.add(1, indexed(tmp_path, "z.txt", "y.txt"))
    assert writer.finish()
    write(tmp_path / "3.sqlite", indexed(tmp_path, "a.txt"), indexed(tmp_path, "z.txt", "y.txt"))
    assert rows_of(tmp_path / "2.sqlite") == rows_of(tmp_path / "3.sqlite")
    assert rows_of(tmp_path / "1.sqlite")[0][2][1] == "c"


@pytest.mark.parametrize("data", [b"", b"garbage" * 500, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_database_of_another_tool_or_a_damaged_one_is_not_patched(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "1.sqlite").write_bytes(data)
    with pytest.raises((NotPatchable, StorageError)) as caught:
        BackgroundIndexWriter(tmp_path / "2.sqlite", earlier=tmp_path / "1.sqlite")
    assert isinstance(caught.value, NotPatchable), caught.value


def test_an_earlier_database_that_cannot_be_read_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot copy"):
        BackgroundIndexWriter(tmp_path / "2.sqlite", earlier=tmp_path / "missing.sqlite")


def test_a_disk_that_is_full_is_named_with_what_helps(tmp_path: Path) -> None:
    index = indexed(tmp_path, *[f"{number:0100}.txt"[-99:] for number in range(1000)])
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(StorageError, match="cannot write this file") as caught:
            write(tmp_path / "i.sqlite", index)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.path == str(tmp_path / "i.sqlite")
    assert "free some space" in (caught.value.hint or "")


def test_closing_stops_what_is_being_written(tmp_path: Path) -> None:
    index = indexed(tmp_path, *[f"{number:06}.txt" for number in range(50_000)])
    writer = BackgroundIndexWriter(tmp_path / "i.sqlite")
    writer.add(0, index)
    writer.close()
    with pytest.raises(StorageError, match="interrupted"):
        writer.finish()


def test_closing_stops_the_copy_of_an_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "1.sqlite", indexed(tmp_path, *[f"{number:06}.txt" for number in range(1000)]))
    monkeypatch.setattr(sqlite_index_module, "_COPIED_AT_ONCE", 1)
    writer = BackgroundIndexWriter(tmp_path / "2.sqlite", earlier=tmp_path / "1.sqlite", replaced=[0])
    writer.close()
    assert (tmp_path / "2.sqlite").stat().st_size < (tmp_path / "1.sqlite").stat().st_size
    with pytest.raises(CancelledError):
        writer.finish()
