"""The promises of every store of files. A new backend is tested by adding a line to `OPENERS`."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loader.errors import StorageError
from loader.storage import (
    LocalStorage,
    Storage,
    check_target,
    flush_files,
    is_writable,
    open_storage,
    rename_file,
)
from loader.testing.storage import StorageContract, write, write_interrupted

OPENERS: dict[str, Callable[[Path], Storage]] = {
    "path": LocalStorage,
    "URL": lambda root: open_storage(f"file://{root}"),
}


@pytest.fixture(params=OPENERS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return OPENERS[request.param](tmp_path / "root")


class TestLocalStorage(StorageContract):
    """The promises of every store."""


def test_an_empty_range_and_the_range_at_the_end_are_empty(storage: Storage) -> None:
    write(storage, "x", b"0123456789")
    assert storage.read("x", 10, 10) == b""
    assert storage.read("x", 3, 3) == b""


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_an_interrupted_write_leaves_no_other_file(storage: Storage, error: BaseException) -> None:
    write_interrupted(storage, "a/x", error)
    assert os.listdir(storage.path("a")) == ["x"]


def test_a_file_can_be_closed_twice(storage: Storage) -> None:
    write(storage, "x", b"")
    file = storage.open("x")
    file.close()
    file.close()
    assert storage.read("x") == b""


@pytest.mark.parametrize(("offset", "size_bytes"), [(0, 4), (1, 2), (2, 100), (4, 1), (100, 5), (1, 0), (0, 1 << 62)])
def test_a_file_reads_the_same_whatever_was_expected(storage: Storage, offset: int, size_bytes: int) -> None:
    write(storage, "x", b"0123")
    with storage.open("x") as file:
        file.expect(offset, size_bytes)
        assert file.read_at(0, 10) == b"0123"
        assert file.read_at(offset, 2) == b"0123"[offset : offset + 2]


def test_what_is_expected_is_fetched_ahead_and_nothing_else(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, *advice: asked.append(advice))
    write(storage, "x", b"0" * 1000)
    with storage.open("x") as file:
        file.expect(10, 200)
        file.expect(300, 0)  # to the system, 0 bytes mean all up to the end
        file.expect(900, 100)
    assert asked == [(10, 200, os.POSIX_FADV_WILLNEED), (900, 100, os.POSIX_FADV_WILLNEED)]


def test_a_file_system_that_takes_no_advice_reads_all_the_same(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    write(storage, "x", b"0123")
    with storage.open("x") as file:
        file.expect(0, 4)
        assert file.read_at(0, 4) == b"0123"


def test_a_store_works_on_a_system_without_prefetching(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS, for example."""
    monkeypatch.delattr(os, "posix_fadvise")
    monkeypatch.delattr(os, "POSIX_FADV_WILLNEED")
    with storage.lock("lock"):
        write(storage, "x", b"0123")
        with storage.open("x") as file:
            file.expect(0, 4)
            assert file.read_at(0, 4) == b"0123"


def test_stat_gives_size_and_time_of_change(storage: Storage) -> None:
    write(storage, "a/x", b"123")
    os.utime(storage.path("a/x"), ns=(5, 1_700_000_000_123_456_789))
    info = storage.stat("a/x")
    assert (info.name, info.size_bytes, info.mtime_ns) == ("a/x", 3, 1_700_000_000_123_456_789)


def test_a_listing_leaves_out_links_that_lead_nowhere(storage: Storage) -> None:
    write(storage, "x", b"")
    storage.local_path("broken").symlink_to("gone")
    assert [info.name for info in storage.list()] == ["x"]


def test_a_listing_follows_links_to_folders_but_not_in_circles(storage: Storage, tmp_path: Path) -> None:
    write(storage, "a/x", b"x")
    write(storage, "b/y", b"y")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "z").touch()
    for link, target in (
        ("a/far", tmp_path / "far"),
        ("a/self", "."),
        ("a/top", ".."),
        ("a/to_b", "../b"),
        ("b/to_a", "../a"),
    ):
        os.symlink(target, storage.path(link))
    assert [file.name for file in storage.list()] == ["a/far/z", "a/to_b/y", "a/x", "b/to_a/far/z", "b/to_a/x", "b/y"]


def test_a_listing_leaves_pipes_out(storage: Storage) -> None:
    write(storage, "x", b"x")
    os.mkfifo(storage.path("pipe.tar"))
    assert [file.name for file in storage.list()] == ["x"]


def test_a_link_that_leads_to_itself_is_reported(storage: Storage) -> None:
    write(storage, "x", b"")
    storage.local_path("loop").symlink_to("loop")
    with pytest.raises(StorageError, match="symbolic links"):
        list(storage.list())


def test_names_that_are_no_utf8_survive(storage: Storage) -> None:
    name = os.fsdecode(b"caf\xe9.tar")
    write(storage, name, b"1")
    assert [info.name for info in storage.list()] == [name]
    assert storage.read(name) == b"1"


def test_a_missing_folder_cannot_be_listed(storage: Storage) -> None:
    with pytest.raises(StorageError, match="cannot list this folder"):
        list(storage.list())


def test_a_folder_cannot_be_read_as_a_file(storage: Storage) -> None:
    write(storage, "a/x", b"1")
    with pytest.raises(StorageError, match="directory"):
        storage.read("a", 0, 1)


# ------------------------------------------------------------------------------------------- atomic writing


def test_a_file_appears_only_when_it_is_whole(storage: Storage) -> None:
    write(storage, "x", b"old")
    with storage.create("x") as file:
        file.write(b"new")
        file.flush()
        assert storage.read("x") == b"old"
    assert storage.read("x") == b"new"


def test_a_write_that_the_disk_refuses_is_a_storage_error(storage: Storage) -> None:
    def full_disk() -> None:
        with storage.create("x"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match="No space left") as caught:
        full_disk()
    assert caught.value.hint is not None
    assert "free some space" in caught.value.hint
    assert os.listdir(storage.path("")) == []


def test_a_file_is_created_with_the_permissions_of_the_umask(storage: Storage) -> None:
    before = os.umask(0o027)
    try:
        write(storage, "x", b"")
    finally:
        os.umask(before)
    assert os.stat(storage.path("x")).st_mode & 0o777 == 0o640


def test_creating_a_file_leaves_the_umask_of_other_threads_alone(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(mask: int) -> int:
        raise AssertionError("the umask is of the whole process")

    monkeypatch.setattr(os, "umask", refuse)
    write(storage, "x", b"1")
    assert storage.read("x") == b"1"


def test_a_write_below_a_file_is_a_storage_error(storage: Storage) -> None:
    write(storage, "x", b"")
    with pytest.raises(StorageError, match="cannot write"), storage.create("x/y"):
        pass


# ---------------------------------------------------------------------------------------- rename and remove


def test_a_rename_replaces_a_file_and_makes_the_folder(storage: Storage) -> None:
    write(storage, "x", b"1")
    write(storage, "a/y", b"2")
    rename_file(storage, "x", "a/y")
    assert not storage.exists("x")
    assert storage.read("a/y") == b"1"
    rename_file(storage, "a", "b/c")
    assert storage.read("b/c/y") == b"1"


def test_a_rename_of_what_is_missing_is_a_storage_error(storage: Storage) -> None:
    with pytest.raises(StorageError, match="cannot rename gone"):
        rename_file(storage, "gone", "there")


def test_what_cannot_be_removed_is_a_storage_error(storage: Storage) -> None:
    write(storage, "x", b"")
    with pytest.raises(StorageError, match="cannot remove this"):
        storage.remove("x/y")


def test_a_rename_to_another_disk_moves_the_content(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    write(storage, "x", b"1")
    replace = os.replace
    refused: list[str] = []

    def replace_on_one_disk(old: str, new: str) -> None:
        if not refused:
            refused.append(old)
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(old, new)

    monkeypatch.setattr(os, "replace", replace_on_one_disk)
    rename_file(storage, "x", "a/y")
    assert refused == [storage.path("x")]
    assert storage.read("a/y") == b"1"
    assert not storage.exists("x")


@pytest.fixture
def other_disk(storage: Storage) -> Iterator[Storage]:
    """A store with a folder that is a link to another disk."""
    write(storage, "a/x", b"1")
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(storage.path("a")).st_dev:
        pytest.skip("needs two disks")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        storage.local_path("far").symlink_to(folder)
        yield storage


def files_below(storage: Storage, folder: str) -> dict[str, bytes]:
    top = storage.local_path(folder)
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def test_a_file_and_a_folder_can_be_renamed_to_another_disk(other_disk: Storage) -> None:
    write(other_disk, "a/b/y", b"22")
    write(other_disk, "z", b"3")
    os.utime(other_disk.path("z"), ns=(5, 7_000_000_000))
    rename_file(other_disk, "a", "far/new/a")
    rename_file(other_disk, "z", "far/z")
    assert files_below(other_disk, "far") == {"new/a/x": b"1", "new/a/b/y": b"22", "z": b"3"}
    assert other_disk.stat("far/z").mtime_ns == 7_000_000_000
    assert not other_disk.exists("a")
    assert not other_disk.exists("z")


def test_a_rename_to_another_disk_that_was_killed_before_all_was_removed_is_finished(other_disk: Storage) -> None:
    write(other_disk, "far/a/x", b"1")
    write(other_disk, "far/a/y", b"2")
    rename_file(other_disk, "a", "far/a")
    assert files_below(other_disk, "far") == {"a/x": b"1", "a/y": b"2"}
    assert not other_disk.exists("a")


def test_a_folder_does_not_replace_another_one_on_another_disk(other_disk: Storage) -> None:
    write(other_disk, "far/a/y", b"2")
    with pytest.raises(StorageError, match="cannot copy a to this"):
        rename_file(other_disk, "a", "far/a")
    assert files_below(other_disk, "far") == {"a/y": b"2"}
    assert other_disk.read("a/x") == b"1"


def test_a_folder_that_the_other_disk_has_no_room_for_stays(
    other_disk: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, target: str, **_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(StorageError, match="No space left"):
        rename_file(other_disk, "a", "far/a")
    with pytest.raises(StorageError, match="No space left"):
        rename_file(other_disk, "a/x", "far/x")
    assert os.listdir(other_disk.path("far")) == []
    assert other_disk.read("a/x") == b"1"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_flushed_files_and_folders_are_on_the_disk(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/x", "a/b/y", "z", "other"):
        with storage.create(name, durable=False):
            pass
    os.mkfifo(storage.path("a/pipe"))
    storage.local_path("a/link").symlink_to("gone")
    flushed = set()
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.add(os.readlink(f"/proc/self/fd/{fd}")))
    flush_files(storage, ["a", "z"])
    assert flushed == {storage.path(name) for name in ("", "a", "a/x", "a/b", "a/b/y", "z")}


def test_what_is_missing_cannot_be_flushed(storage: Storage) -> None:
    with pytest.raises(StorageError, match="cannot flush"):
        flush_files(storage, ["gone"])


def test_removing_a_link_to_a_folder_keeps_the_folder(storage: Storage) -> None:
    write(storage, "a/x", b"1")
    storage.local_path("link").symlink_to("a")
    storage.remove("link")
    assert storage.read("a/x") == b"1"
    assert not storage.exists("link")


# ----------------------------------------------------------------------------------------------------- locks

HOLD = """
import sys
from loader.storage import LocalStorage
with LocalStorage(sys.argv[1]).lock("a/lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(storage: Storage) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, storage.path("")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_that_another_process_holds_says_which(storage: Storage, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(StorageError, match=f"process {holder.pid} on "), storage.lock("a/lock"):
        pass


def test_a_lock_ends_with_its_process_however_that_ends(storage: Storage, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    assert holder.wait() == -signal.SIGKILL
    with (
        storage.lock("a/lock"),
        pytest.raises(StorageError, match=f"process {os.getpid()}, which is this one"),
        storage.lock("a/lock"),
    ):
        pass


def test_processes_share_a_lock_that_excludes_others(storage: Storage) -> None:
    command = [sys.executable, "-c", HOLD.replace('"a/lock"', '"a/lock", shared=True'), storage.path("")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with storage.lock("a/lock", shared=True):
            pass
        message = f"one or more shares of a command, the last one started by process {os.getpid()} on "
        with pytest.raises(StorageError, match=message), storage.lock("a/lock"):
            pass
        process.kill()
        process.wait()
        with storage.lock("a/lock"):
            pass


def test_a_lock_held_alone_excludes_those_who_share(storage: Storage, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(StorageError, match=f"process {holder.pid} on "), storage.lock("a/lock", shared=True):
        pass


def test_a_lock_can_be_waited_for(storage: Storage, holder: subprocess.Popen[str]) -> None:
    held = threading.Event()

    def wait_for_it() -> None:
        with storage.lock("a/lock", wait=True):
            held.set()

    thread = threading.Thread(target=wait_for_it)
    thread.start()
    assert not held.wait(0.2)
    assert holder.stdin is not None
    holder.stdin.close()  # its process ends, and so does the lock
    thread.join()
    assert held.is_set()


IS_FREE = "import sys, loader.storage as s\nwith s.LocalStorage(sys.argv[1]).lock('a/lock'): pass"


def is_free(storage: Storage) -> bool:
    """Return True if another process can take the lock."""
    command = [sys.executable, "-c", IS_FREE, storage.path("")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_lock_is_refused_to_another_holder_in_this_process(storage: Storage) -> None:
    with storage.lock("a/lock"):
        with pytest.raises(StorageError, match="which is this one"), LocalStorage(storage.path("")).lock("a/lock"):
            pytest.fail("held twice")
        assert not is_free(storage)  # the refused attempt did not release it
    assert is_free(storage)


def test_a_thread_that_would_wait_for_itself_is_told(storage: Storage) -> None:
    with storage.lock("a/lock"):
        with pytest.raises(StorageError, match="wait for itself"), storage.lock("a/lock", wait=True):
            pytest.fail("held twice")
        assert not is_free(storage)


def test_threads_hold_a_lock_one_after_another(storage: Storage) -> None:
    inside, most = [], []

    def hold() -> None:
        for _ in range(20):
            with storage.lock("a/lock", wait=True):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 60


def test_a_thread_waits_for_a_lock_that_another_holds(storage: Storage) -> None:
    held = threading.Event()

    def wait_for_it() -> None:
        with storage.lock("a/lock", wait=True):
            held.set()

    thread = threading.Thread(target=wait_for_it)
    with storage.lock("a/lock"):
        thread.start()
        assert not held.wait(0.2)
        assert not is_free(storage)
    thread.join()
    assert held.is_set()


def test_a_lock_by_another_path_is_the_same_one(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(storage.path(""))
    other = LocalStorage(tmp_path / "link")
    with storage.lock("a/lock"), pytest.raises(StorageError, match="which is this one"), other.lock("a/lock"):
        pytest.fail("held twice")


def test_a_lock_that_cannot_be_made_is_a_storage_error(storage: Storage) -> None:
    write(storage, "x", b"")
    with pytest.raises(StorageError, match="cannot create this lock file"), storage.lock("x/lock"):
        pass


def test_a_lock_is_free_again_after_an_error(storage: Storage) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="no"), storage.lock("lock"):
            raise ValueError("no")


# --------------------------------------------------------------------------------------- ranges, URLs, faults


def test_a_relative_root_does_not_move_with_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("data")
    write(storage, "x", b"1")
    monkeypatch.chdir("/")
    assert storage.read("x") == b"1"
    assert storage.url == "data"


@pytest.mark.parametrize("protocol", ["memory", "ftp", "filesystem+msc", "no protocol"])
def test_a_url_that_no_store_serves_is_refused(protocol: str) -> None:
    with pytest.raises(StorageError, match=re.escape(f"cannot read {protocol}:// URLs")):
        open_storage(f"{protocol}://bucket/x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_not_writable(storage: Storage) -> None:
    write(storage, "a/x", b"")
    os.chmod(storage.path("a"), 0o500)
    assert not is_writable(storage, "a")
    with pytest.raises(StorageError, match="Permission denied"), storage.create("a/y"):
        pass


def test_a_missing_folder_is_writable_if_it_can_be_created(storage: Storage) -> None:
    assert is_writable(storage, "a/b")
    write(storage, "a", b"")
    os.chmod(storage.path("a"), 0o400)
    assert not is_writable(storage, "a/b")


def test_a_replaced_folder_is_used_instead_and_the_rest_stays_as_it_is(tmp_path: Path) -> None:
    write(LocalStorage(tmp_path / "root"), ".meta/x", b"own")
    write(LocalStorage(tmp_path / "root"), "s.tar", b"shard")
    storage = open_storage(tmp_path / "root", replaced=(".meta", tmp_path / "other"))
    assert not storage.exists(".meta/x")
    write(storage, ".meta/a/x", b"new")
    rename_file(storage, ".meta/a/x", ".meta/b/y")
    assert (tmp_path / "other/b/y").read_bytes() == b"new"
    assert [file.name for file in storage.list(".meta")] == [".meta/b/y"]
    assert [file.name for file in storage.list()] == ["s.tar"]
    assert storage.read("s.tar") == b"shard"
    assert storage.exists(".metal") is False
    assert (is_writable(storage, ".meta"), is_writable(storage, "")) == (True, False)
    for change in (
        lambda: write(storage, "s.tar.idx", b""),
        lambda: storage.remove("s.tar"),
        lambda: rename_file(storage, ".meta/b/y", "y"),
        lambda: check_target(storage, "y"),
        lambda: storage.path(".meta/../../x"),
    ):
        with pytest.raises(StorageError, match=r"read-only while|leads out"):
            change()
    assert (tmp_path / "root/.meta/x").read_bytes() == b"own"


def test_links_inside_a_replaced_folder_are_not_written_through(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "root", replaced=(".meta", tmp_path / "other"))
    (tmp_path / "other").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "other/index").symlink_to(tmp_path / "victim")
    with pytest.raises(StorageError, match="found a link to another folder"):
        write(storage, ".meta/index/x", b"")


def test_a_folder_of_ones_own_is_writable(storage: Storage) -> None:
    write(storage, "a/x", b"")
    assert is_writable(storage, "a")


def test_a_file_that_need_not_survive_a_power_cut_appears_whole_too(storage: Storage) -> None:
    with storage.create("a/x", durable=False) as file:
        file.write(b"123")
        assert not storage.exists("a/x")
    assert storage.read("a/x") == b"123"


def test_a_read_that_the_system_cuts_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    write(storage, "x", bytes(range(100)))
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 7), offset))
    with storage.open("x") as file:
        assert file.read_at(3, 50) == bytes(range(3, 53))
        assert file.read_at(90, 50) == bytes(range(90, 100))


def test_a_disk_that_knows_no_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with (
        pytest.raises(StorageError, match="cannot lock this file: No locks available"),
        LocalStorage(tmp_path).lock("lock"),
    ):
        pass


def test_a_lock_holds_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with LocalStorage(tmp_path).lock("lock"):
        code = "import sys, loader.storage as s\nwith s.LocalStorage(sys.argv[1]).lock('lock'): pass"
        second = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
        )
    assert "another run is at work here: another process" in second.stderr
