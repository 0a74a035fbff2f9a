"""Copies of whole files are downloaded once, and vanish without a cache folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loader.errors import ConfigError, StorageError
from loader.storage.node_cache import node_cache
from loader.storage.node_cache.node_cache import local_copy
from loader.storage.node_cache.private_folder import CacheSettings
from tests.small_disks import mounted_disk

_USER = """
import sys, time
from loader.storage.node_cache.node_cache import local_copy
def download():
    print("downloads", flush=True)
    yield b"column"
path = local_copy(None, "s3://bucket/column", download)
print(path, path.read_bytes().decode(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of temporary files of this test and the processes that it starts."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(node_cache, "_temporary", {})
    monkeypatch.setattr(node_cache, "_caches", {})
    monkeypatch.setattr(node_cache, "_without_copies", [])
    return folder


def _user() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _USER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _lines(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    first = process.stdout.readline().strip()
    return [first, process.stdout.readline().strip()] if first == "downloads" else [first]


def _copies(folder: Path) -> list[Path]:
    return [*folder.glob("energon-*/files/*")]


def test_without_a_cache_a_copy_vanishes_after_its_last_user(temporary: Path) -> None:
    with _user() as first, _user() as second:
        lines = _lines(first) + _lines(second)
        assert lines.count("downloads") == 1
        assert [line.split()[1] for line in lines if line != "downloads"] == ["column"] * 2
        first.communicate("\n")
        assert len(_copies(temporary)) == 1
        second.communicate("\n")
    assert _copies(temporary) == []
    assert sorted(path.name for path in temporary.glob("*/*")) == ["CACHEDIR.TAG", "files", "locks"]


def test_copies_of_killed_processes_are_removed_by_the_next_one(temporary: Path) -> None:
    for _ in range(3):
        with _user() as process:
            assert _lines(process)[0] == "downloads"
            process.send_signal(signal.SIGKILL)
        assert len(_copies(temporary)) == 1
    with _user() as process:
        assert _lines(process)[0] == "downloads"  # what a power cut left is not trusted either
        process.communicate("\n")
    assert _copies(temporary) == []


def test_a_forked_child_that_ends_leaves_the_copies_of_its_parent(temporary: Path) -> None:
    code = f"import os\n{_USER}".replace("sys.stdin", "os.fork() or sys.exit()\nos.wait()\nsys.stdin")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        _lines(process)
        time.sleep(0.5)
        assert len(_copies(temporary)) == 1
        process.communicate("\n")
    assert _copies(temporary) == []


def test_a_copy_in_the_cache_is_kept(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = CacheSettings(folder=str(tmp_path / "cache"), free_bytes=0)
    downloads = 0

    def download() -> Iterator[bytes]:
        nonlocal downloads
        downloads += 1
        yield b"col"
        yield b"umn"

    for _ in range(2):
        assert local_copy(settings, "s3://bucket/column", download).read_bytes() == b"column"
        monkeypatch.setattr(node_cache, "_caches", {})
    assert downloads == 1
    assert _copies(temporary) == []


def test_a_failed_download_leaves_nothing(tmp_path: Path) -> None:
    def download() -> Iterator[bytes]:
        yield b"col"
        raise StorageError("the service is gone")

    with pytest.raises(StorageError, match="the service is gone"):
        local_copy(CacheSettings(folder=str(tmp_path), free_bytes=0), "s3://bucket/column", download)
    assert _copies(tmp_path) == []


def test_threads_download_a_file_once(tmp_path: Path) -> None:
    begin, downloads = threading.Barrier(8), []

    def download() -> Iterator[bytes]:
        downloads.append(1)
        time.sleep(0.05)
        yield b"column"

    def copy(_: int) -> bytes:
        begin.wait()
        return local_copy(CacheSettings(folder=str(tmp_path), free_bytes=0), "key", download).read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(copy, range(8))] == [b"column"] * 8
    assert len(downloads) == 1


def test_a_link_under_the_name_of_a_copy_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = CacheSettings(folder=str(tmp_path / "cache"), free_bytes=0)
    path = local_copy(settings, "key", lambda: [b"column"])
    outside = tmp_path / "outside"
    outside.write_text("mine")
    path.unlink()
    path.symlink_to(outside)
    monkeypatch.setattr(node_cache, "_caches", {})
    assert local_copy(settings, "key", lambda: [b"column"]).read_bytes() == b"column"
    assert not path.is_symlink()
    assert outside.read_text() == "mine"


def test_a_full_cache_disk_gives_temporary_copies(
    tmp_path: Path, temporary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with mounted_disk(tmp_path / "disk") as disk:
        settings = CacheSettings(folder=str(disk), free_bytes=0)
        path = local_copy(settings, "key", lambda: [bytes(1 << 20), bytes(1 << 20)])
        assert path.stat().st_size == 2 << 20
        assert path.is_relative_to(temporary)
        assert _copies(disk) == []
    assert "No space left" in caplog.text


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_cache_folder_that_is_moved_gives_temporary_copies(
    is_kept: bool, tmp_path: Path, temporary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = CacheSettings(folder=str(tmp_path / "cache"), free_bytes=0)
    local_copy(settings, "first", lambda: [b"column"])
    (tmp_path / "cache").rename(tmp_path / "moved")
    if not is_kept:
        shutil.rmtree(tmp_path / "moved")
    for key in ("first", "second"):
        path = local_copy(settings, key, lambda: [b"column"])
        assert path.read_bytes() == b"column"
        assert path.is_relative_to(temporary)
    assert len(caplog.records) == 1


def test_the_temporary_folder_of_another_user_is_refused(temporary: Path) -> None:
    own = temporary / f"energon-copies-{os.getuid()}"
    own.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root gives folders to others")
    os.chown(own, 12345, 12345)
    with pytest.raises(ConfigError, match="another user"):
        local_copy(None, "key", lambda: [b"column"])


def test_old_copies_leave_a_full_cache_after_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = CacheSettings(folder=str(tmp_path), free_bytes=0, limit_bytes=1000)
    paths = [local_copy(settings, f"key {number}", lambda: [bytes(400)]) for number in range(2)]
    os.utime(paths[0], (1, 1))
    monkeypatch.setattr(node_cache, "_caches", {})
    local_copy(settings, "another key", lambda: [bytes(400)])
    assert [path.exists() for path in paths] == [False, True]
