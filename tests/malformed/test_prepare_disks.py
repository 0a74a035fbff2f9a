"""Prepare on full and read-only disks, and from shards that are damaged or change meanwhile."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from loader.dataset.opening import folder_at
from loader.errors import ConfigError, EnergonError, FormatError, StorageError
from loader.format.index.journal import save_scans
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.format.index.small_shards import index_small_shards
from loader.prepare import scans as shard_scans
from loader.storage import FileInfo, LocalStorage, Storage
from tests.e2e.dataset_tree import (
    caption_samples,
    copy_of,
    prepare,
    shard_path,
    times_of_change,
    write_shard,
    write_shards,
    written,
)
from tests.small_disks import mounted_disk

is_root = os.geteuid() == 0
OTHER_USER = 65534


def in_child(action: Callable[[], object]) -> str:
    """Run something in a fork of this process; return its error, or an empty text."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        message = ""
        try:
            action()
        except EnergonError as error:
            message = str(error)
        except BaseException as error:  # noqa: BLE001 - no error may leave the fork
            message = f"unexpected: {error!r}"
        with os.fdopen(write, "wb") as pipe:
            pipe.write(message.encode("utf-8", "surrogateescape"))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        message = pipe.read().decode("utf-8", "surrogateescape")
    os.waitpid(child, 0)
    return message


def as_other_user(action: Callable[[], object]) -> str:
    def run() -> None:
        if is_root:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
        action()

    return in_child(run)


@pytest.fixture
def open_path(tmp_path: Path) -> Path:
    """Create a folder that other users can open too."""
    for folder in (tmp_path, *tmp_path.parents[:3]):  # created by pytest; one level more with several workers
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
    return tmp_path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 1 MiB."""
    with mounted_disk(tmp_path / "disk") as disk:
        yield disk


# ------------------------------------------------------------------------------------------------- a full disk


def fill(disk: Path, *, leave_bytes: int) -> Path:
    filler = disk / "filler"
    with filler.open("wb") as file:
        left = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        file.write(bytes(max(0, left - leave_bytes)))
    return filler


@pytest.mark.parametrize(
    ("leave_kib", "workers"),
    [
        *((leave_kib, 1) for leave_kib in (0, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128, 160)),
        *((leave_kib, 2) for leave_kib in (0, 16, 64, 160)),
        *(pytest.param(leave_kib, 2, marks=pytest.mark.slow) for leave_kib in (4, 8, 32, 48, 80, 96, 112, 128)),
    ],
)
@pytest.mark.sampled(2)
def test_a_full_disk_is_told_and_the_old_dataset_stays_and_space_helps(
    small_disk: Path, tmp_path: Path, leave_kib: int, workers: int
) -> None:
    folder = write_shards(small_disk / "dataset", 4, samples=6)
    prepare(folder)
    old = written(folder)
    write_shard(shard_path(folder, 1), caption_samples(100, 40))
    write_shard(shard_path(folder, 3), caption_samples(200, 40))
    prepare(copy_of(folder, tmp_path / "fresh"))
    filler = fill(small_disk, leave_bytes=leave_kib * 1024)
    error = None
    try:
        prepare(folder, workers=workers)
    except StorageError as caught:
        error = caught
    if error is None:
        assert leave_kib > 16
    else:
        assert "No space left on device" in error.message or "disk is full" in error.message
        assert error.hint == "free some space on that disk and run the same command again"
        assert {
            name: data for name, data in written(folder).items() if not name.startswith(".nv-meta/.prepare/")
        } == old
        assert not (folder / ".nv-meta/.prepare/staged").exists()
    filler.unlink()
    prepare(folder)
    assert written(folder, sqlite_as_rows=True) == written(tmp_path / "fresh", sqlite_as_rows=True)


def test_a_disk_full_to_the_last_byte_is_told(small_disk: Path) -> None:
    folder = write_shards(small_disk / "dataset", 2)
    fill(small_disk, leave_bytes=0)
    with pytest.raises(StorageError, match=r"No space left on device|disk is full"):
        prepare(folder)


def test_a_limit_of_file_size_is_told(tmp_path: Path) -> None:
    write_shards(tmp_path, 2, samples=300)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        prepare(tmp_path)

    message = in_child(limited)
    assert message.startswith(("cannot write this file: File too large\n", "cannot write this file: disk I/O error\n"))
    assert not (tmp_path / ".nv-meta/.info.json").exists()
    assert not (tmp_path / ".nv-meta/.prepare/staged").exists()
    assert prepare(tmp_path).samples == 600


# --------------------------------------------------------------------------------------------------- read-only


def test_a_read_only_dataset_folder_is_told(open_path: Path) -> None:
    write_shards(open_path / "dataset", 2)
    (open_path / "dataset").chmod(0o555)
    message = as_other_user(lambda: prepare(open_path / "dataset"))
    assert "Permission denied" in message
    assert f"  at: {open_path}/dataset/.nv-meta/.lock\n  hint: ask for the permission" in message
    assert not (open_path / "dataset/.nv-meta").exists()


def test_a_read_only_nv_meta_is_told_and_stays_as_it_is(open_path: Path) -> None:
    folder = write_shards(open_path / "dataset", 2)
    prepare(folder)
    write_shard(shard_path(folder, 0), caption_samples(100, 2))
    before = times_of_change(folder)
    message = as_other_user(lambda: prepare(folder))
    assert "Permission denied" in message
    assert f"{folder}/.nv-meta/" in message
    assert "ask for the permission" in message
    assert times_of_change(folder) == before


def give_to_other_user(*paths: Path) -> None:
    for path in paths:
        if is_root:
            os.chown(path, OTHER_USER, OTHER_USER)


def test_a_read_only_folder_of_shards_gets_no_compat_files_and_a_warning(open_path: Path) -> None:
    folder = write_shards(open_path / "dataset" / "shards", 3).parent
    give_to_other_user(folder)
    (folder / "shards").chmod(0o555)

    def check() -> None:
        report = prepare(folder)
        assert not report.compat
        assert f"no permission to write .tar.idx files in {folder}/shards" in "".join(report.warnings)
        before = times_of_change(folder)
        assert not prepare(folder).changed
        assert times_of_change(folder) == before
        with pytest.raises(FormatError, match="no permission to write"):
            prepare(folder, compat=True)

    assert as_other_user(check) == ""
    assert folder_at(folder).index.find("00004") == [4]


def test_a_folder_of_shards_that_became_read_only_does_not_stop_a_prepare(open_path: Path) -> None:
    folder = write_shards(open_path / "dataset" / "shards", 3).parent
    prepare(folder)
    write_shard(folder / "shards/shard_001.tar", caption_samples(100, 2))
    give_to_other_user(*folder.rglob("*"), folder)
    (folder / "shards").chmod(0o555)

    def check() -> None:
        report = prepare(folder)
        assert (report.compat, report.scanned) == (False, 1)
        assert not prepare(folder).changed

    assert as_other_user(check) == ""
    assert not (folder / ".nv-meta/index.sqlite").exists()


def test_compat_files_that_are_right_stay_in_use_in_a_read_only_folder(open_path: Path) -> None:
    folder = write_shards(open_path / "dataset" / "shards", 3).parent
    prepare(folder)
    give_to_other_user(*folder.rglob("*"), folder)
    (folder / "shards").chmod(0o555)

    def check() -> None:
        report = prepare(folder, files={"dataset.yaml": "a: 1\n"})
        assert (report.changed, report.compat, report.warnings) == (True, True, ())

    assert as_other_user(check) == ""


def test_unreadable_shards_are_all_named(open_path: Path) -> None:
    folder = write_shards(open_path / "dataset", 4)
    give_to_other_user(folder)
    shard_path(folder, 1).chmod(0)
    message = as_other_user(lambda: prepare(folder))
    if is_root:
        assert message == (
            f"cannot open this file: Permission denied\n  at: {shard_path(folder, 1)}\n"
            "  hint: ask for the permission, or run as a user who has it"
        )
    shard_path(folder, 3).chmod(0)
    os.utime(shard_path(folder, 3))
    message = as_other_user(lambda: prepare(folder))
    assert message.startswith("2 shards cannot be indexed\n")
    assert str(shard_path(folder, 1)) in message
    assert str(shard_path(folder, 3)) in message


# -------------------------------------------------------------------------------------------- damage and change


def test_all_damaged_shards_are_named_at_once_and_exclude_gets_on(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, 6)
    os.truncate(shard_path(folder, 1), 700)
    shard_path(folder, 3).write_bytes(b"")
    data = bytearray(shard_path(folder, 4).read_bytes())
    data[1024:1030] = b"garble"
    shard_path(folder, 4).write_bytes(data)
    for workers in (1, 3):
        with pytest.raises(FormatError) as caught:
            prepare(folder, workers=workers)
        message = str(caught.value)
        assert message.startswith("3 shards cannot be indexed\n")
        places = [line.removeprefix("  at: ") for line in message.splitlines() if line.startswith("  at: ")]
        assert places == [
            f"{shard_path(folder, 1)}, byte 0",
            f"{shard_path(folder, 3)}, byte 0",
            f"{shard_path(folder, 4)}, byte 1024",
        ]
        assert message.endswith("hint: fix them, or leave them out: energon prepare --exclude REGEX")
        assert {path.name for path in (folder / ".nv-meta").iterdir()} <= {".lock", ".prepare"}
        assert list(folder.rglob("*.idx")) == []
    with pytest.raises(StorageError, match="not a prepared dataset"):
        folder_at(folder)
    report = prepare(folder, exclude=r"_00[134]\.")
    assert (report.shards, report.scanned, report.resumed) == (3, 0, 3)


def test_one_damaged_shard_leaves_the_old_dataset(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, 4)
    prepare(folder)
    before = written(folder)
    os.truncate(shard_path(folder, 2), 600)
    with pytest.raises(FormatError) as caught:
        prepare(folder)
    assert caught.value.shard == str(shard_path(folder, 2))
    assert {name: data for name, data in written(folder).items() if "/.prepare/" not in name} == before
    assert len(folder_at(folder).index) == 12


def test_shards_without_any_sample_are_no_dataset(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tar", {})
    with pytest.raises(FormatError, match=r"the shards hold no samples; expected members named key\.part"):
        prepare(tmp_path)
    assert not (tmp_path / ".nv-meta/.info.json").exists()


@pytest.mark.parametrize(
    ("files", "options", "found"),
    [
        ([], {}, "no .tar files here or in the folders below"),
        (["a.tar.gz", "b.tgz"], {}, "no .tar files here, but 2 compressed ones"),
        (["a.tar"], {"exclude": "a"}, "--exclude matches the only .tar file"),
        ([".hidden.tar", ".git/x.tar"], {}, "no .tar files here or in the folders below"),
    ],
)
def test_a_folder_without_shards_is_told_and_stays_as_it_is(
    tmp_path: Path, files: list[str], options: dict[str, Any], found: str
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    before = times_of_change(tmp_path)
    with pytest.raises(StorageError) as caught:
        prepare(tmp_path, **options)
    assert caught.value.message.startswith(found)
    assert times_of_change(tmp_path) == before


def test_a_missing_folder_and_a_wrong_pattern_are_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="this folder does not exist"):
        prepare(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"--exclude '\(' is not a regular expression"):
        prepare(write_shards(tmp_path, 1), exclude="(")


@pytest.mark.parametrize("scan", ["alone", "together"])
@pytest.mark.parametrize("change", ["grows", "vanishes", "is touched"])
def test_a_shard_that_changes_while_it_is_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, scan: str
) -> None:
    folder = write_shards(tmp_path, 4)
    path = shard_path(folder, 2)

    @contextmanager
    def disturbed() -> Iterator[None]:
        if change == "vanishes":
            path.unlink()
        yield
        if change == "grows":
            with path.open("ab") as file:
                file.write(bytes(512))
        elif change == "is touched":
            os.utime(path)

    def alone(storage: Storage, name: str, *, info: FileInfo) -> ShardIndex:
        with disturbed() if name == path.name else nullcontext():
            return index_shard(storage, name, info=info)

    def together(storage: Storage, shards: Sequence[FileInfo]) -> list[ShardIndex | None]:
        with disturbed() if path.name in [shard.name for shard in shards] else nullcontext():
            return index_small_shards(storage, shards)

    with monkeypatch.context() as patch:
        if scan == "alone":
            patch.setattr(shard_scans, "index_small_shards", lambda _, shards: [None] * len(shards))
            patch.setattr(shard_scans, "index_shard", alone)
        else:
            patch.setattr(shard_scans, "index_small_shards", together)
        with pytest.raises((FormatError, StorageError)) as caught:
            prepare(folder)
    assert caught.value.at is not None
    assert caught.value.at.startswith(str(path))
    expected = "No such file" if change == "vanishes" else "the shard changed while it was read"
    assert expected in caught.value.message
    assert not (folder / ".nv-meta/.info.json").exists()
    assert prepare(folder).shards == (3 if change == "vanishes" else 4)


def test_a_journal_that_cannot_be_read_is_told(open_path: Path) -> None:
    folder = write_shards(open_path / "dataset", 2)

    def check() -> None:
        storage = LocalStorage(folder)
        save_scans(storage, [(storage.stat("shard_000.tar"), index_shard(storage, "shard_000.tar"))])
        next((folder / ".nv-meta/.prepare/scans").iterdir()).chmod(0)
        prepare(folder)

    give_to_other_user(folder)
    assert as_other_user(check).startswith("cannot open this file: Permission denied\n  at: ")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"renames": []}', b'{"renames": [["a"]], "removals": []}'])
def test_a_damaged_list_of_renames_is_told(tmp_path: Path, damage: bytes) -> None:
    write_shards(tmp_path, 2)
    (tmp_path / ".nv-meta/.prepare").mkdir(parents=True)
    (tmp_path / ".nv-meta/.prepare/commit.json").write_bytes(damage)
    with pytest.raises(FormatError) as caught:
        prepare(tmp_path)
    assert caught.value.hint == f"remove {tmp_path}/.nv-meta/.prepare and run energon prepare again"


# ------------------------------------------------------------------------------------------------ other disks


def test_shards_on_another_disk_get_their_index_files_there(small_disk: Path, tmp_path: Path) -> None:
    write_shards(small_disk / "real", 3)
    folder = tmp_path / "dataset"
    folder.mkdir()
    (folder / "shards").symlink_to(small_disk / "real")
    report = prepare(folder)
    assert report.compat
    assert sorted(path.name for path in (small_disk / "real").glob("*.idx")) == [
        f"shard_00{number}.tar.idx" for number in range(3)
    ]
    shutil.copytree(small_disk / "real", tmp_path / "fresh/shards", ignore=shutil.ignore_patterns("*.idx"))
    prepare(tmp_path / "fresh")
    assert written(folder) | {
        f"shards/{path.name}": path.read_bytes() for path in (small_disk / "real").glob("*.idx")
    } == written(tmp_path / "fresh")
    assert not prepare(folder).changed


def test_links_to_shards_and_dangling_ones(tmp_path: Path) -> None:
    write_shards(tmp_path / "real", 2)
    folder = tmp_path / "dataset"
    folder.mkdir()
    (folder / "a.tar").symlink_to(tmp_path / "real/shard_000.tar")
    (folder / "dangling.tar").symlink_to(tmp_path / "nowhere.tar")
    assert prepare(folder).shards == 1
    assert (folder / "a.tar.idx").exists()


def test_the_cli_tells_damage_without_a_traceback(tmp_path: Path) -> None:
    folder = write_shards(tmp_path, 3)
    shard_path(folder, 1).write_bytes(b"")
    run = subprocess.run(
        [
            Path(sys.executable).with_name("energon"),
            "prepare",
            str(folder),
            "--non-interactive",
            "--split-ratio",
            "1,1,1",
            "--num-workers",
            "2",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert "shard_001.tar, byte 0" in run.stderr.replace("\n", "")
