"""Build our index for a dataset of another tool, once, from its files or from the shards."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loader.dataset.opening import folder_at
from loader.dataset.tar import tar_index
from loader.errors import FormatError, StorageError
from loader.format.compat import foreign_index as foreign_index_module
from loader.format.compat.foreign_index import build_foreign_index
from loader.format.index.dataset_index import DatasetIndex
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.format.index.writer import IndexWriter
from loader.format.nv_meta import INDEX_FOLDER, INDEX_SQLITE, INDEX_UUID, INFO_JSON
from loader.storage import FileInfo, LocalStorage, is_writable
from tests.malformed.tar_bytes import END, header, member, pax, record
from tests.source_tree import ROOT

COUNTS = {"a.tar": 2, "b.tar": 1}

# As megatron-energon 7.4.1 creates them.
TABLES = """
CREATE TABLE samples (
    tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, sample_index INTEGER NOT NULL,
    byte_offset INTEGER, byte_size INTEGER
);
CREATE TABLE sample_parts (
    tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, content_byte_offset INTEGER, content_byte_size INTEGER
);
"""


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStorage:
    """Write a dataset as another tool does, with shards older than its index.sqlite."""
    monkeypatch.delenv("ENERGON_INDEX", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data #1?mode=rwc%20é\udcff"
    folder.mkdir()
    a = (
        pax(record(b"mtime", b"1.5"))
        + member(b"a.txt", b"hello")
        + member(b"a.jpg", b"x" * 600)
        + header(b"d/", 0, b"5")
    )
    (folder / "a.tar").write_bytes(a + member("é.txt".encode(), b"") + END)
    (folder / "b.tar").write_bytes(member(b"c.txt", b"world") + END)
    for name in COUNTS:
        os.utime(folder / name, ns=(10**18, 10**18))
    storage = LocalStorage(folder)
    (folder / ".nv-meta").mkdir()
    (folder / INFO_JSON).write_text(json.dumps({"energon_version": "7.4.1", "shard_counts": COUNTS}))
    (folder / INDEX_UUID).write_text(str(uuid.UUID(int=7)))
    write_sqlite(storage)
    return storage


def write_sqlite(storage: LocalStorage) -> None:
    with closing(sqlite3.connect(storage.local_path(INDEX_SQLITE))) as database:
        database.executescript(TABLES)
        for number, name in enumerate(COUNTS):
            index = index_shard(storage, name)
            ends = index.sample_offsets.tolist()
            start = 0
            for sample, key in enumerate(index.keys()):
                row = (number, key, sample, ends[sample], ends[sample + 1] - ends[sample])
                database.execute("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", row)
                stop = int(index.part_ends[sample])
                for part in range(start, stop):
                    part_name, offset, size = index.part_name[part], index.part_offset[part], index.part_size[part]
                    part_row = (number, sample, index.part_names[part_name], int(offset), int(size))
                    database.execute("INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)", part_row)
                start = stop
        database.commit()


def run_sql(storage: LocalStorage, script: str) -> None:
    with closing(sqlite3.connect(storage.local_path(INDEX_SQLITE))) as database:
        database.executescript(script)


def described(index: DatasetIndex) -> list[tuple[str, list[tuple[str, int, int]]]]:
    return [
        (index.full_key(sample), [(part.name, part.offset, part.size_bytes) for part in index.parts(sample)])
        for sample in range(len(index))
    ]


RIGHT = [
    ("a.tar/a", [("txt", 1536, 5), ("jpg", 2560, 600)]),
    ("a.tar/é", [("txt", 4608, 0)]),
    ("b.tar/c", [("txt", 512, 5)]),
]


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the scanned shards, in order."""
    names = []

    def index_and_note(storage: LocalStorage, name: str) -> ShardIndex:
        names.append(name)
        return index_shard(storage, name)

    monkeypatch.setattr(foreign_index_module, "index_shard", index_and_note)
    return names


def test_the_rows_of_another_tool_serve_instead_of_a_scan(
    dataset: LocalStorage, scans: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        index = build_foreign_index(dataset, COUNTS)
    assert described(index) == RIGHT
    assert scans == []
    assert "was prepared by another tool" in caplog.text
    assert [index.find(key) for key in ("a", "é", "b.tar/c", "x")] == [[0], [1], [2], []]
    assert index.uuid == str(uuid.UUID(int=7))
    assert [shard.end_offset for shard in index.shards] == [4608, 1024]
    assert [shard.plain for shard in index.shards] == [False, True]
    assert "another tool" in index.layout.prepared_by


def test_an_index_is_built_once(dataset: LocalStorage, scans: list[str], caplog: pytest.LogCaptureFixture) -> None:
    first = build_foreign_index(dataset, COUNTS)
    caplog.clear()
    assert described(build_foreign_index(dataset, COUNTS)) == described(first)
    assert described(tar_index(folder_at(dataset.path("")))) == RIGHT
    assert caplog.text == ""


def test_without_index_sqlite_the_shards_are_scanned(dataset: LocalStorage, scans: list[str]) -> None:
    dataset.remove(INDEX_SQLITE)
    assert described(build_foreign_index(dataset, COUNTS)) == RIGHT
    assert scans == ["a.tar", "b.tar"]


def test_without_index_uuid_the_index_gets_one_of_its_own(dataset: LocalStorage) -> None:
    dataset.remove(INDEX_UUID)
    index = build_foreign_index(dataset, COUNTS)
    assert dataset.read(INDEX_UUID).decode() == index.uuid
    assert str(uuid.UUID(index.uuid)) == index.uuid


@pytest.mark.parametrize("text", ["../../../x", "a\0b", "a\nb", "", "x" * 300])
def test_an_index_uuid_that_is_none_leads_nowhere(dataset: LocalStorage, text: str) -> None:
    dataset.local_path(INDEX_UUID).write_text(text)
    index = build_foreign_index(dataset, COUNTS)
    assert described(index) == RIGHT
    assert str(uuid.UUID(index.uuid)) == index.uuid
    assert [path.name for path in dataset.local_path(INDEX_FOLDER).iterdir()] == [index.uuid]


def test_a_shard_newer_than_the_rows_is_scanned(dataset: LocalStorage, scans: list[str]) -> None:
    os.utime(dataset.local_path("b.tar"))
    os.utime(dataset.local_path(INDEX_SQLITE), ns=(10**18, 10**18 + 1))
    assert described(build_foreign_index(dataset, COUNTS)) == RIGHT
    assert scans == ["b.tar"]


DAMAGE = {
    "no parts": "DELETE FROM sample_parts",
    "no tables": "DROP TABLE samples; DROP TABLE sample_parts",
    "no table of parts": "DROP TABLE sample_parts",
    "another schema": "DROP TABLE samples; CREATE TABLE samples (tar_file_id, key)",
    "a sample too few": "DELETE FROM samples WHERE sample_key = 'a'",
    "a sample too many": "INSERT INTO samples VALUES (0, 'z', 2, 5120, 512)",
    "a sample without parts": "DELETE FROM sample_parts WHERE sample_index = 1",
    "a sample and its parts too few": "DELETE FROM samples WHERE sample_key = 'é'; "
    "DELETE FROM sample_parts WHERE sample_index = 1",
    "a first sample without parts": "DELETE FROM sample_parts WHERE sample_index = 0 AND tar_file_id = 0",
    "a part of no sample": "INSERT INTO sample_parts VALUES (0, 5, 'txt', 512, 5)",
    "more samples in the parts": "UPDATE sample_parts SET sample_index = sample_index + 1",
    "a part of a sample far away": "INSERT INTO sample_parts VALUES (0, 1 << 60, 'txt', 512, 5)",
    "a part of a sample before the first": "UPDATE sample_parts SET sample_index = -1 WHERE part_name = 'jpg'",
    "a key that is a number": "DROP TABLE samples; CREATE TABLE samples (tar_file_id, sample_key, sample_index, "
    "byte_offset, byte_size); INSERT INTO samples VALUES (0, 7, 0, 0, 4096), (0, 8, 1, 4096, 512), (1, 9, 0, 0, 1024)",
    "a key that is not text": "UPDATE samples SET sample_key = x'ff00' WHERE sample_index = 0 AND tar_file_id = 0",
    "a key that is not UTF-8": "UPDATE samples SET sample_key = CAST(x'ff' AS TEXT) WHERE tar_file_id = 1",
    "a part name that is NULL": "UPDATE sample_parts SET part_name = NULL",
    "an offset that is NULL": "UPDATE sample_parts SET content_byte_offset = NULL",
    "a size that is NULL": "UPDATE samples SET byte_size = NULL",
    "an offset that is text": "UPDATE samples SET byte_offset = 'far'",
    "an offset that is a fraction": "UPDATE sample_parts SET content_byte_offset = 512.5",
    "an offset within a block": "UPDATE sample_parts SET content_byte_offset = content_byte_offset + 1",
    "a negative offset": "UPDATE sample_parts SET content_byte_offset = -512",
    "an offset past the end": "UPDATE sample_parts SET content_byte_offset = content_byte_offset + 512000",
    "a size past the end": "UPDATE sample_parts SET content_byte_size = 5000000",
    "the largest size": "UPDATE sample_parts SET content_byte_size = 9223372036854775807",
    "a negative size": "UPDATE sample_parts SET content_byte_size = -1",
    "samples that do not follow each other": "UPDATE samples SET byte_offset = 0",
    "samples past the end": "UPDATE samples SET byte_offset = byte_offset + 512000",
    "a last sample that ends past the end": "UPDATE samples SET byte_size = 512000 WHERE sample_key = 'c'",
    "a sample that starts with its contents": "UPDATE samples SET byte_offset = 4608, byte_size = 512 "
    "WHERE sample_key = 'é'",
    "a sample that starts within a block": "UPDATE samples SET byte_offset = 4000, byte_size = 608 "
    "WHERE sample_key = 'é'",
    "samples after their parts": "UPDATE samples SET byte_offset = byte_offset + 1536, byte_size = 512",
}


@pytest.mark.parametrize("script", DAMAGE.values(), ids=DAMAGE)
def test_rows_that_are_not_what_they_should_be_are_not_used(
    dataset: LocalStorage, scans: list[str], script: str
) -> None:
    run_sql(dataset, script)
    assert described(build_foreign_index(dataset, COUNTS)) == RIGHT
    assert "a.tar" in scans or "b.tar" in scans


@pytest.mark.parametrize("data", [b"", b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_database_that_is_none_is_not_used(dataset: LocalStorage, scans: list[str], data: bytes) -> None:
    dataset.local_path(INDEX_SQLITE).write_bytes(data)
    assert described(build_foreign_index(dataset, COUNTS)) == RIGHT
    assert scans == ["a.tar", "b.tar"]


def test_a_database_cut_anywhere_never_gives_a_wrong_index(dataset: LocalStorage) -> None:
    good = dataset.read(INDEX_SQLITE)
    for length in range(0, len(good), 1000):
        dataset.local_path(INDEX_SQLITE).write_bytes(good[:length])
        assert described(build_foreign_index(dataset, COUNTS)) == RIGHT
        dataset.remove(INDEX_FOLDER)


def test_a_shard_with_another_number_of_samples_is_named(dataset: LocalStorage) -> None:
    dataset.remove(INDEX_SQLITE)
    with pytest.raises(FormatError, match=r"as many samples as \.info\.json says, 3, found 1") as caught:
        build_foreign_index(dataset, {"a.tar": 2, "b.tar": 3})
    assert caught.value.shard == dataset.path("b.tar")
    assert not dataset.exists(f"{INDEX_FOLDER}/{uuid.UUID(int=7)}")
    # The files that the failed build left do not stop the next build.
    assert described(build_foreign_index(dataset, COUNTS)) == RIGHT


def test_a_missing_shard_is_named(dataset: LocalStorage) -> None:
    dataset.remove("b.tar")
    with pytest.raises(StorageError) as caught:
        build_foreign_index(dataset, COUNTS)
    assert caught.value.path == dataset.path("b.tar")


@pytest.mark.parametrize("home", ["XDG_CACHE_HOME", "HOME"])
def test_a_dataset_that_takes_no_files_gets_its_index_in_a_cache_folder(
    dataset: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    root = dataset.path("")
    monkeypatch.setattr(
        foreign_index_module,
        "is_writable",
        lambda storage, folder: storage.path("") != root and is_writable(storage, folder),
    )
    before = sorted(dataset.local_path().rglob("*"))
    if home == "HOME":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cache = tmp_path / "cache" if home == "XDG_CACHE_HOME" else tmp_path / "home" / ".cache"
    indexes = cache / "energon" / "index" / "derived"
    assert described(build_foreign_index(dataset, COUNTS)) == RIGHT
    assert sorted(dataset.local_path().rglob("*")) == before
    (folder,) = indexes.iterdir()
    assert (folder / INDEX_FOLDER / str(uuid.UUID(int=7)) / "layout.json").exists()
    assert described(tar_index(folder_at(root))) == RIGHT
    # After another prepare it is another dataset.
    dataset.local_path(INDEX_UUID).write_text(str(uuid.UUID(int=8)))
    assert build_foreign_index(dataset, COUNTS).uuid == str(uuid.UUID(int=8))
    assert len(list(indexes.iterdir())) == 2


BUILD = """
import logging, sys, time
from loader.format.compat import foreign_index
from loader.dataset.opening import folder_at
index_shard = foreign_index.index_shard
foreign_index.index_shard = lambda *shard: time.sleep(0.2) or index_shard(*shard)
logging.basicConfig(level=logging.WARNING, format="%(message)s")
print("ready", flush=True)
sys.stdin.read(1)  # all start at the same time
index = folder_at(sys.argv[1]).index
print(index.uuid, len(index))
"""


def test_of_several_processes_one_builds_and_the_others_wait(dataset: LocalStorage) -> None:
    dataset.remove(INDEX_UUID)
    dataset.remove(INDEX_SQLITE)
    command: list[str | bytes] = [sys.executable, "-c", BUILD, os.fsencode(dataset.path(""))]
    processes = [
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * 3
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    results = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], results
    assert len({out for out, _ in results}) == 1
    assert sum(err.count("was prepared by another tool") for _, err in results) == 1
    assert len(list(dataset.local_path(INDEX_FOLDER).iterdir())) == 1


def test_builds_that_are_killed_leave_one_folder_at_most_and_the_next_one_clears_it(
    dataset: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset.remove(INDEX_UUID)

    def killed(self: IndexWriter, shard: FileInfo, index: ShardIndex) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(IndexWriter, "add", killed)
        patch.setattr(LocalStorage, "create", leave_second_file(LocalStorage.create))
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                build_foreign_index(dataset, COUNTS)
    index_folder = dataset.local_path(INDEX_FOLDER)
    assert len(os.listdir(index_folder)) == 1
    assert described(build_foreign_index(dataset, COUNTS)) == RIGHT
    (built,) = index_folder.iterdir()
    assert [name for name in os.listdir(built) if "left" in name] == []


def leave_second_file(create: Callable[..., Any]) -> Callable[..., Any]:
    """Leave a second file with each created one, as a killed process does."""

    def create_and_leave(self: LocalStorage, name: str, *, durable: bool = True) -> Any:
        self.local_path(name).parent.mkdir(parents=True, exist_ok=True)
        self.local_path(name + ".left").touch()
        return create(self, name, durable=durable)

    return create_and_leave
