"""JSONL files that are not prepared: their index in memory, or in the user's folder of indexes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from loader.errors import FormatError
from loader.format.jsonl import unprepared
from loader.format.jsonl.index import JsonlIndex, build_jsonl_index, prepare_jsonl
from loader.format.jsonl.unprepared import index_of_lines
from loader.storage import LocalStorage
from tests.small_disks import mounted_disk, read_only

LINES = b'{"a": 1}\n{"a": 22}\n{"a": 333}\n'
OFFSETS = [0, 9, 19, 30]


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStorage:
    """Return a folder with a file that is large enough for an index that is kept."""
    monkeypatch.setenv("ENERGON_INDEX", str(tmp_path / "index"))
    monkeypatch.setattr(unprepared, "_KEPT_FROM_BYTES", len(LINES))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.jsonl").write_bytes(LINES)
    return LocalStorage(tmp_path / "data")


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of files whose lines are read."""
    read: list[str] = []

    def noted(storage: LocalStorage, name: str) -> JsonlIndex:
        read.append(name)
        return build_jsonl_index(storage, name)

    monkeypatch.setattr(unprepared, "build_jsonl_index", noted)
    return read


def kept(storage: LocalStorage) -> list[Path]:
    return sorted((storage.local_path().parent / "index").rglob("*.idx"))


def test_a_small_file_is_indexed_in_memory_each_time(
    storage: LocalStorage, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unprepared, "_KEPT_FROM_BYTES", len(LINES) + 1)
    for _ in range(2):
        assert index_of_lines(storage, "x.jsonl").offsets.tolist() == OFFSETS
    assert (scans, kept(storage)) == (["x.jsonl"] * 2, [])


def test_a_large_file_is_read_once(storage: LocalStorage, scans: list[str], caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        index = index_of_lines(storage, "x.jsonl")
        assert index.offsets.tolist() == OFFSETS
        assert index.info == storage.stat("x.jsonl")
    assert (scans, len(kept(storage))) == (["x.jsonl"], 1)
    assert os.listdir(storage.path("")) == ["x.jsonl"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{storage.path('x.jsonl')} is not prepared: indexing its lines in {kept(storage)[0].parent}, once"
    ]


def test_another_path_to_the_file_finds_its_index(storage: LocalStorage, scans: list[str], tmp_path: Path) -> None:
    index_of_lines(storage, "x.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert index_of_lines(LocalStorage(tmp_path / "link"), "x.jsonl").offsets.tolist() == OFFSETS
    assert scans == ["x.jsonl"]


def test_the_index_next_to_the_file_comes_first(storage: LocalStorage, scans: list[str]) -> None:
    prepare_jsonl(storage, "x.jsonl")
    assert index_of_lines(storage, "x.jsonl").offsets.tolist() == OFFSETS
    assert (scans, kept(storage)) == ([], [])
    storage.local_path("x.jsonl").write_bytes(LINES * 2)
    with pytest.raises(FormatError, match="does not fit this file"):
        index_of_lines(storage, "x.jsonl")


def _append(path: Path) -> None:
    path.write_bytes(LINES + b'{"a": 4}\n')


def _set_time(path: Path) -> None:
    os.utime(path, (0, 0))


def _replace(path: Path) -> None:
    time = path.stat().st_mtime_ns
    (path.parent / "new").write_bytes(b'{"a": 111}\n{"a": 2}\n{"a": 33}\n')
    os.utime(path.parent / "new", ns=(time, time))
    os.replace(path.parent / "new", path)


@pytest.mark.parametrize(
    ("change", "offsets"), [(_append, [*OFFSETS, 39]), (_set_time, OFFSETS), (_replace, [0, 11, 20, 30])]
)
def test_a_changed_file_is_indexed_again(
    storage: LocalStorage, scans: list[str], change: Callable[[Path], None], offsets: list[int]
) -> None:
    index_of_lines(storage, "x.jsonl")
    change(storage.local_path("x.jsonl"))
    assert index_of_lines(storage, "x.jsonl").offsets.tolist() == offsets
    assert (len(scans), len(kept(storage))) == (2, 2)


@pytest.mark.parametrize("damaged", [b"", b"x" * 17, b"\0" * 32])
def test_a_damaged_index_is_rebuilt(storage: LocalStorage, scans: list[str], damaged: bytes) -> None:
    index_of_lines(storage, "x.jsonl")
    kept(storage)[0].write_bytes(damaged)
    for _ in range(2):
        assert index_of_lines(storage, "x.jsonl").offsets.tolist() == OFFSETS
    assert len(scans) == 2


def test_an_index_of_a_shared_folder_is_used(
    storage: LocalStorage, scans: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_of_lines(storage, "x.jsonl")
    monkeypatch.setenv("ENERGON_INDEX", f"{tmp_path / 'mine'}:{tmp_path / 'index'}")
    with read_only(tmp_path / "index"):
        assert index_of_lines(storage, "x.jsonl").offsets.tolist() == OFFSETS
    assert (len(scans), (tmp_path / "mine").exists()) == (1, False)


def test_a_read_only_file_and_folder_of_indexes_work(
    storage: LocalStorage, scans: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "index").mkdir()
    with read_only(tmp_path / "index"), read_only(tmp_path / "data"):
        for _ in range(2):
            assert index_of_lines(storage, "x.jsonl").offsets.tolist() == OFFSETS
    assert (len(scans), kept(storage)) == (2, [])
    assert "x.jsonl is not kept: " in caplog.text


def test_a_full_disk_works(storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.local_path("x.jsonl").write_bytes(b"{}\n" * 200_000)
    with mounted_disk(tmp_path / "disk") as disk:
        monkeypatch.setenv("ENERGON_INDEX", str(disk))
        assert len(index_of_lines(storage, "x.jsonl")) == 200_000
        assert list(disk.rglob("*.idx")) == []


def test_the_limit_removes_the_index_that_was_used_longest_ago(
    storage: LocalStorage, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENERGON_INDEX_BYTES", "64")
    names = ["x.jsonl", "y.jsonl", "z.jsonl"]
    for time, name in enumerate(names):
        storage.local_path(name).write_bytes(LINES)
        index_of_lines(storage, name)
        os.utime(max(kept(storage), key=lambda path: path.stat().st_mtime_ns), (time, time))
    assert len(kept(storage)) == 2
    for name in reversed(names):
        index_of_lines(storage, name)
    assert scans == [*names, "x.jsonl"]


@pytest.mark.parametrize("kept_from", [0, 1000])
@pytest.mark.parametrize(
    ("content", "message", "offset"),
    [
        (b"", "this file is empty; expected one JSON object per line", None),
        (b"\n\n" * 20, "this file has only blank lines", None),
        (LINES + b'{"a": }\n', "line 4 is not one JSON object: JSON is malformed", 30),
    ],
)
def test_a_file_without_sound_lines_is_named(
    storage: LocalStorage, content: bytes, message: str, offset: int | None, kept_from: int
) -> None:
    storage.local_path("x.jsonl").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unprepared, "_KEPT_FROM_BYTES", kept_from)
        with pytest.raises(FormatError, match=message) as caught:
            index_of_lines(storage, "x.jsonl")
    assert (caught.value.shard, caught.value.offset) == (storage.path("x.jsonl"), offset)
    assert kept(storage) == []
