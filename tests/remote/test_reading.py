"""Loading from an object store gives the very batches of a local folder, by few requests, sent ahead of their use."""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loader import WorkerConfig, get_loader, get_savable_loader, get_train_dataset, get_val_dataset
from loader.errors import FormatError
from tests.e2e.dataset_tree import prepare, shard_path, write_shards
from tests.object_server import Fault, FaultPlan, ObjectServer

FAULTS = FaultPlan(seed=3, rates={"503": 0.02, "reset": 0.01, "reset in body": 0.01, "short body": 0.01, "500": 0.01})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_shards(tmp_path_factory.mktemp("bucket") / "b/ds", 12, samples=10)
    prepare(folder, compat=False)
    return folder


@pytest.fixture
def server(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    monkeypatch.delenv("ENERGON_CACHE_DIR")  # each read is a request
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ObjectServer(prepared.parent.parent) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield server


URL = "s3://b/ds"


def loader_of(path: str | Path, workers: int, **options: Any) -> Any:
    handler = {name: options.pop(name) for name in ("global_error_handler",) if name in options}
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, **handler)
    kwargs = {"batch_size": 4, "shuffle_buffer_size": None, "max_samples_per_sequence": None, **options}
    return get_savable_loader(get_train_dataset(str(path), worker_config=config, **kwargs))


def texts(loader: Any, count: int) -> list[list[str]]:
    batches = iter(loader)
    return [next(batches)["txt"] for _ in range(count)]


def shard_reads(server: ObjectServer) -> list[Any]:
    return [request for request in server.requests if request.key.endswith(".tar")]


@pytest.mark.parametrize("workers", [2, pytest.param(0, marks=pytest.mark.slow)])
def test_batches_are_those_of_the_local_folder(prepared: Path, server: ObjectServer, workers: int) -> None:
    with loader_of(prepared, workers) as local, loader_of(URL, workers) as remote:
        assert texts(remote, 60) == texts(local, 60)
    assert {request.method for request in shard_reads(server)} == {"GET"}  # no HEAD


@pytest.mark.parametrize("workers", [2, pytest.param(0, marks=pytest.mark.slow)])
def test_faults_of_the_service_change_no_batch(prepared: Path, server: ObjectServer, workers: int) -> None:
    server.faults = FAULTS
    with loader_of(prepared, workers) as local, loader_of(URL, workers) as remote:
        assert texts(remote, 60) == texts(local, 60)
    assert len({request.fault for request in server.requests}) > 3


@pytest.mark.parametrize("workers", [2, pytest.param(0, marks=pytest.mark.slow)])
def test_a_state_continues_at_the_very_sample_on_another_number_of_workers(
    prepared: Path, server: ObjectServer, workers: int
) -> None:
    server.faults = FAULTS
    with loader_of(prepared, 0) as local:
        expected = texts(local, 40)
    with loader_of(URL, workers) as first:
        batches = iter(first)
        found = [next(batches)["txt"] for _ in range(13)]
        state = first.save_state_rank()
    with loader_of(URL, 2 - workers).with_restored_state_rank(state) as second:
        found += texts(second, 27)
    assert found == expected


def test_a_closed_loader_sends_no_further_requests(prepared: Path, server: ObjectServer) -> None:
    loader = loader_of(URL, 0, batch_size=1)
    batches = iter(loader)
    next(batches)
    at_work = FaultPlan(choose=lambda *_: Fault(kind="503"))
    server.faults = at_work  # no request of those that read ahead succeeds
    time.sleep(0.5)
    loader.close()
    del batches, loader
    gc.collect()
    time.sleep(3)  # until the pauses before the next tries have passed
    server.requests.clear()
    time.sleep(4)
    assert server.requests == []


def test_a_validation_pass_reads_each_sample_once(prepared: Path, server: ObjectServer) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    for path in (prepared, URL):
        dataset = get_val_dataset(str(path), split_part="val", worker_config=config, batch_size=4)
        found = [text for batch in get_loader(dataset) for text in batch["txt"]]
        assert len(found) == len(set(found)) == 40
    reads = shard_reads(server)
    assert len(reads) < 20  # of 40 samples: those of a shard are neighbours
    assert sum(request.sent_bytes for request in reads) <= sum(
        shard_path(prepared, n).stat().st_size for n in range(12)
    )


def test_the_first_batch_takes_three_round_trips(prepared: Path, server: ObjectServer) -> None:
    latency_s = 0.3
    server.faults = FaultPlan(latency_s=latency_s)
    with loader_of(URL, 0) as loader:
        texts(loader, 1)
        arrived = time.monotonic()
    # The batch cannot depend on requests that were not answered when it arrived: they fetch later samples.
    starts = sorted(request.started for request in server.requests if request.started < arrived - latency_s)
    rounds = 1 + sum(later - earlier > 0.2 for earlier, later in pairwise(starts))
    assert rounds <= 3
    assert "HEAD" not in {request.method for request in server.requests}


def test_requests_are_sent_ahead_of_their_use_and_neighbours_are_joined(prepared: Path, server: ObjectServer) -> None:
    server.faults = FaultPlan(latency_s=0.1)
    with loader_of(URL, 0) as loader:
        texts(loader, 100)
    reads = shard_reads(server)
    assert server.most_open > 8
    largest_sample = 4 * 512 + 1024
    assert sum(request.sent_bytes for request in reads) / len(reads) > largest_sample


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_shuffled_pass_fetches_slices_by_few_requests_and_no_byte_twice(
    prepared: Path, server: ObjectServer, tmp_path: Path, workers: int
) -> None:
    copy = shutil.copytree(prepared, prepared.parent / tmp_path.name)  # other tests still fetch from the first
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=2)
    kwargs: Any = {"batch_size": 4, "shuffle_buffer_size": 30, "max_samples_per_sequence": 5, "repeat": False}
    found = []
    for path in (prepared, f"s3://b/{copy.name}"):
        with get_savable_loader(get_train_dataset(str(path), worker_config=config, **kwargs)) as loader:
            found.append([text for batch in loader for text in batch["txt"]])
    assert found[0] == found[1]
    assert len(found[1]) == len(set(found[1])) == 80
    reads = [request for request in shard_reads(server) if copy.name in request.key]
    assert 0 < len(reads) <= 80 / 4
    assert sum(request.sent_bytes for request in reads) <= sum(shard_path(copy, n).stat().st_size for n in range(12))


def test_a_shard_that_was_replaced_stops_the_run(prepared: Path, server: ObjectServer, tmp_path: Path) -> None:
    copy = shutil.copytree(prepared, prepared.parent / tmp_path.name)
    with shard_path(copy, 3).open("ab") as file:
        file.write(bytes(512))
    with (
        loader_of(f"s3://b/{copy.name}", 0) as loader,
        pytest.raises(FormatError, match=r"this object changed since it was prepared: it had .* bytes, now") as caught,
    ):
        texts(loader, 100)
    assert caught.value.at == f"s3://b/{copy.name}/shard_003.tar"


def test_random_access_and_keys_read_single_samples(prepared: Path, server: ObjectServer) -> None:
    with loader_of(URL, 0) as loader:
        batch = next(iter(loader))
        rebuilt = loader.restore_sample(batch["__restore_key__"])
    assert rebuilt["txt"] == batch["txt"]


@pytest.mark.parametrize("fault", ["403", "404"])
def test_a_run_that_cannot_read_ends_with_the_url(prepared: Path, server: ObjectServer, fault: str) -> None:
    server.faults = FaultPlan(faults=[Fault(kind=fault, key="shard_005.tar")])
    skipped: list[Any] = []
    with (
        loader_of(URL, 0, global_error_handler=lambda *args: skipped.append(args)) as loader,
        pytest.raises(Exception, match=r"s3://b/ds/shard_005\.tar"),
    ):
        texts(loader, 100)
    assert not skipped
