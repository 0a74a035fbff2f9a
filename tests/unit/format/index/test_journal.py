"""Scans that an interrupted prepare left are loaded whole, or not at all."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import NoReturn

import pytest

from loader.errors import StorageError
from loader.format.index.journal import StoredScans, save_scans
from loader.format.index.shard_index import index_shard
from loader.storage import FileInfo, LocalStorage
from tests.malformed.tar_bytes import END, member


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    (tmp_path / "s.tar").write_bytes(member(b"a.txt", b"hello") + member(b"b.txt", b"world") + END)
    return LocalStorage(tmp_path)


@pytest.fixture
def scan(storage: LocalStorage) -> Path:
    """The stored scan of s.tar."""
    save_scans(storage, [(storage.stat("s.tar"), index_shard(storage, "s.tar"))])
    (path,) = storage.local_path(".nv-meta/.prepare/scans").iterdir()
    return path


def test_a_scan_is_found_again(storage: LocalStorage, scan: Path) -> None:
    found = StoredScans(storage).load(storage.stat("s.tar"))
    assert found is not None
    assert found.keys() == ["a", "b"]
    assert found.part_offset.tolist() == [512, 1536]


def test_there_is_none_of_a_shard_that_was_not_scanned(storage: LocalStorage, scan: Path) -> None:
    shard = storage.stat("s.tar")
    assert StoredScans(storage).load(FileInfo(name="s.tar", size_bytes=shard.size_bytes, mtime_ns=5)) is None


def test_a_scan_with_any_other_byte_is_not_used(storage: LocalStorage, scan: Path) -> None:
    whole = scan.read_bytes()
    for place in range(len(whole)):
        scan.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert StoredScans(storage).load(storage.stat("s.tar")) is None, place


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 5, 100, -1])
def test_a_scan_cut_short_is_not_used(storage: LocalStorage, scan: Path, kept: int) -> None:
    scan.write_bytes(scan.read_bytes()[:kept])
    assert StoredScans(storage).load(storage.stat("s.tar")) is None


def test_a_scan_of_zeros_is_not_used(storage: LocalStorage, scan: Path) -> None:
    scan.write_bytes(bytes(scan.stat().st_size))
    assert StoredScans(storage).load(storage.stat("s.tar")) is None


def test_the_scans_of_a_group_are_in_one_file(storage: LocalStorage) -> None:
    names = ["s.tar", "t.tar", "u.tar"]
    for name in names[1:]:
        storage.local_path(name).write_bytes(member(f"{name[0]}.txt".encode(), b"hello") + END)
    scans = [(storage.stat(name), index_shard(storage, name)) for name in names]
    save_scans(storage, scans)
    (path,) = storage.local_path(".nv-meta/.prepare/scans").iterdir()
    journal = StoredScans(storage)
    assert [journal.load(shard).keys() for shard, _ in scans] == [["a", "b"], ["t"], ["u"]]  # type: ignore[union-attr]
    path.write_bytes(path.read_bytes()[:-1])
    journal = StoredScans(storage)
    assert [journal.has(shard) for shard, _ in scans] == [True, True, False]


def test_a_journal_gets_scans_of_other_processes_and_travels_to_them(storage: LocalStorage) -> None:
    journal, shard = StoredScans(storage), storage.stat("s.tar")
    (place,) = save_scans(storage, [(shard, index_shard(storage, "s.tar"))])
    assert not journal.has(shard)
    journal.add(shard, place)
    assert journal.load(shard) is not None  # its file is open now
    found = pickle.loads(pickle.dumps(journal)).load(shard)
    assert found.keys() == ["a", "b"]


def test_a_scan_is_read_through_its_storage(storage: LocalStorage, scan: Path) -> None:
    class Refusing(LocalStorage):
        def open(self, name: str, info: FileInfo | None = None) -> NoReturn:
            raise StorageError("cannot read this", path=name)

    with pytest.raises(StorageError, match="cannot read this"):
        StoredScans(Refusing(storage.local_path()))
