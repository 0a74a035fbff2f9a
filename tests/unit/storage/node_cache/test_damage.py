"""Damaged files, hostile names and links, full and foreign disks: reads are right, and nothing else is touched."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from loader.errors import ConfigError
from loader.storage.node_cache import node_cache, private_folder
from loader.storage.node_cache.block_cache import _CHECKSUM, _TABLE, HEADER_BYTES
from loader.storage.node_cache.node_cache import block_cache
from loader.storage.node_cache.private_folder import CacheSettings, network_file_system
from tests.small_disks import mounted_disk, read_only

from .opened_caches import FakeObject, block_files, open_cache


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def _flip_header(path: Path) -> None:
    _flip(path, 10)


def _flip_checksum(path: Path) -> None:
    _flip(path, 60)


def _flip_data(path: Path) -> None:
    _flip(path, 4096 + 50_000)


def _of_another_block(path: Path) -> None:
    other = [one for one in path.parent.iterdir() if one != path]
    path.write_bytes(other[0].read_bytes())


@pytest.mark.parametrize(
    "damage", [_cut, _empty, _zeros, _longer, _flip_header, _flip_checksum, _flip_data, _of_another_block]
)
def test_a_damaged_block_is_fetched_again(
    damage: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found, other = FakeObject(1, 100_000), FakeObject(2, 100_000)
    found.read(open_cache(tmp_path, monkeypatch))
    (path,) = block_files(tmp_path)
    other.read(open_cache(tmp_path, monkeypatch))
    damage(path)
    cache = open_cache(tmp_path, monkeypatch)
    found.fetched.clear()
    found.read(cache, 40_000, 60_000)
    found.read(cache)
    assert found.fetched == [(0, 100_000)]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    found.read(open_cache(tmp_path, monkeypatch))
    assert found.fetched == [(0, 100_000)]


def test_any_flipped_bit_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, choice = FakeObject(1, 3_000), random.Random(1)
    cache = open_cache(tmp_path, monkeypatch)
    for _ in range(200):
        found.read(cache)
        (path,) = block_files(tmp_path)
        checked = [*range(_TABLE + _CHECKSUM.size), *range(HEADER_BYTES, path.stat().st_size)]
        _flip(path, choice.choice(checked))
        found.fetched.clear()
        found.read(cache)  # compares the bytes
        assert found.fetched == [(0, 3_000)]


# ------------------------------------------------------------------------------------------------------ hostile files


def _link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def _hard_link(path: Path, outside: Path) -> None:
    path.hardlink_to(outside)


def _pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, outside: Path) -> None:
    path.mkdir()


def _dangling(path: Path, outside: Path) -> None:
    path.symlink_to(outside.parent / "created")


@pytest.mark.parametrize("put", [_link, _hard_link, _pipe, _folder, _dangling])
def test_what_is_no_file_of_the_cache_is_not_followed(
    put: Callable[[Path, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FakeObject(1, 100_000)
    folder = tmp_path / "cache"
    found.read(open_cache(folder, monkeypatch))
    (path,) = block_files(folder)
    outside = tmp_path / "outside"
    outside.write_bytes(path.read_bytes())  # a valid block, but elsewhere
    os.utime(outside, (1, 1))
    path.unlink()
    put(path, outside)
    before = sorted(tmp_path.iterdir()), outside.read_bytes(), outside.stat().st_mtime_ns
    found.fetched.clear()
    cache = open_cache(folder, monkeypatch)
    found.read(cache, 0, 1000)
    found.read(cache, 0, 1000)
    assert found.fetched
    assert (sorted(tmp_path.iterdir()), outside.read_bytes(), outside.stat().st_mtime_ns) == before


def test_files_of_others_stay_when_blocks_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeObject(0, 1000).read(open_cache(tmp_path, monkeypatch))
    blocks = block_files(tmp_path)[0].parent
    names = ["notes.txt", "a" * 40, "a" * 39 + "-10", "../x-10", "a" * 40 + "-1x", "a" * 40 + "-10\n", "-rf", "*"]
    names = [name for name in names if "/" not in name]
    for name in names:
        (blocks / name).write_text("mine")
        os.utime(blocks / name, (-2_000_000_000, -2_000_000_000))  # older than blocks that are used up
    (blocks / ("b" * 40 + "-5")).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("mine")
    (blocks / ("c" * 40 + "-5")).mkdir()
    cache = open_cache(tmp_path, monkeypatch, limit_bytes=300_000)
    for number in range(1, 20):
        FakeObject(number, 100_000).read(cache)
    assert sum(path.stat().st_size for path in blocks.iterdir() if path.name not in names) < 400_000
    assert {name: (blocks / name).read_text() for name in names} == dict.fromkeys(names, "mine")
    assert (tmp_path / "elsewhere").read_text() == "mine"


def _planted_lock(path: Path) -> None:
    path.write_bytes(b"")
    os.chown(path, 12345, 12345)


def _planted_pipe(path: Path) -> None:
    os.mkfifo(path)


def _planted_link(path: Path) -> None:
    (path.parents[1] / "outside").write_text("mine")
    path.symlink_to(path.parents[1] / "outside")


@pytest.mark.parametrize("plant", [_planted_lock, _planted_pipe, _planted_link])
@pytest.mark.parametrize("name", ["locks", "blocks", "files"])
def test_a_cache_with_a_foreign_inside_is_not_used(
    plant: Callable[[Path], None],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if os.getuid() != 0 and plant is _planted_lock:
        pytest.skip("only root gives files to others")
    own = tmp_path / f"energon-cache-{os.getuid()}"
    own.mkdir()
    plant(own / name)
    monkeypatch.setattr(node_cache, "_caches", {})
    assert block_cache(CacheSettings(folder=str(tmp_path))) is None
    assert len(caplog.records) == 1
    assert "cannot use the cache" in caplog.text
    assert [path.read_text() for path in tmp_path.glob("outside")] in ([], ["mine"])


def test_folders_and_links_with_names_of_blocks_take_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeObject(0, 1000).read(open_cache(tmp_path, monkeypatch))
    blocks = block_files(tmp_path)[0].parent
    (blocks / ("b" * 40 + "-99999999")).symlink_to(tmp_path)
    (blocks / ("c" * 40 + "-99999999")).mkdir()
    cache = open_cache(tmp_path, monkeypatch, limit_bytes=1_000_000)
    found = FakeObject(1, 1000)
    found.read(cache)
    found.read(open_cache(tmp_path, monkeypatch, limit_bytes=1_000_000))
    assert found.fetched == [(0, 1000)]


def test_a_process_without_free_files_removes_no_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = FakeObject(1, 1000)
    found.read(open_cache(tmp_path, monkeypatch))
    cache = open_cache(tmp_path, monkeypatch)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        found.read(cache, 0, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)
    assert found.fetched == [(0, 1000), (0, 10)]
    found.read(cache)
    assert found.fetched == [(0, 1000), (0, 10)]
    assert "damaged" not in caplog.text


def test_the_own_folder_has_a_tag_and_no_access_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_cache(tmp_path, monkeypatch)
    (own,) = tmp_path.iterdir()
    assert (own / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    own.chmod(0o777)
    open_cache(tmp_path, monkeypatch)
    assert own.stat().st_mode & 0o777 == 0o700


def test_the_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / f"energon-cache-{os.getuid()}"
    own.mkdir()
    if os.getuid() == 0:
        os.chown(own, 12345, 12345)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        own.rename(tmp_path / "energon-cache-12345")
    with pytest.raises(ConfigError, match="another user"):
        open_cache(tmp_path, monkeypatch)


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / f"energon-cache-{os.getuid()}").symlink_to(tmp_path / "target")
    with pytest.raises(ConfigError, match="found a link"):
        open_cache(tmp_path, monkeypatch)
    assert [*(tmp_path / "target").iterdir()] == []


def test_a_network_file_system_is_refused_unless_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_folder, "network_file_system", lambda _: "NFS")
    with pytest.raises(ConfigError, match="a cache on NFS is of no use"):
        open_cache(tmp_path, monkeypatch)
    FakeObject(1, 10).read(open_cache(tmp_path, monkeypatch, on_network=True))


def test_a_local_file_system_is_known(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert network_file_system(fd) is None
    finally:
        os.close(fd)


# ---------------------------------------------------------------------------------------------------------- the disks


def test_a_read_only_folder_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_cache, "_caches", {})
    folder = tmp_path / "disk"
    folder.mkdir()
    with read_only(folder):
        settings = CacheSettings(folder=str(folder))
        assert [block_cache(settings), block_cache(settings)] == [None, None]
    assert len(caplog.records) == 1
    assert "cannot use the cache" in caplog.text


def test_a_full_disk_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with mounted_disk(tmp_path / "disk") as disk:
        cache = open_cache(disk, monkeypatch, limit_bytes=1 << 30)
        kept, others = FakeObject(1, 200_000), [FakeObject(number, 200_000) for number in range(2, 6)]
        kept.read(cache, 0, 1000)
        (disk / "fill").write_bytes(bytes(700_000))
        monkeypatch.setattr(type(cache._space), "reserve", lambda *_: True)  # as if others filled the disk meanwhile
        for found in others:
            found.read(cache, 0, 1000)
            found.read(cache, 5000, 6000)
        kept.read(cache, 100_000, 150_000)
        assert kept.fetched == [(0, 200_000)]
        assert sum(found.fetched_bytes for found in others) <= 4 * 2000 + 200_000
        assert [record.getMessage() for record in caplog.records if "No space left" in record.getMessage()] == [
            record.getMessage() for record in caplog.records
        ]
        assert len(caplog.records) == 1


def test_blocks_leave_a_disk_that_others_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mounted_disk(tmp_path / "disk") as disk:
        cache = open_cache(disk, monkeypatch, limit_bytes=1 << 30, free_bytes=200_000)
        for number in range(20):
            FakeObject(number, 100_000).read(cache)
            free = os.statvfs(disk)
            assert free.f_bavail * free.f_frsize >= 200_000 - 8192


def test_a_folder_that_is_removed_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = open_cache(tmp_path, monkeypatch)
    (own,) = tmp_path.iterdir()
    own.rename(tmp_path / "moved")
    FakeObject(1, 1000).read(cache)  # it is the same folder under another name
    subprocess.run(["rm", "-r", str(tmp_path / "moved")], check=True)
    for number in range(2, 5):
        FakeObject(number, 1000).read(cache)
    assert len(caplog.records) == 1
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("age_s", [10, 1000])
def test_without_unnamed_files_those_of_killed_processes_leave(
    age_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    found = FakeObject(1, 1000)
    found.read(open_cache(tmp_path, monkeypatch))
    (path,) = block_files(tmp_path)
    left = path.with_name(f"{'a' * 40}-1000-{'b' * 12}.partial")
    left.write_bytes(b"half")
    os.utime(left, (time.time() - age_s, time.time() - age_s))
    cache = open_cache(tmp_path, monkeypatch)
    found.read(cache)
    FakeObject(2, 1000).read(cache)
    assert left.exists() == (age_s < 600)
    assert found.fetched == [(0, 1000)]


# ------------------------------------------------------------------------------------------------------ the processes

_HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)  # all numbers
print("held", flush=True)
time.sleep(60)
"""


def test_a_process_that_holds_a_block_too_long_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache(tmp_path, monkeypatch)
    monkeypatch.setattr("loader.storage.node_cache.block_cache._WAIT_S", 0.2)
    (own,) = tmp_path.iterdir()
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(own / "locks")], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            found = FakeObject(1, 100_000)
            found.read(cache, 10, 20)
            assert found.fetched == [(10, 20)]
        finally:
            process.kill()
    found.read(cache, 10, 20)
    assert found.fetched == [(10, 20), (0, 100_000)]
