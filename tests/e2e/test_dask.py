"""Tasks, a prepare and a map on a Dask cluster of two worker processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader.engine import dask_executor
from loader.engine.dask_executor import DaskEngine
from loader.engine.run import Engine
from loader.errors import ConfigError, FormatError, WorkerError
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from tests.e2e.cluster_tasks import (
    SECRET,
    SQUARES,
    check_ends_of_workers,
    columns_of,
    datasets,
    energon,
    environment_of,
    finish,
    squares,
    tasks_in,
)
from tests.e2e.dataset_tree import RATIO, copy_of, write_shards, written
from tests.processes import has_processes, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def distributed() -> Any:
    """Dask's package, which takes a while to import: not for those who only collect tests."""
    return pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster(distributed: Any) -> Iterator[Any]:
    """Two worker processes, which know nothing of this one's working folder."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        yield cluster


@pytest.mark.parametrize("by_file", [False, True])
def test_a_dask_cluster_gives_the_files_of_one_process(tmp_path: Path, cluster: Any, by_file: bool) -> None:
    one = write_shards(tmp_path / "one", 30)
    other = copy_of(one, tmp_path / "other")
    scheduler = cluster.scheduler_address
    if by_file:
        scheduler = tmp_path / "scheduler.json"
        scheduler.write_text(json.dumps({"type": "Scheduler", "address": cluster.scheduler_address}))
    flags = ("--non-interactive", "--split-ratio", "2,1")
    finish(energon("prepare", one, *flags, cwd=tmp_path))
    finish(energon("prepare", other, *flags, "--engine", "dask", "--address", scheduler, cwd=tmp_path))
    assert written(other) == written(one)


def test_a_map_uses_the_functions_of_the_working_folder_as_they_are_now(tmp_path: Path, cluster: Any) -> None:
    alone, mapped = datasets(tmp_path, 2)
    line = ("map", "quality:score", "--write")
    dask = ("--engine", "dask", "--address", cluster.scheduler_address, "--json")
    for name in ("first", "second"):
        finish(energon(line[0], alone, *line[1:], name, cwd=tmp_path))
        assert finish(energon(line[0], mapped, *line[1:], name, *dask, cwd=tmp_path)).startswith("{")
        # The workers of the cluster have the module of the first command.
        module = tmp_path / "quality.py"
        module.write_text(module.read_text().replace("/ 7", "/ 7 + 100"))
    assert columns_of(mapped) == columns_of(alone)
    assert columns_of(alone)["first.npy"] != columns_of(alone)["second.npy"]


def test_without_an_address_a_cluster_starts_and_ends_with_the_command(tmp_path: Path) -> None:
    alone, mapped, held = datasets(tmp_path, 3)
    line = ("map", "quality:score", "--write", "score")
    dask = ("--engine", "dask", "--num-workers", "2", "--json")
    finish(energon(line[0], alone, *line[1:], cwd=tmp_path))
    assert finish(energon(line[0], mapped, *line[1:], *dask, cwd=tmp_path)).startswith("{")
    assert columns_of(mapped) == columns_of(alone)
    # Ctrl-C, as a terminal sends it to all processes, ends the cluster without a word of it.
    (tmp_path / "hold").touch()
    process = energon(line[0], held, *line[1:], *dask, cwd=tmp_path)
    try:
        wait_until(lambda: len([*held.rglob("*.result")]) == 3 or process.poll() is not None, timeout_s=100)
    finally:
        os.killpg(process.pid, signal.SIGINT)
    output = finish(process, code=130)
    assert "Traceback" not in output
    assert "distributed" not in output
    wait_until(lambda: not has_processes(process.pid))


def test_an_interrupted_map_continues(tmp_path: Path, cluster: Any) -> None:
    alone, mapped = datasets(tmp_path, 2)
    (tmp_path / "hold").touch()
    line = ("map", mapped, "quality:score", "--write", "score", "--json")
    process = energon(*line, "--engine", "dask", "--address", cluster.scheduler_address, cwd=tmp_path)
    try:
        wait_until(lambda: len([*mapped.rglob("*.result")]) == 3 or process.poll() is not None, timeout_s=100)
    finally:
        process.send_signal(signal.SIGINT)
    finish(process, code=130)
    (tmp_path / "hold").unlink()
    finish(energon(*line, cwd=tmp_path))
    finish(energon("map", alone, "quality:score", "--write", "score", cwd=tmp_path))
    assert columns_of(mapped) == columns_of(alone)


def test_tasks_of_killed_workers_are_repeated_and_no_secret_travels(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    tasks = tasks_in(tmp_path / "runs", {2: ("killed", 1), 7: ("killed later", 1)})
    with DaskEngine.open(cluster.scheduler_address, None, 0.0) as engine:
        for _, environment in engine.run(environment_of, range(4)):
            assert SECRET not in environment.values()
        assert squares(tmp_path, tasks, engine) == SQUARES


def test_calls_that_end_their_workers_are_failures_of_their_samples(
    tmp_path: Path, distributed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of two threads share a process; Dask gives up the task at its fourth death."""
    from dask import config

    monkeypatch.setitem(config.config["distributed"]["deploy"], "lost-worker-timeout", "1h")  # else it replaces none
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0", host="127.0.0.1") as own,
        DaskEngine.open(own.scheduler_address, None, 0.0) as engine,
    ):
        check_ends_of_workers(tmp_path, engine)


def test_damaged_shards_are_named(tmp_path: Path, cluster: Any) -> None:
    write_shards(tmp_path, 6)
    for number in (1, 4):
        (tmp_path / f"shard_00{number}.tar").write_bytes(b"no tar" * 1000)
    with cluster.get_client() as client, pytest.raises(FormatError, match="2 shards cannot be indexed") as caught:
        run_prepare(PreparePlan(path=str(tmp_path), split=RATIO), engine=Engine(executor=client.get_executor()))
    assert "shard_001.tar" in str(caught.value)
    assert "shard_004.tar" in str(caught.value)


def test_a_task_whose_worker_dies_names_its_shards(
    tmp_path: Path, cluster: Any, distributed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers are killed in the task as often as Dask allows."""
    write_shards(tmp_path, 1)
    del cluster
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
    ) as own:
        client = own.get_client()
        client.run_on_scheduler(_fail_at_once)
        client.run(_die_in_scans)
        with pytest.raises(WorkerError, match=r"a task failed while it worked on shard_000.tar: KilledWorker"):
            run_prepare(PreparePlan(path=str(tmp_path), split=RATIO), engine=Engine(executor=client.get_executor()))


def _fail_at_once(dask_scheduler: Any = None) -> None:
    dask_scheduler.allowed_failures = 0


def _die_in_scans() -> None:
    import os

    from loader.prepare import scans

    def die(*_: object) -> None:
        os._exit(9)

    vars(scans)["index_small_shards"] = die


def test_a_scheduler_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_executor, "_CONNECT_S", 1)
    with (
        pytest.raises(WorkerError, match=r"cannot connect to the Dask scheduler: .* after 1 s") as caught,
        DaskEngine.open("tcp://127.0.0.1:9", None, 0.0),
    ):
        pass
    assert "at: tcp://127.0.0.1:9" in str(caught.value)


def test_a_file_of_a_scheduler_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="neither the file of a Dask scheduler nor an address"),
        DaskEngine.open(str(tmp_path / "scheduler.json"), None, 0.0),
    ):
        pass


def test_a_cluster_without_workers_is_an_error(distributed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_executor, "_WORKERS_S", 1)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", host="127.0.0.1") as empty,
        pytest.raises(WorkerError, match="has no workers after 1 s"),
        DaskEngine.open(empty.scheduler_address, None, 0.0),
    ):
        pass
