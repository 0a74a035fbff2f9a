"""Runs under faults: the very same batches, no skipped sample, and an end in words where the service stays away."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader import WorkerConfig, get_train_dataset
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.e2e.dataset_tree import prepare, write_shards
from tests.elastic_runs import Pipeline, Spread, check_every_save, uninterrupted
from tests.object_server import Fault, FaultPlan, ObjectServer

from .runs_at_url import URL, RunToFailure, keys, loader_of, skipped

pytestmark = pytest.mark.slow

BATCHES = 150


@pytest.fixture
def dataset(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(OPTIONS_VARIABLE, "")
    monkeypatch.delenv("ENERGON_CACHE_DIR")  # each read is a request
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = write_shards(tmp_path / "objects/data/ds", 20, samples=30)
    prepare(folder, compat=False)
    yield folder
    server.faults = FaultPlan()


@pytest.mark.parametrize("workers", [0, 2])
def test_faults_change_no_batch_and_skip_no_sample(dataset: Path, server: ObjectServer, workers: int) -> None:
    with loader_of(dataset, workers) as local:
        expected = keys(local, BATCHES)
    rates = {
        "503": 0.01,
        "reset": 0.005,
        "stall": 0.001,
        "reset in body": 0.01,
        "short body": 0.01,
        "wrong range": 0.01,
    }
    server.faults = FaultPlan(seed=4, rates=rates)
    with loader_of(URL, workers, stall_s=0.5) as remote:
        assert keys(remote, BATCHES) == expected
    assert len({request.fault for request in server.requests if request.fault}) >= 4
    assert not skipped


def elastic_dataset(config: WorkerConfig) -> Any:
    return get_train_dataset(
        URL, worker_config=config, batch_size=4, shuffle_buffer_size=100, max_samples_per_sequence=1,
        storage_options={"stall_s": 0.5},
    )  # fmt: skip


def test_a_run_resumes_under_faults_on_other_ranks_and_workers(dataset: Path, server: ObjectServer) -> None:
    pipeline = Pipeline(build=elastic_dataset, batches=96, lanes=12)
    expected = uninterrupted(pipeline)
    server.start_again()
    server.faults = FaultPlan(seed=5, rates=dict.fromkeys(("503", "reset", "stall", "short body"), 0.02))
    restored_by = [Spread(1, 0), Spread(3, 2), Spread(4, 1), Spread(6, 0)]
    check_every_save(pipeline, Spread(2, 2), restored_by, reference=expected, every=8)
    assert len({request.fault for request in server.requests if request.fault}) == 4


@pytest.mark.parametrize("workers", [0, 2])
def test_an_outage_shorter_than_the_deadline_is_survived(dataset: Path, server: ObjectServer, workers: int) -> None:
    with loader_of(dataset, workers) as local:
        expected = keys(local, BATCHES)
    with loader_of(URL, workers, deadline_s=30) as remote:
        batches = iter(remote)
        found = [next(batches)["__key__"] for _ in range(10)]
        server.faults = FaultPlan(faults=[Fault(kind="reset")])
        threading.Timer(3, lambda: setattr(server, "faults", FaultPlan())).start()
        found += [next(batches)["__key__"] for _ in range(BATCHES - 10)]
    assert found == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_a_longer_one_ends_the_run_once_and_it_resumes_exactly(
    dataset: Path, server: ObjectServer, workers: int
) -> None:
    with loader_of(dataset, workers) as local:
        expected = keys(local, BATCHES)
    outage = FaultPlan(faults=[Fault(kind="503", key=".tar")])
    run = RunToFailure(workers, lambda: setattr(server, "faults", outage), deadline_s=1)
    with pytest.raises(Exception, match=re.escape("503 SlowDown after")) as caught:
        run.run()
    assert "s3://data/ds/shard_" in str(caught.value)
    assert not skipped
    server.faults = FaultPlan()
    assert run.resume(BATCHES) == expected
