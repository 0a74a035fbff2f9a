"""Rename keys that several shards share, in copies that replace the shards."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from loader.errors import FormatError, StorageError
from loader.prepare import fix_duplicates as module
from loader.prepare.fix_duplicates import fix_duplicates, rename_headers
from loader.storage import LocalStorage

Members = dict[str, bytes]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def write_tar(storage: LocalStorage, name: str, members: Members, kind: int = tarfile.USTAR_FORMAT) -> None:
    path = storage.local_path(name)
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w", format=kind) as tar:
        for member, data in members.items():
            info = tarfile.TarInfo(member)
            info.size, info.mtime = len(data), 1000
            tar.addfile(info, io.BytesIO(data))


def read_tar(storage: LocalStorage, name: str) -> Members:
    with tarfile.open(storage.path(name), errors="surrogateescape") as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers() if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def all_files(storage: LocalStorage) -> dict[str, bytes]:
    root = storage.local_path()
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


A = {"0.txt": b"zero", "0.seg.png": b"p" * 600, "1.txt": b"one"}
B = {"x/0.txt": b"", "1.txt": b"eins", "2.txt": b"zwei"}


def test_duplicate_keys_get_the_number_of_their_shard_and_others_stay(storage: LocalStorage) -> None:
    write_tar(storage, "s/a.tar", A)
    write_tar(storage, "s/b.tar", B)
    write_tar(storage, "s/c.tar", {"0.txt": b"null"})
    report = fix_duplicates(
        storage, ["s/a.tar", "s/b.tar", "s/c.tar"], {"s/a.tar": {"0", "1"}, "s/b.tar": {"1"}, "s/c.tar": {"0"}}
    )
    assert read_tar(storage, "s/a.tar") == {"0#0.txt": b"zero", "0#0.seg.png": b"p" * 600, "1#0.txt": b"one"}
    assert read_tar(storage, "s/b.tar") == {"x/0.txt": b"", "1#1.txt": b"eins", "2.txt": b"zwei"}
    assert read_tar(storage, "s/c.tar") == {"0#2.txt": b"null"}
    assert report == {
        "s/a.tar": {"0": "0#0", "1": "1#0"},
        "s/b.tar": {"1": "1#1"},
        "s/c.tar": {"0": "0#2"},
    }
    assert set(all_files(storage)) == {"s/a.tar", "s/b.tar", "s/c.tar"}


def test_shards_without_a_duplicate_are_not_touched(storage: LocalStorage) -> None:
    for name in ("a.tar", "b.tar", "c.tar"):
        write_tar(storage, name, A)
    before = {name: os.stat(storage.path(name)) for name in ("a.tar", "c.tar")}
    report = fix_duplicates(storage, ["a.tar", "b.tar", "c.tar"], {"b.tar": ["0"], "c.tar": []})
    assert list(report) == ["b.tar"]
    for name, stat in before.items():
        assert (os.stat(storage.path(name)).st_ino, os.stat(storage.path(name)).st_mtime_ns) == (
            stat.st_ino,
            stat.st_mtime_ns,
        )


def test_a_second_run_with_the_same_keys_changes_nothing(storage: LocalStorage) -> None:
    write_tar(storage, "a.tar", A)
    fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    before = all_files(storage), os.stat(storage.path("a.tar")).st_ino
    report = fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    assert report == {}
    assert (all_files(storage), os.stat(storage.path("a.tar")).st_ino) == before


def test_a_new_key_is_never_one_that_the_shard_has(storage: LocalStorage) -> None:
    write_tar(storage, "a.tar", {"0.txt": b"a", "0#0.txt": b"b", "0#0#0.txt": b"c"})
    fix_duplicates(storage, ["a.tar"], {"a.tar": {"0", "0#0"}})
    assert read_tar(storage, "a.tar") == {"0#0#0#0.txt": b"a", "0#0#0#0#0.txt": b"b", "0#0#0.txt": b"c"}


def test_parts_that_are_no_neighbours_are_all_renamed(storage: LocalStorage) -> None:
    write_tar(storage, "a.tar", {"0.txt": b"a", "1.txt": b"b", "0.json": b"c"})
    fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    assert list(read_tar(storage, "a.tar")) == ["0#0.txt", "1.txt", "0#0.json"]


def test_what_belongs_to_no_sample_is_copied_as_it_is(storage: LocalStorage) -> None:
    with tarfile.open(storage.path("a.tar"), "w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind in [("d", tarfile.DIRTYPE), ("l.txt", tarfile.SYMTYPE), ("h.txt", tarfile.LNKTYPE)]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "0.txt" if kind != tarfile.DIRTYPE else ""
            tar.addfile(info)
        for name in ("0", "0.txt", ".0.txt", "__m__/0.txt", "long" * 40 + ".txt"):
            tar.addfile(tarfile.TarInfo(name))
    fix_duplicates(storage, ["a.tar"], {"a.tar": {"0", "", "__m__/0", "l"}})
    with tarfile.open(storage.path("a.tar")) as tar:
        assert [(member.name, member.type) for member in tar] == [
            ("d", tarfile.DIRTYPE),
            ("l.txt", tarfile.SYMTYPE),
            ("h.txt", tarfile.LNKTYPE),
            ("0", tarfile.REGTYPE),
            ("0#0.txt", tarfile.REGTYPE),
            (".0.txt", tarfile.REGTYPE),
            ("__m__/0.txt", tarfile.REGTYPE),
            ("long" * 40 + ".txt", tarfile.REGTYPE),
        ]


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_format_with_short_and_long_names_comes_out_right(storage: LocalStorage, kind: int) -> None:
    keys = ["0", "k" * 95, "d/" + "k" * 94, "é", "d" * 90 + "/" + "k" * 90]
    if kind != tarfile.USTAR_FORMAT:
        keys += ["k" * 200, "é" * 100]
    write_tar(storage, "a.tar", {f"{key}.txt": key.encode() for key in keys}, kind)
    shards = [f"{number}.tar" for number in range(12)] + ["a.tar"]
    fix_duplicates(storage, shards, {"a.tar": set(keys)})
    assert read_tar(storage, "a.tar") == {f"{key}#12.txt": key.encode() for key in keys}


def test_names_that_are_no_utf8_are_renamed_too(storage: LocalStorage) -> None:
    write_tar(storage, "a.tar", {"\udcff.txt": b"x"})
    fix_duplicates(storage, ["a.tar"], {"a.tar": {"\udcff"}})
    assert read_tar(storage, "a.tar") == {"\udcff#0.txt": b"x"}


def test_contents_larger_than_a_chunk_are_copied_and_compared(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1000)
    data = os.urandom(5000)
    write_tar(storage, "a.tar", {"0.bin": data, "1.bin": data[:1000]})
    fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    assert read_tar(storage, "a.tar") == {"0#0.bin": data, "1.bin": data[:1000]}


def test_a_shard_behind_a_link_is_replaced_and_its_target_stays(
    storage: LocalStorage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = LocalStorage(tmp_path_factory.mktemp("elsewhere"))
    write_tar(elsewhere, "a.tar", A)
    storage.local_path("a.tar").symlink_to(elsewhere.path("a.tar"))
    fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    assert read_tar(elsewhere, "a.tar") == A
    assert "0#0.txt" in read_tar(storage, "a.tar")


def test_what_an_earlier_run_left_is_removed_before_room_is_needed(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tar(storage, "s/a.tar", A)
    write_tar(storage, "t/b.tar", A)
    left = storage.local_path("t/.renamed-copies/.b.tar.x.partial")
    left.parent.mkdir()
    left.write_bytes(b"half a copy")
    seen = []

    def rename_and_record(*args: Any, **named: Any) -> bytes:
        seen.append(left.exists())
        return rename_headers(*args, **named)

    monkeypatch.setattr(module, "rename_headers", rename_and_record)
    fix_duplicates(storage, ["s/a.tar", "t/b.tar"], {"s/a.tar": {"0"}})
    assert set(seen) == {False}


# ---------------------------------------------------------------------------------------- when something goes wrong


def test_a_damaged_shard_stays_as_it_is(storage: LocalStorage) -> None:
    write_tar(storage, "a.tar", A)
    write_tar(storage, "b.tar", B)
    with open(storage.path("b.tar"), "r+b") as file:
        file.truncate(1026)
    before = all_files(storage)
    with pytest.raises(FormatError, match="ends at byte 1026"):
        fix_duplicates(storage, ["b.tar", "a.tar"], {"a.tar": {"1"}, "b.tar": {"1"}})
    assert all_files(storage) == before


def header_of(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (header_of("0.txt", 4), "expected member '0#0.txt', found '0.txt'"),
        (header_of("0#0.txt", 3), "expected 4 bytes of '0.txt', found 3"),
        (header_of("0#0.txt", 4 + 2048), "expected 4 bytes of '0.txt', found 2,052"),
        (header_of("0#0.txt", 0) + header_of("0#0.txt", 4), "expected 4 bytes of '0.txt', found 0"),
        (header_of("0#0.txt", 4) + b"none".ljust(512) + header_of("new", 4), "the contents of '0.txt' differ"),
    ],
)
def test_a_copy_that_is_not_right_is_thrown_away(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, headers: bytes, found: str
) -> None:
    write_tar(storage, "a.tar", {"0.txt": b"zero", "1.txt": b"one", "2.txt": b"two"})
    before = all_files(storage)
    monkeypatch.setattr(module, "rename_headers", lambda *_, **__: headers)
    with pytest.raises(FormatError, match="was discarded") as caught:
        fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    assert found in str(caught.value)
    assert all_files(storage) == before


@pytest.mark.parametrize(
    "headers", [header_of("d", 0, tarfile.DIRTYPE), header_of("0#0.txt", 0) + header_of("0#0.txt", 0)]
)
def test_a_copy_with_fewer_or_more_members_is_thrown_away(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, headers: bytes
) -> None:
    write_tar(storage, "a.tar", {"0.txt": b""})
    before = all_files(storage)
    monkeypatch.setattr(module, "rename_headers", lambda *_, **__: headers)
    with pytest.raises(FormatError, match="another number of members"):
        fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    assert all_files(storage) == before


def test_a_shard_that_changes_meanwhile_is_not_replaced(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tar(storage, "a.tar", A)

    def rename_and_touch(*args: Any, **named: Any) -> bytes:
        os.utime(storage.path("a.tar"), (5, 5))
        return rename_headers(*args, **named)

    monkeypatch.setattr(module, "rename_headers", rename_and_touch)
    with pytest.raises(FormatError, match="changed while it was copied"):
        fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    assert read_tar(storage, "a.tar") == A
    assert set(all_files(storage)) == {"a.tar"}


def test_a_shard_that_shrinks_meanwhile_is_not_replaced(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1 << 20)
    write_tar(storage, "a.tar", {"0.bin": bytes(1 << 20), "1.bin": bytes(4 << 20)})

    def rename_and_cut(*args: Any, **named: Any) -> bytes:
        os.truncate(storage.path("a.tar"), 3 << 20)
        return rename_headers(*args, **named)

    monkeypatch.setattr(module, "rename_headers", rename_and_cut)
    with pytest.raises(FormatError):
        fix_duplicates(storage, ["a.tar"], {"a.tar": {"0"}})
    assert set(all_files(storage)) == {"a.tar"}


class FullDisk(LocalStorage):
    @contextmanager
    def create(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
        with super().create(name, durable=durable) as file:
            yield file
            raise StorageError("cannot write this file: No space left on device", path=self.path(name))


def test_a_full_disk_leaves_every_shard_as_it_was(storage: LocalStorage) -> None:
    write_tar(storage, "a.tar", A)
    before = all_files(storage)
    with pytest.raises(StorageError, match="No space left"):
        fix_duplicates(FullDisk(storage.local_path()), ["a.tar"], {"a.tar": {"0"}})
    assert all_files(storage) == before


KILLED = """
import os, signal, sys
from contextlib import contextmanager
from loader.prepare.fix_duplicates import fix_duplicates
from loader.storage import LocalStorage

class Killing(LocalStorage):
    left = float(sys.argv[2]) * sum(os.path.getsize(sys.argv[1] + name) for name in ("/s/a.tar", "/s/b.tar"))

    @contextmanager
    def create(self, name, *, durable=True):
        with super().create(name, durable=durable) as file:
            self.file = file
            yield self

    def write(self, data):
        self.file.write(data)
        self.left -= len(data)
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

fix_duplicates(Killing(sys.argv[1]), ["s/a.tar", "s/b.tar"], {"s/a.tar": {"0"}, "s/b.tar": {"0"}})
"""


@pytest.mark.parametrize("share", [0.2, 0.8, 1.0])
def test_after_a_kill_every_shard_is_whole_and_the_next_run_finishes_and_cleans_up(
    storage: LocalStorage, share: float
) -> None:
    members = {"0.bin": os.urandom(2 << 20), "1.bin": os.urandom(2 << 20)}
    renamed = [{f"0#{number}.bin": members["0.bin"], "1.bin": members["1.bin"]} for number in range(2)]
    for name in ("s/a.tar", "s/b.tar"):
        write_tar(storage, name, members)
    run = subprocess.run([sys.executable, "-c", KILLED, storage.path(""), str(share)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert read_tar(storage, "s/a.tar") == (members if share < 0.5 else renamed[0])
    assert read_tar(storage, "s/b.tar") == members
    assert len(all_files(storage)) == 3  # a partial copy, hidden next to the shards
    assert [file.name for file in storage.list()] == ["s/a.tar", "s/b.tar"]
    fix_duplicates(storage, ["s/a.tar", "s/b.tar"], {"s/a.tar": {"0"}, "s/b.tar": {"0"}})
    assert [read_tar(storage, "s/a.tar"), read_tar(storage, "s/b.tar")] == renamed
    assert set(all_files(storage)) == {"s/a.tar", "s/b.tar"}
