"""A prepare in parts: any processes scan, in any order and again, and a merge commits what one process would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from loader.compat.webdataset_factory import prepare_dataset
from loader.engine import Engine
from loader.engine.share import Share
from loader.errors import ConfigError, FormatError, StorageError, WorkerError
from loader.format.index.journal import StoredScans, save_scans
from loader.format.index.shard_index import index_shard
from loader.prepare.part import PartReport, run_part
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from loader.storage import open_storage
from tests.e2e.dataset_tree import (
    RATIO,
    caption_samples,
    copy_of,
    prepare,
    shard_path,
    times_of_change,
    write_shard,
    write_shards,
    written,
)
from tests.forked_commands import program

PARTS = 4
DESCRIPTION = ".nv-meta/.prepare/job.json"


def part(folder: Path, number: int, parts: int = PARTS, **options: Any) -> PartReport:
    return run_part(PreparePlan(path=str(folder), **options), Share(number, parts))


def all_parts(folder: Path, parts: int = PARTS, **options: Any) -> list[PartReport]:
    return [part(folder, number, parts, **options) for number in range(1, parts + 1)]


PYTHON = (sys.executable, "-m", "energon_cli")


def part_process(folder: Path, number: int, *flags: str, energon: Sequence[str] = PYTHON) -> subprocess.Popen[str]:
    command = [*energon, "prepare", str(folder), "--share", f"{number}/{PARTS}", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_parts(folder: Path, numbers: Sequence[int]) -> None:
    """Run parts at the same time, each in a process of its own."""
    processes = [part_process(folder, number, "--num-workers", "2", energon=[program()]) for number in numbers]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs


def test_four_processes_and_a_merge_write_the_files_of_one_process(tmp_path: Path) -> None:
    one = write_shards(tmp_path / "one", 40)
    four = copy_of(one, tmp_path / "four")
    prepare(one)
    run_parts(four, [1, 2, 3, 4, 3])  # two processes for the third part
    report = prepare(four, merge=True)
    assert (report.scanned, report.resumed) == (0, 40)
    assert written(four) == written(one)
    assert not (four / ".nv-meta/.prepare").exists()
    assert not prepare(four, merge=True).changed  # a job that is started again


def test_each_shard_is_in_one_part_and_scanned_once(tmp_path: Path) -> None:
    write_shards(tmp_path, 11)
    assert sum(report.shards for report in all_parts(tmp_path)) == 11
    before = times_of_change(tmp_path)
    assert [report.scanned for report in all_parts(tmp_path)] == [0] * PARTS
    assert times_of_change(tmp_path) == before


def test_there_may_be_more_parts_than_shards(tmp_path: Path) -> None:
    one = write_shards(tmp_path / "one", 3)
    many = copy_of(one, tmp_path / "many")
    prepare(one)
    assert sorted(report.scanned for report in all_parts(many, 8)) == [0, 0, 0, 0, 0, 1, 1, 1]
    prepare(many, merge=True)
    assert written(many) == written(one)


def test_a_merge_names_the_parts_and_shards_that_are_missing(tmp_path: Path) -> None:
    write_shards(tmp_path, 8)
    part(tmp_path, 2)
    with pytest.raises(ConfigError) as caught:
        prepare(tmp_path, merge=True)
    assert caught.value.message == (
        "shares 1,3-4 of 4 are not complete: 6 of 8 shards are not scanned:"
        " shard_000.tar, shard_001.tar, shard_004.tar, shard_005.tar, shard_006.tar, …"
    )
    assert f"energon prepare {tmp_path} --share 1/4 (with SLURM: sbatch --array=1,3-4, and" in str(caught.value.hint)
    assert not (tmp_path / ".nv-meta/.info.json").exists()
    for number in (1, 3, 4):
        part(tmp_path, number)
    assert prepare(tmp_path, merge=True).samples == 24


def test_a_merge_without_parts_is_an_error(tmp_path: Path) -> None:
    write_shards(tmp_path, 2)
    with pytest.raises(ConfigError, match="no shares to merge: 2 shards are not scanned, and no share was started"):
        prepare(tmp_path, merge=True)


def test_all_parts_keep_the_plan_of_the_first_one(tmp_path: Path) -> None:
    write_shards(tmp_path, 8)
    part(tmp_path, 1)
    plan = (tmp_path / DESCRIPTION).read_bytes()
    write_shard(tmp_path / "shard_000+.tar", caption_samples(90, 2))  # arrives meanwhile
    write_shard(shard_path(tmp_path, 7), caption_samples(95, 2))  # changes meanwhile
    shard_path(tmp_path, 3).unlink()  # removed meanwhile
    for number in (2, 3, 4):
        part(tmp_path, number)
    assert (tmp_path / DESCRIPTION).read_bytes() == plan
    report = prepare(tmp_path, merge=True)
    assert (report.shards, report.scanned) == (8, 1)
    assert "this merge scanned 1 shard that arrived or changed after the shares were planned" in report.warnings
    other = copy_of(tmp_path, tmp_path.parent / "other")
    prepare(other)
    assert written(tmp_path) == written(other)


def test_parts_of_a_prepared_dataset_scan_only_what_changed(tmp_path: Path) -> None:
    write_shards(tmp_path, 8)
    prepare(tmp_path)
    assert [report.shards for report in all_parts(tmp_path)] == [0] * PARTS
    assert not (tmp_path / DESCRIPTION).exists()  # nothing to merge
    write_shard(shard_path(tmp_path, 5), caption_samples(70, 5))
    assert sum(report.scanned for report in all_parts(tmp_path)) == 1
    report = prepare(tmp_path, merge=True)
    assert (report.scanned, report.resumed, report.reused) == (0, 1, 7)
    assert sum(report.scanned for report in all_parts(tmp_path, force=True)) == 8
    assert prepare(tmp_path, merge=True, force=True).resumed == 8


def test_another_number_of_parts_is_an_error(tmp_path: Path) -> None:
    write_shards(tmp_path, 8)
    part(tmp_path, 1)
    with pytest.raises(ConfigError, match=r"being prepared in 4 shares, since .*; found 1/5"):
        part(tmp_path, 1, 5)
    (tmp_path / DESCRIPTION).unlink()
    assert sum(report.scanned for report in all_parts(tmp_path, 5)) == 6  # the scans of the first plan are kept


def test_a_prepare_that_is_no_merge_is_refused_until_the_parts_are_given_up(tmp_path: Path) -> None:
    write_shards(tmp_path, 8)
    part(tmp_path, 1)
    with pytest.raises(ConfigError, match="being prepared in 4 shares, since 2") as caught:
        prepare(tmp_path)
    assert str(tmp_path / DESCRIPTION) in str(caught.value.hint)
    (tmp_path / DESCRIPTION).unlink()
    assert prepare(tmp_path).resumed == 2


def test_a_damaged_plan_is_an_error_that_names_it(tmp_path: Path) -> None:
    write_shards(tmp_path, 8)
    part(tmp_path, 1)
    described = '{"command":"prepare","request":{},"tasks":8,"starts":%s,"results":"%s"}'
    for text in ("", "[]", described % ([1, 2, 3, 4], ""), described % ([0, 2, 4, 9], ""), described % ([0], "../..")):
        (tmp_path / DESCRIPTION).write_text(text)
        with pytest.raises(FormatError, match="the description of an unfinished job is damaged") as caught:
            part(tmp_path, 1)
        assert str(tmp_path / DESCRIPTION) in str(caught.value)


def test_a_planted_plan_leads_nowhere(tmp_path: Path) -> None:
    write_shards(tmp_path / "ds", 2)
    write_shard(tmp_path / "secret.tar", caption_samples(0, 2))
    plan = tmp_path / "ds" / DESCRIPTION
    plan.parent.mkdir(parents=True)
    described = {"command": "prepare", "request": {"shards": "../secret.tar"}, "tasks": 1, "starts": [0]}
    plan.write_text(json.dumps(described))
    with pytest.raises(StorageError, match="leads out of this folder"):
        part(tmp_path / "ds", 1, 1)


def test_a_part_with_a_damaged_shard_scans_the_others_and_names_it(tmp_path: Path) -> None:
    write_shards(tmp_path, 8)
    shard_path(tmp_path, 5).write_bytes(b"no tar" * 1000)
    for number in (1, 2, 4):
        part(tmp_path, number)
    with pytest.raises(FormatError, match="shard_005"):
        part(tmp_path, 3)
    with pytest.raises(ConfigError, match=r"share 3 of 4 is not complete: 1 of 8 shards are not scanned: shard_005"):
        prepare(tmp_path, merge=True)
    assert prepare(tmp_path, merge=True, exclude="shard_005").shards == 7


def test_scans_of_other_groups_of_the_same_shards_stay(tmp_path: Path) -> None:
    storage = open_storage(write_shards(tmp_path, 2))
    scans = [(shard, index_shard(storage, shard.name)) for shard in storage.list()]
    save_scans(storage, scans)
    save_scans(storage, scans[:1])  # a process with other groups, which is killed before the second one
    with closing(StoredScans(storage)) as journal:
        assert all(journal.load(shard) is not None for shard, _ in scans)


def test_a_part_waits_for_no_commit_that_was_interrupted(tmp_path: Path) -> None:
    write_shards(tmp_path, 2)
    (tmp_path / ".nv-meta/.prepare").mkdir(parents=True)
    (tmp_path / ".nv-meta/.prepare/commit.json").write_text('{"renames": [], "removals": []}')
    with pytest.raises(StorageError, match="a prepare was interrupted while it committed"):
        part(tmp_path, 1)


# ----------------------------------------------------------------------------------------------- other processes


def stopped_part(folder: Path) -> subprocess.Popen[str]:
    """Start a part that stops, with its lock held, before it scans its second group of shards."""
    code = (
        "import os, signal, sys\n"
        "from loader.engine.share import Share\n"
        "from loader.prepare import scans\n"
        "from loader.prepare.part import run_part\n"
        "from loader.prepare.plan import PreparePlan\n"
        "saved = []\n"
        "def save(storage, group, part):\n"
        "    if saved:\n"
        "        print('stopped', flush=True)\n"
        "        signal.pause()\n"
        "    saved.append(group)\n"
        "    return original(storage, group, part)\n"
        "original, scans.save_scans = scans.save_scans, save\n"
        "run_part(PreparePlan(path=sys.argv[1]), Share(1, 2))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopped\n"
    return process


def test_parts_run_together_and_exclude_a_prepare_in_words(tmp_path: Path) -> None:
    write_shards(tmp_path, 20)
    process = stopped_part(tmp_path)
    try:
        assert part(tmp_path, 2, 2).scanned == 10
        for merge in (False, True):
            with pytest.raises(StorageError, match=r"another run is at work here: one or more shares of a"):
                prepare(tmp_path, merge=merge)
    finally:
        process.kill()
        process.communicate()
    assert part(tmp_path, 1, 2).scanned < 10  # the killed one had scanned a group
    assert prepare(tmp_path, merge=True).shards == 20


def test_a_prepare_excludes_parts_in_words(tmp_path: Path) -> None:
    write_shards(tmp_path, 4)
    with open_storage(tmp_path).lock(".nv-meta/.lock"):
        process = part_process(tmp_path, 1)
        output = process.communicate()[0]
    assert process.returncode == 1
    assert f"another run is at work here: process {os.getpid()} on" in output


@pytest.mark.parametrize("delay_s", [0, 0.01, pytest.param(0.03, marks=pytest.mark.slow)])
@pytest.mark.sampled(2)
def test_a_part_that_is_killed_at_any_moment_leaves_a_usable_journal(tmp_path: Path, delay_s: float) -> None:
    one = write_shards(tmp_path / "one", 60)
    killed = copy_of(one, tmp_path / "killed")
    prepare(one)
    process = part_process(killed, 1, "--num-workers", "1")
    while process.poll() is None and not (killed / ".nv-meta/.prepare/scans").exists():
        time.sleep(0.001)
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    all_parts(killed)
    prepare(killed, merge=True)
    assert written(killed) == written(one)


# ----------------------------------------------------------------------------------------------------- executors


@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.sampled(2)
def test_an_executor_gives_the_files_of_one_process(tmp_path: Path, kind: str) -> None:
    one = write_shards(tmp_path / "one", 20)
    other = copy_of(one, tmp_path / "other")
    prepare(one)
    executor: Executor = (
        ThreadPoolExecutor(2) if kind == "threads" else ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    )
    with executor:
        report = prepare_dataset(
            other, split_parts_ratio=[("train", 2.0), ("val", 1.0)], shuffle_seed=None, executor=executor
        )
    assert report.scanned == 20
    assert written(other) == written(one)


class KilledTasks(Executor):
    """An executor whose workers die in every task."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(RuntimeError("out of memory"))
        return future


def test_the_error_of_a_task_names_its_shards(tmp_path: Path) -> None:
    write_shards(tmp_path, 16)
    expected = r"a task failed while it worked on shard_\d+\.tar: RuntimeError: out of memory"
    with pytest.raises(WorkerError, match=expected):
        run_prepare(PreparePlan(path=str(tmp_path), split=RATIO), engine=Engine(executor=KilledTasks()))
