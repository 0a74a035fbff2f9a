"""Worker processes send bundles of micro-batches, on any system, and end with their rank."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data._utils import worker as torch_worker

from loader import MapDataset, RepeatedSampleError, WorkerConfig, get_loader
from loader.testing.stage import Values
from loader.training.loaders.data_loader import SavableDataLoader
from loader.transport import message

START_METHODS = ["fork", pytest.param("spawn", marks=pytest.mark.slow)]


def loader_of(hook: Callable[..., Any], *, count: int, workers: int, method: str) -> SavableDataLoader[Any]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=workers)
    return get_loader(MapDataset(Values(range(count), worker_config=config), hook), multiprocessing_context=method)


# ------------------------------------------------------------------------------------- systems other than Linux


def fill_tensor_and_array(value: Any) -> Any:
    return {"tensor": torch.full((20, 500), float(value)), "array": np.full(5000, value), "number": value}


@pytest.fixture(params=["memfd_create", "/proc"])
def hidden(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide a call or folder that only Linux has."""
    if request.param == "/proc":
        monkeypatch.setattr(message, "_PROCESSES", tmp_path)
    else:
        monkeypatch.delattr(os, "memfd_create")
    monkeypatch.delattr(message.AttachedSegments, "view")


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("method", START_METHODS)
def test_batches_arrive_without_linux_only_calls(method: str) -> None:
    assert message.new_flags() is None
    batches = list(loader_of(fill_tensor_and_array, count=60, workers=2, method=method))
    assert [batch["number"] for batch in batches] == list(range(60))
    for batch in batches:
        assert torch.equal(batch["tensor"], torch.full((20, 500), float(batch["number"])))
        assert np.array_equal(batch["array"], np.full(5000, batch["number"]))
        batch["tensor"] += 1  # writable
        batch["array"] += 1
    assert not multiprocessing.active_children()


def test_segments_are_used_on_linux() -> None:
    assert (message.new_flags() is not None) == Path("/proc/self/fd").is_dir()


# --------------------------------------------------------------------------------- a batch that does not pickle


def make_lambda_of_every_third(value: Any) -> Any:
    return (lambda: value) if value % 3 == 0 else value


def make_lambda(value: Any) -> Any:
    return {"__key__": f"key {value}", "value": lambda: value}


def test_a_batch_that_does_not_pickle_is_left_out() -> None:
    batches = loader_of(make_lambda_of_every_third, count=30, workers=2, method="fork")
    assert list(batches) == [value for value in range(30) if value % 3]


def test_a_hundred_batches_in_a_row_that_do_not_pickle_end_the_run() -> None:
    with pytest.raises(RepeatedSampleError, match=r"pickle_object failed 100 times in a row.*'key 99'.*lambda"):
        next(iter(loader_of(make_lambda, count=120, workers=1, method="fork")))


# -------------------------------------------------------------------------------------------- a rank that is killed


def make_large_bytes(value: Any) -> Any:
    return b"%d" % value * (1 << 20)  # bytes travel through the pipe, which holds 64 KiB


def be_a_rank(method: Any, connection: Any) -> None:
    vars(torch_worker)["MP_STATUS_CHECK_INTERVAL"] = (
        0.2  # forked workers check for their parent more often than every 5 s
    )
    loader = loader_of(make_large_bytes, count=1000, workers=2, method=method)
    batches = iter(loader)
    next(batches)
    connection.send([process.pid for process in multiprocessing.active_children()])
    time.sleep(1000)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("method", [*START_METHODS, pytest.param("forkserver", marks=pytest.mark.slow)])
def test_workers_that_wait_to_send_end_with_their_killed_rank(method: str) -> None:
    # A fork server serves no forks.
    context: ForkContext | SpawnContext = get_context("fork") if method == "fork" else get_context("spawn")
    ours, theirs = context.Pipe()
    rank = context.Process(target=be_a_rank, args=(method, theirs))
    rank.start()
    theirs.close()
    workers = ours.recv()
    assert len(workers) == 2
    time.sleep(0.5)  # the workers fill the pipe
    rank.kill()
    rank.join()
    deadline = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, workers))
