"""Loaders start, end and start again; frameworks may rebuild them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch.utils.data
from torch.utils.data import SequentialSampler

from loader import (
    ConfigError,
    DataLoader,
    FatalSampleError,
    SavableDataLoader,
    WorkerConfig,
    WorkerError,
    get_loader,
    get_savable_loader,
)
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.epochize import EpochizeDataset
from loader.pipeline.stages.map import MapDataset
from loader.samples.hooks import hook_context
from loader.testing.stage import Values

WORKER_TYPES = ["fork", "thread", "main"]


def chain(*, workers: int = 2, count: int = 40, function: Any = None, size: int = 2) -> Any:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=4)
    values = Values(list(range(count)), worker_config=config)
    return BatchDataset(values if function is None else MapDataset(values, function), size, list)


def processes() -> int:
    return len(multiprocessing.active_children())


def worker_threads() -> int:
    return sum(thread.name.startswith("loader worker") for thread in threading.enumerate())


def where(value: int) -> tuple[int, int, str, int]:
    config: Any = hook_context().worker_config
    return value, os.getpid(), threading.current_thread().name, config.rank_worker_id()


# ------------------------------------------------------------------------------------------------- start and end


def test_a_with_block_starts_the_workers_and_ends_them() -> None:
    before = processes()
    expected = list(get_loader(chain(workers=0)))
    with get_loader(chain()) as loader:
        assert processes() == before + 2
        assert list(loader) == expected
        assert processes() == before
        first = next(iter(loader))  # the next pass starts workers again
        assert first == expected[0]
        assert processes() == before + 2
    assert processes() == before


def test_an_error_in_a_with_block_ends_the_workers() -> None:
    before = processes()

    def train() -> None:
        with get_loader(chain()) as loader:
            raise ZeroDivisionError(next(iter(loader)))

    with pytest.raises(ZeroDivisionError):
        train()
    assert processes() == before


def test_shutdown_keeps_the_position_and_may_be_called_again() -> None:
    expected = list(get_loader(chain(workers=0)))
    loader = get_savable_loader(chain())
    loader.shutdown()
    assert list(islice(loader, 3)) == expected[:3]
    state = loader.save_state_rank()
    for _ in range(2):
        loader.shutdown()
    assert loader.save_state_rank() == state
    assert loader.start() is loader
    assert loader.start().save_state_rank() == state
    assert list(loader) == expected[3:]


@pytest.mark.parametrize("worker_type", WORKER_TYPES)
@pytest.mark.parametrize("epoch", [None, 20])
def test_an_iteration_ends_at_a_shutdown_and_the_pass_does_not(worker_type: Any, epoch: int | None) -> None:
    dataset = chain() if epoch is None else EpochizeDataset(chain(), epoch)
    expected = list(get_loader(chain(workers=0)))
    loader = get_savable_loader(dataset, worker_type=worker_type)
    found = []
    for batch in loader:
        found.append(batch)
        if len(found) in (3, 9):
            loader.shutdown()
    assert found == expected[:3]
    assert not loader.save_state_rank()["ended"]
    assert found + list(loader) == expected
    loader.shutdown()


def slow_from_twelve(value: int) -> int:
    time.sleep(0.0 if value < 12 else 0.5)
    return value


@pytest.mark.parametrize(
    "worker_type", ["thread", pytest.param("fork", marks=pytest.mark.slow)]
)  # torch checks its processes every 5 s
def test_a_shutdown_ends_the_iteration_of_another_thread(worker_type: Any) -> None:
    loader = get_loader(chain(function=slow_from_twelve), worker_type=worker_type)
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.extend(loader), daemon=True)
    reader.start()
    time.sleep(0.3)  # it waits for a batch
    loader.shutdown()
    reader.join(15)
    assert not reader.is_alive()
    assert len(found) < 20


@pytest.mark.parametrize("worker_type", ["fork", "thread"])
def test_a_fork_of_the_rank_does_not_end_its_workers(worker_type: Any) -> None:
    loader = get_loader(chain(), worker_type=worker_type)
    batches = iter(loader)
    found = [next(batches)]
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            loader.shutdown()
            del batches, loader
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert found + list(batches) == list(get_loader(chain(workers=0)))


def test_workers_that_were_started_serve_the_next_iteration() -> None:
    loader = get_loader(chain(function=where)).start()
    workers = {process.pid for process in multiprocessing.active_children()}
    assert {pid for batch in loader for _, pid, *_ in batch} <= workers


def test_a_virtual_epoch_after_a_start_is_complete() -> None:
    loader = get_loader(EpochizeDataset(chain(), 3)).start()
    assert [len(list(loader)) for _ in range(2)] == [3, 3]
    loader.shutdown()


def test_a_state_can_be_restored_before_the_workers_start() -> None:
    expected = list(get_loader(chain(workers=0)))
    first = get_savable_loader(chain())
    list(islice(first, 5))
    with get_savable_loader(chain()).with_restored_state_rank(first.save_state_rank()) as loader:
        assert list(loader) == expected[5:]
    with get_savable_loader(chain()).with_restored_state_global([first.save_state_rank()]) as loader:
        assert list(loader) == expected[5:]
    first.shutdown()


def test_the_deprecated_names_of_states_warn() -> None:
    first, second = get_savable_loader(chain(workers=0)), get_savable_loader(chain(workers=0))
    expected = list(islice(first, 4))
    with pytest.warns(FutureWarning, match="save_state_global"):
        states = first.save_state(0)
    with pytest.warns(FutureWarning, match="restore_state_global"):
        second.restore_state(states)
    assert next(iter(second)) not in expected


# ------------------------------------------------------------------------------------------------- kinds of workers


@pytest.mark.parametrize("worker_type", WORKER_TYPES)
@pytest.mark.parametrize("workers", [1, 3])
def test_each_kind_of_worker_makes_the_same_batches(worker_type: Any, workers: int) -> None:
    expected = list(get_loader(chain(workers=0)))
    with get_savable_loader(chain(workers=workers), worker_type=worker_type) as loader:
        begun = list(islice(loader, 7))
        state = loader.save_state_rank()
        assert begun + list(loader) == expected
    with get_savable_loader(chain(workers=2), worker_type=worker_type).with_restored_state_rank(state) as loader:
        assert list(loader) == expected[7:]


@pytest.mark.parametrize("worker_type", WORKER_TYPES)
def test_hooks_run_where_the_worker_type_places_them(worker_type: Any) -> None:
    with get_loader(chain(function=where), worker_type=worker_type) as loader:
        found = {place[1:] for batch in loader for place in batch}
    own = os.getpid()
    assert [pid == own for pid, *_ in found] == [worker_type != "fork"] * len(found)
    expected = {"main": {("MainThread", 0)}, "thread": {("loader worker 0", 0), ("loader worker 1", 1)}}
    assert {place[1:] for place in found} == expected.get(worker_type, {("MainThread", 0), ("MainThread", 1)})


def test_threads_work_at_the_same_time() -> None:
    inside = set[int]()
    met = threading.Event()

    def meet(value: int) -> int:
        inside.add(threading.get_ident())
        if len(inside) > 1:  # another thread has not left the function
            met.set()
        met.wait(10.0)
        inside.discard(threading.get_ident())
        return value

    list(get_loader(chain(workers=4, function=meet, size=1), worker_type="thread"))
    assert met.is_set()


def test_threads_leave_the_random_numbers_of_the_process_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    list(get_loader(chain(function=where), worker_type="thread"))
    assert torch.equal(torch.rand(3), expected)


def fail_at_20(value: int) -> int:
    if value == 20:
        raise FatalSampleError("not at 20")
    return value


def test_an_error_in_a_thread_reaches_the_training_loop_and_ends_the_threads() -> None:
    before = worker_threads()
    with pytest.raises(FatalSampleError, match="not at 20"):
        list(get_loader(chain(function=fail_at_20), worker_type="thread"))
    assert worker_threads() == before


def hang(value: int) -> int:
    if value == 20:
        time.sleep(2)
    return value


def test_a_thread_that_hangs_is_reported_with_its_stack() -> None:
    options: Any = {"watchdog_timeout_seconds": 0.3, "watchdog_initial_timeout_seconds": 0.3, "fail_on_timeout": True}
    with pytest.raises(WorkerError, match=r"worker thread \d has made no micro-batch") as error:
        list(get_loader(chain(function=hang), worker_type="thread", **options))
    assert "in hang" in "".join(error.value.__notes__)


def test_a_loader_with_threads_that_no_code_closes_ends_them() -> None:
    before = worker_threads()
    loader = get_loader(chain(), worker_type="thread")
    next(iter(loader))
    del loader
    gc.collect()
    assert worker_threads() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worker_type": "process"}, "expected a worker_type of 'fork', 'thread', 'main'"),
        ({"worker_type": "thread", "multiprocessing_context": "spawn"}, "contradict"),
        ({"worker_type": "thread", "worker_timeout_s": 3}, "expected worker processes with worker_timeout_s"),
        ({"gc_collect_every_n_steps": -1}, "gc_collect_every_n_steps"),
        ({"prefetch_factor": 0}, "prefetch_factor"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        get_loader(chain(), **options)


# ------------------------------------------------------------------------------------------------- garbage


class Cycle:
    """An object that only the garbage collector frees."""

    alive = 0

    def __init__(self) -> None:
        self.own = self
        Cycle.alive += 1

    def __del__(self) -> None:
        Cycle.alive -= 1


def leave_a_cycle(_: int) -> int:
    Cycle()
    return Cycle.alive


def frozen_objects(_: int) -> int:
    return gc.get_freeze_count()


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.freeze()  # collections are quick without the objects of other tests
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("worker_type", WORKER_TYPES)
@pytest.mark.parametrize(("every", "most"), [(None, 40), (0, 40), (2, 5)])
def test_workers_collect_garbage_every_n_steps(worker_type: Any, every: int | None, most: int) -> None:
    Cycle.alive = 0
    dataset = chain(workers=1, function=leave_a_cycle)
    with get_loader(dataset, worker_type=worker_type, gc_collect_every_n_steps=every) as loader:
        alive = [count for batch in loader for count in batch]
    gc.collect()
    assert max(alive) in range(most - 1, most + 1)


@pytest.mark.parametrize(("method", "freeze", "freezes"), [("fork", False, True), ("fork", True, True)])
def test_forked_workers_exclude_inherited_objects_from_collections(method: str, freeze: bool, freezes: bool) -> None:
    dataset = chain(workers=1, count=2, function=frozen_objects)
    loader = get_loader(dataset, multiprocessing_context=method, gc_freeze_at_start=freeze)
    assert all((frozen > 0) is freezes for batch in loader for frozen in batch)


@pytest.mark.slow  # two processes that import torch
@pytest.mark.parametrize("freeze", [False, True])
def test_spawned_workers_freeze_if_requested(freeze: bool) -> None:
    dataset = chain(workers=1, count=2, function=frozen_objects)
    loader = get_loader(dataset, multiprocessing_context="spawn", gc_freeze_at_start=freeze)
    assert all((frozen > 0) is freeze for batch in loader for frozen in batch)


# ------------------------------------------------------------------------------------------------- frameworks


def test_a_loader_is_an_instance_of_torchs_class_with_its_attributes() -> None:
    loader = get_loader(chain(), multiprocessing_context="fork", pin_memory=False)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert type(loader) is DataLoader is SavableDataLoader
    assert (loader.batch_size, loader.batch_sampler, loader.drop_last, loader.generator) == (None, None, False, None)
    assert (loader.num_workers, loader.prefetch_factor, loader.pin_memory) == (2, 2, False)
    assert (loader.timeout, loader.worker_init_fn, loader.persistent_workers) == (0, None, True)
    assert loader.multiprocessing_context.get_start_method() == "fork"
    assert get_loader(chain()).multiprocessing_context is None
    assert isinstance(loader.sampler, torch.utils.data.distributed.DistributedSampler)
    loader.sampler.set_epoch(3)
    with pytest.raises(TypeError, match="iterate the loader"):
        iter(loader.sampler)
    with pytest.raises(TypeError, match="length of the loader"):
        len(loader.sampler)
    batch = [1, 2]
    assert loader.collate_fn(batch) is batch


@pytest.mark.parametrize("name", ["batch_size", "sampler", "batch_sampler", "drop_last", "num_workers"])
def test_attributes_that_the_dataset_determines_cannot_be_set(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} of a DataLoader cannot be set"):
        setattr(get_loader(chain()), name, None)


def test_a_rebuilt_loader_continues_the_run_and_ignores_a_sampler() -> None:
    expected = list(get_loader(chain(workers=0)))
    loader = get_loader(chain())
    list(islice(loader, 2))
    arguments = {name: vars(loader)[name] for name in ("dataset", "run")}
    with pytest.warns(UserWarning, match="SequentialSampler is ignored"):
        rebuilt = DataLoader(**arguments, sampler=SequentialSampler([1, 2, 3]), shuffle=False, batch_sampler=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rebuilt = DataLoader(**arguments, sampler=loader.sampler)
    assert list(rebuilt) == expected[2:]


def test_the_class_takes_the_keywords_of_get_savable_loader() -> None:
    loader: Any = DataLoader(chain(), gc_collect_every_n_steps=10, worker_type="main", checkpoint_every_sec=60)
    assert list(loader) == list(get_loader(chain(workers=0)))
    assert loader.config()["num_workers"] == 2
    assert loader.config()["dataset"] == chain().identity()
    with pytest.raises(TypeError, match="prefetch"):
        DataLoader(chain(), prefetch=3)  # type: ignore[call-arg] # the error is expected
