"""A prepare that is killed at any moment leaves the old dataset or the new one, and the next run resumes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loader.dataset.opening import folder_at
from loader.errors import StorageError, WorkerError
from loader.format.index.shard_index import ShardIndex, index_shard
from loader.prepare.plan import PreparePlan, PrepareProgress, SplitRequest
from loader.prepare.run import run_prepare
from loader.storage import FileInfo, Storage
from tests.e2e.dataset_tree import (
    RATIO,
    caption_samples,
    contents,
    copy_of,
    prepare,
    shard_path,
    write_shard,
    write_shards,
    written,
)
from tests.processes import has_processes, is_alive, wait_until

CHANGING_CALLS = ("replace", "unlink", "rmdir", "mkdir", "fsync")
"""Functions of os that make all changes on disk, except writes to files that no reader sees yet."""

EACH_CALL = pytest.param(1, marks=pytest.mark.slow)
every_call = pytest.mark.parametrize("every", [9, EACH_CALL])
"""The calls before which a process is killed: every ninth one, and each one among the slow tests."""


def in_child(action: Callable[[], object]) -> int:
    """Run something in a fork of this process; return its exit status like subprocess."""
    child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException:  # noqa: BLE001 - no error may leave the fork
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_before(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patch this process to kill itself before its n-th call that changes the disk."""
    calls = 0

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **options)

        return run

    for name in CHANGING_CALLS:
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


def change(folder: Path) -> None:
    """Change a shard, add one in the middle and remove one, so that shards get new numbers."""
    write_shard(shard_path(folder, 1), caption_samples(50, 2, prefix="changed"))
    write_shard(folder / "shard_002+.tar", caption_samples(60, 2, prefix="added"))
    shard_path(folder, 4).unlink()


def first_prepare(folder: Path) -> PreparePlan:
    write_shards(folder, 3, samples=2)
    return PreparePlan(path=str(folder), split=RATIO)


def prepare_after_changes(folder: Path) -> PreparePlan:
    write_shards(folder, 6, samples=2)
    prepare(folder)
    change(folder)
    return PreparePlan(path=str(folder), split=SplitRequest(ratio={"train": 1.0}))


def prepare_that_drops_compat_files(folder: Path) -> PreparePlan:
    write_shards(folder, 3, samples=2)
    prepare(folder)
    write_shard(shard_path(folder, 2), caption_samples(1, 2))
    return PreparePlan(path=str(folder), split=RATIO)


@every_call
@pytest.mark.parametrize("scenario", [first_prepare, prepare_after_changes, prepare_that_drops_compat_files])
@pytest.mark.sampled(3)
def test_a_kill_at_any_moment_leaves_the_old_dataset_or_the_new_one_and_the_next_run_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Path], PreparePlan], every: int
) -> None:
    start = tmp_path / "start"
    plan = scenario(start)
    had_dataset = (start / ".nv-meta/.info.json").exists()
    old = contents(start) if had_dataset else None
    undisturbed = shutil.copytree(start, tmp_path / "undisturbed")
    compat = run_prepare(PreparePlan(path=str(undisturbed), split=plan.split)).compat
    new, new_files = contents(undisturbed), written(undisturbed, sqlite_as_rows=compat)
    plan_here = PreparePlan(path=str(tmp_path / "here"), split=plan.split)

    states = set()
    for number in range(1, 1000, every):
        here = shutil.copytree(start, tmp_path / "here")

        def killed_prepare(number: int = number) -> None:
            kill_before(number, monkeypatch)
            run_prepare(plan_here)

        status = in_child(killed_prepare)
        if (here / ".nv-meta/.info.json").exists():
            found = contents(here)
            states.add("new" if found == new else "old")
            # Every shard is counted and read as in the old dataset or as in the new one.
            assert found in (old, new), f"call {number}"
        else:
            states.add("none")
            assert not had_dataset
        scanned = len(list((here / ".nv-meta/.prepare/scans").glob("[!.]*.scans")))  # with one shard each
        report = run_prepare(plan_here)
        assert report.resumed + report.scanned in (0, len(new_shards(here, start))), f"call {number}"
        if report.changed:
            assert report.resumed == scanned, f"call {number}"
        assert written(here, sqlite_as_rows=report.compat) == new_files, f"call {number}"
        assert contents(here) == new
        shutil.rmtree(here)
        if status == 0:
            break
        assert status == -signal.SIGKILL
    else:
        raise AssertionError("it never completed")
    assert number > 40
    assert states == ({"old", "new"} if had_dataset else {"none", "new"})


def new_shards(folder: Path, start: Path) -> list[str]:
    """Return the shards that differ from those of the dataset in ``start``."""
    if not (start / ".nv-meta").exists():
        return [path.name for path in folder.glob("*.tar")]
    known = {shard.name: (shard.size_bytes, shard.mtime_ns) for shard in folder_at(start).index.shards}
    return [
        path.name
        for path in folder.glob("*.tar")
        if known.get(path.name) != (path.stat().st_size, path.stat().st_mtime_ns)
    ]


@pytest.mark.parametrize("every", [23, EACH_CALL])
def test_a_kill_while_duplicate_keys_are_fixed_loses_no_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    start = write_shards(tmp_path / "start", 4, samples=2)
    write_shard(shard_path(start, 1), caption_samples(0, 2))
    write_shard(shard_path(start, 3), caption_samples(1, 2))
    prepare(start)
    fixed = shutil.copytree(start, tmp_path / "fixed")
    prepare(fixed, fix_duplicates=True)
    expected = contents(fixed)
    everything = sorted(map(str, expected.values()))
    for number in range(1, 1000, every):
        here = shutil.copytree(start, tmp_path / "here")

        def killed_prepare(number: int = number, here: Path = here) -> None:
            kill_before(number, monkeypatch)
            prepare(here, fix_duplicates=True)

        status = in_child(killed_prepare)
        assert len(contents(here)) == len(expected)
        prepare(here, fix_duplicates=True)
        assert contents(here) == expected, f"call {number}"
        assert sorted(map(str, contents(here).values())) == everything
        assert written(here).keys() == written(fixed).keys(), f"call {number}"
        shutil.rmtree(here)
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert 40 < number < 999


# --------------------------------------------------------------------------------------------------- signals

CHILD = """
import sys
from pathlib import Path
from loader.prepare import scans as shard_scans
from loader.prepare import run_prepare
from loader.prepare.plan import PreparePlan, SplitRequest

folder, mode = sys.argv[1:3]
real = shard_scans.index_shard

def slow(storage, name, **kwargs):
    import os, signal, time
    if mode == "suicide" and name.endswith("3.tar"):
        os.kill(os.getpid(), signal.SIGKILL)
    if mode != "suicide" and not name.endswith("0.tar"):
        Path(folder, f"pid-{os.getpid()}").write_text("")
        time.sleep(2 if mode == "scan" else 60)
    return real(storage, name, **kwargs)

def hold(progress):
    import time
    if mode == "hold":
        Path(folder, "held").write_text("")
        time.sleep(60)

shard_scans.index_shard = slow
shard_scans.index_small_shards = lambda _, shards: [None] * len(shards)
workers = 1 if mode == "hold" else 2
run_prepare(PreparePlan(path=folder, workers=workers, split=SplitRequest(ratio={"train": 1.0})), on_progress=hold)
"""


@pytest.fixture
def started() -> Iterator[Callable[[Path, str], subprocess.Popen[str]]]:
    children = []

    def start(folder: Path, mode: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder), mode],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def workers_of(folder: Path) -> list[int]:
    return [int(path.name[4:]) for path in folder.glob("pid-*")]


def test_workers_end_soon_after_their_parent_was_killed(
    tmp_path: Path, started: Callable[[Path, str], subprocess.Popen[str]]
) -> None:
    write_shards(tmp_path, 5)
    child = started(tmp_path, "scan")
    wait_until(lambda: len(workers_of(tmp_path)) == 2)
    child.kill()
    child.wait()
    wait_until(lambda: not any(map(is_alive, workers_of(tmp_path))), timeout_s=10)
    assert child.stderr is not None
    assert child.stderr.read() == ""
    report = prepare(tmp_path)
    assert report.resumed >= 1
    assert report.resumed + report.scanned == 5


def test_ctrl_c_ends_all_and_leaves_what_was_there(
    tmp_path: Path, started: Callable[[Path, str], subprocess.Popen[str]]
) -> None:
    write_shards(tmp_path, 5)
    prepare(tmp_path)
    before = contents(tmp_path)
    for number in range(1, 5):
        os.utime(shard_path(tmp_path, number))
    child = started(tmp_path, "wait")
    wait_until(lambda: len(workers_of(tmp_path)) == 2)
    os.killpg(child.pid, signal.SIGINT)
    _, errors = child.communicate(timeout=10)
    assert child.returncode == -signal.SIGINT
    assert errors.count("\nKeyboardInterrupt") == 1  # of the child; its traceback may hold a second one as the context
    assert not any(map(is_alive, workers_of(tmp_path)))
    assert contents(tmp_path) == before
    assert not (tmp_path / ".nv-meta/.prepare/staged").exists()
    for path in tmp_path.glob("pid-*"):
        path.unlink()
    report = prepare(tmp_path)
    assert (report.scanned, report.resumed) == (4, 0)


INTERRUPTED_START = """
import os, signal, sys, threading, time
from multiprocessing import util
from loader.engine import Engine

method, interrupted = sys.argv[1], int(sys.argv[2])
due, sent, starts = threading.Event(), threading.Event(), []

def press_ctrl_c():
    due.wait()
    os.killpg(0, signal.SIGINT)  # as a terminal does; this thread takes it, since the other one blocks it
    sent.set()

def interrupts(start):
    def start_and_interrupt(*arguments):
        pid = start(*arguments)
        starts.append(pid)
        if pid and len(starts) == interrupted and method == "fork":
            os.killpg(0, signal.SIGINT)
        elif len(starts) == interrupted and method == "spawn":
            due.set()
            sent.wait()
        return pid
    return start_and_interrupt

if method == "spawn":  # a process with threads does not fork
    threading.Thread(target=press_ctrl_c, daemon=True).start()
    from multiprocessing import resource_tracker
    resource_tracker.ensure_running()
    util.spawnv_passfds = interrupts(util.spawnv_passfds)
else:
    os.fork = interrupts(os.fork)
for _ in Engine(workers=2).run(time.sleep, [60, 60]): pass
"""


@pytest.mark.parametrize("interrupted", [1, 2])
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.sampled(2)
def test_ctrl_c_while_workers_start_leaves_none_and_no_word_of_theirs(method: str, interrupted: int) -> None:
    command = [sys.executable, "-c", INTERRUPTED_START, method, str(interrupted)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1, errors  # that of the parent
    wait_until(lambda: not has_processes(process.pid))


def test_a_killed_worker_is_named_with_its_shard_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from loader.engine import workers as worker_pool
    from loader.prepare import scans as shard_scans

    write_shards(tmp_path, 6)

    def suicide(storage: Storage, name: str, **kwargs: Any) -> ShardIndex:
        if name == "shard_003.tar":
            os.kill(os.getpid(), signal.SIGKILL)
        return index_shard(storage, name, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(worker_pool, "_has_one_thread", lambda: True)  # only forked workers see the next patches
        patch.setattr(shard_scans, "index_shard", suicide)
        patch.setattr(shard_scans, "index_small_shards", lambda _, shards: [None] * len(shards))
        with pytest.raises(WorkerError, match=r"was killed by signal 9 while it worked on shard_003\.tar"):
            prepare(tmp_path, workers=2)
    assert not (tmp_path / ".nv-meta/.info.json").exists()
    report = prepare(tmp_path, workers=2)
    assert report.resumed >= 1
    assert report.resumed + report.scanned == 6


def test_a_shard_whose_worker_was_killed_after_it_staged_a_file_is_scanned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from loader.engine import workers as worker_pool
    from loader.format.compat.files import stage_tar_idx
    from loader.prepare import scans as shard_scans

    folder, killed = tmp_path / "data", tmp_path / "killed"
    write_shards(folder, 6)

    def stage_and_die(work: Storage, shard: FileInfo, index: ShardIndex) -> None:
        stage_tar_idx(work, shard, index)
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(worker_pool, "_has_one_thread", lambda: True)  # only forked workers see the next patch
    monkeypatch.setattr(shard_scans, "stage_tar_idx", stage_and_die)
    assert prepare(folder, workers=2).scanned == 6
    assert killed.exists()


# -------------------------------------------------------------------------------------------------- two at once


def test_a_second_prepare_says_who_is_at_work_and_the_lock_ends_with_its_holder(
    tmp_path: Path, started: Callable[[Path, str], subprocess.Popen[str]]
) -> None:
    write_shards(tmp_path, 5)
    child = started(tmp_path, "hold")
    wait_until((tmp_path / "held").exists)
    with pytest.raises(
        StorageError, match=rf"another run is at work here: process {child.pid} on \S+, since \d{{4}}-\d\d-\d\d \d\d:"
    ):
        prepare(tmp_path)
    child.kill()
    child.wait()
    assert prepare(tmp_path).shards == 5


@pytest.mark.parametrize("shards_done", [0, 2, 5])
def test_an_error_of_the_caller_s_own_leaves_no_staged_files(tmp_path: Path, shards_done: int) -> None:
    write_shards(tmp_path, 5)

    def fail(now: PrepareProgress) -> None:
        if now.shards_done == shards_done:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run_prepare(PreparePlan(path=str(tmp_path), split=RATIO), on_progress=fail)
    assert {path.name for path in (tmp_path / ".nv-meta").iterdir()} <= {".lock", ".prepare"}
    assert not (tmp_path / ".nv-meta/.prepare/staged").exists()


@pytest.mark.parametrize("number", range(1, 14))
@pytest.mark.sampled(5)
def test_a_commit_that_ctrl_c_interrupts_is_finished_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write_shards(tmp_path / "one", 5)
    prepare(tmp_path / "one")
    change(tmp_path / "one")
    prepare(copy_of(tmp_path / "one", tmp_path / "two"))
    old, new = contents(tmp_path / "one"), contents(tmp_path / "two")
    calls = 0
    rename = os.replace

    def interrupted(*args: str) -> None:
        nonlocal calls
        if (tmp_path / "one/.nv-meta/.prepare/commit.json").exists():
            calls += 1
            if calls == number:
                raise KeyboardInterrupt
        rename(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        try:
            prepare(tmp_path / "one")
        except KeyboardInterrupt:
            assert calls == number
    assert contents(tmp_path / "one") in (old, new)
    report = prepare(tmp_path / "one")
    assert not report.changed
    assert written(tmp_path / "one", sqlite_as_rows=True) == written(tmp_path / "two", sqlite_as_rows=True)


def test_tempfile_names_do_not_collide_after_a_fork() -> None:
    """The tests above kill forks; a fork with the same temporary names as its parent would test nothing."""
    read, write = os.pipe()
    assert in_child(lambda: os.write(write, tempfile.mktemp().encode())) == 0
    assert os.read(read, 1000).decode() != tempfile.mktemp()
    os.close(read)
    os.close(write)
