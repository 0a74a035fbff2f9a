"""A prepare in parts, and on an executor, of a dataset in an object store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from loader.engine import Engine
from loader.engine.share import Share
from loader.errors import ConfigError
from loader.prepare.part import divide_shards, run_part, shares_journal
from loader.prepare.plan import PreparePlan, PrepareProgress, PrepareReport
from loader.prepare.run import run_prepare
from loader.storage import FileInfo, open_storage
from tests.e2e.dataset_tree import (
    RATIO,
    caption_samples,
    comparable_files,
    copy_of,
    shard_path,
    write_shard,
    write_shards,
)
from tests.forked_commands import program
from tests.object_server import ObjectServer

ONE, MANY = "s3://bucket/one", "s3://bucket/many"
PARTS = 4
DESCRIPTION = ".nv-meta/.prepare/job.json"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a bucket with two equal datasets."""
    folder = tmp_path / "store/bucket"
    write_shards(folder / "one", 12)
    copy_of(folder / "one", folder / "many")
    with ObjectServer(tmp_path / "store") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield folder


def prepare(url: str, **options: Any) -> PrepareReport:
    return run_prepare(PreparePlan(path=url, split=RATIO, **options))


def test_four_processes_and_a_merge_write_the_files_of_one_process(bucket: Path) -> None:
    prepare(ONE)
    command = [program(), "prepare", MANY, "--num-workers", "1"]
    command += ["--debug", "--storage-option", "region=us-east-1", "--share"]
    processes = [
        subprocess.Popen([*command, f"{number}/{PARTS}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for number in range(1, PARTS + 1)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PARTS, outputs
    report = prepare(MANY, merge=True)
    assert (report.scanned, report.resumed) == (0, 12)
    assert comparable_files(bucket / "many") == comparable_files(bucket / "one")
    assert not [path for path in (bucket / "many/.nv-meta/.prepare").rglob("*") if path.is_file()]
    assert not prepare(MANY, merge=True).changed


def test_a_part_scans_nothing_twice_and_a_merge_names_the_missing_ones(bucket: Path) -> None:
    plan = PreparePlan(path=MANY)
    assert run_part(plan, Share(2, PARTS)).scanned == 3
    assert run_part(plan, Share(2, PARTS)).scanned == 0
    with pytest.raises(ConfigError, match="shares 1,3-4 of 4 are not complete: 9 of 12 shards are not scanned"):
        prepare(MANY, merge=True)
    with pytest.raises(ConfigError, match="being prepared in 4 shares") as caught:
        prepare(MANY)
    assert f"{MANY}/{DESCRIPTION}" in str(caught.value.hint)
    write_shard(shard_path(bucket / "many", 4), caption_samples(90, 2))  # changes meanwhile
    assert run_part(plan, Share(2, PARTS)).scanned == 1


def test_of_two_writers_one_writes_the_plan(bucket: Path) -> None:
    journal = shares_journal(open_storage(MANY))
    plans = [divide_shards([FileInfo(name=name, size_bytes=1, mtime_ns=0)], 2) for name in ("a", "b")]
    assert [journal.describe(plan) for plan in plans] == [plans[0], plans[0]]
    assert journal.job() == plans[0]
    assert (bucket / "many" / DESCRIPTION).exists()


def test_a_prepare_does_not_commit_over_parts_that_started_meanwhile(bucket: Path) -> None:
    def start_a_part(now: PrepareProgress) -> None:
        if now.shards_done == 12:
            run_part(PreparePlan(path=MANY), Share(1, PARTS))

    with pytest.raises(ConfigError, match="being prepared in 4 shares"):
        run_prepare(PreparePlan(path=MANY, split=RATIO), on_progress=start_a_part)
    assert not (bucket / "many/.nv-meta/.info.json").exists()
    assert prepare(MANY, merge=True).samples == 36  # all that was scanned counts


def test_an_executor_gives_the_files_of_one_process(bucket: Path) -> None:
    prepare(ONE)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        report = run_prepare(PreparePlan(path=MANY, split=RATIO), engine=Engine(executor=executor))
    assert report.scanned == 12
    assert comparable_files(bucket / "many") == comparable_files(bucket / "one")


@pytest.mark.slow
def test_a_dask_cluster_gives_the_files_of_one_process(bucket: Path) -> None:
    distributed = pytest.importorskip("distributed")
    prepare(ONE)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        cluster.get_client() as client,
    ):
        assert (
            run_prepare(PreparePlan(path=MANY, split=RATIO), engine=Engine(executor=client.get_executor())).scanned
            == 12
        )
    assert comparable_files(bucket / "many") == comparable_files(bucket / "one")


@pytest.mark.slow
def test_workers_of_dask_get_the_options_of_the_command_and_log_no_secret(
    bucket: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    distributed = pytest.importorskip("distributed")
    option = f"endpoint_url={os.environ['AWS_ENDPOINT_URL']}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # of the workers, too
    prepare_command = [sys.executable, "-m", "energon_cli", "prepare"]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address
        flags = ["--yes", "--engine", "dask", "--address", address, "--storage-option", option]
        done = subprocess.run([*prepare_command, MANY, *flags], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    output = "".join([done.stdout, done.stderr, *capfd.readouterr()])
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in output
    assert (bucket / "many/.nv-meta/.info.json").exists()
