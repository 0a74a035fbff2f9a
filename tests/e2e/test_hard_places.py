"""Loaders that start in a process with threads at work, in asyncio, in other threads and in spawned ranks."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch import multiprocessing

from loader import DefaultTaskEncoder, SavableDataLoader, WorkerConfig, get_savable_loader, get_train_dataset
from tests.e2e.text_dataset import write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_texts(tmp_path_factory.mktemp("hard_places") / "texts"))


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """Fail a test that hangs."""
    signal.signal(signal.SIGALRM, _time_is_up)
    signal.alarm(60)
    yield
    signal.alarm(0)


def _time_is_up(*_: Any) -> None:
    raise TimeoutError("the loader hangs")


def loader_of(
    texts: str, encoder: Any = None, *, workers: int = 2, rank: int = 0, ranks: int = 1, **options: Any
) -> SavableDataLoader[Any]:
    dataset = get_train_dataset(
        texts,
        batch_size=4,
        shuffle_buffer_size=20,
        max_samples_per_sequence=5,
        worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=workers),
        task_encoder=encoder or DefaultTaskEncoder(),
    )
    return get_savable_loader(dataset, **options)


def first_texts(loader: SavableDataLoader[Any], count: int = 8) -> list[list[str]]:
    batches = [list(batch.text) for batch in islice(loader, count)]
    loader.shutdown()
    return batches


@pytest.fixture(scope="module")
def expected(texts: str) -> list[list[str]]:
    return first_texts(loader_of(texts, workers=0))


class Logging(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Logs and prints from a hook, as encoders do."""

    def encode_sample(self, sample: Any) -> Any:
        logging.getLogger("a hook").warning("sample %s", sample.__key__)
        print("sample", sample.__key__, file=sys.stderr)
        return sample


def test_workers_log_though_threads_held_the_locks_of_logging_at_the_fork(
    texts: str, expected: list[list[str]]
) -> None:
    stop = threading.Event()
    held = threading.Event()
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger("a hook").addHandler(handler)

    def hold() -> None:
        with handler.lock:  # type: ignore[union-attr]
            held.set()
            stop.wait()

    def write() -> None:
        while not stop.is_set():
            sys.stderr.write("x\n")

    threads = [threading.Thread(target=hold), threading.Thread(target=write)]
    try:
        for thread in threads:
            thread.start()
        held.wait()
        assert first_texts(loader_of(texts, Logging(), multiprocessing_context="fork")) == expected
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        logging.getLogger("a hook").removeHandler(handler)


class Importing(DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: Any) -> Any:
        assert importlib.import_module("slow_to_import").READY
        return sample


def test_workers_import_a_module_that_a_thread_was_importing_at_the_fork(
    texts: str, expected: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"import os, time\nif os.getpid() == {os.getpid()}:\n    time.sleep(1)\nREADY = True\n"
    (tmp_path / "slow_to_import.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    thread = threading.Thread(target=importlib.import_module, args=("slow_to_import",))
    thread.start()
    while "slow_to_import" not in sys.modules:
        time.sleep(0.001)
    try:
        assert first_texts(loader_of(texts, Importing(), multiprocessing_context="fork")) == expected
    finally:
        thread.join()
        sys.modules.pop("slow_to_import")


def test_a_loader_starts_and_ends_in_another_thread(texts: str, expected: list[list[str]]) -> None:
    found: list[Any] = []

    def train() -> None:
        with loader_of(texts) as loader:
            found.extend(first_texts(loader))

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(expected * 2)


def test_workers_that_a_thread_of_an_executor_forked_end_without_an_error(
    texts: str, expected: list[list[str]]
) -> None:
    def train() -> list[int | None]:
        loader = loader_of(texts)
        loader.start()
        workers = multiprocessing.active_children()
        assert first_texts(loader) == expected
        return [worker.exitcode for worker in workers]

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(train).result() == [0, 0]


class AsyncFetching(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Runs a coroutine in a hook."""

    def encode_sample(self, sample: Any) -> Any:
        return asyncio.run(self.fetch(sample))

    async def fetch(self, sample: Any) -> Any:
        await asyncio.sleep(0)
        return sample


@pytest.mark.parametrize("options", [{"workers": 0}, {}, {"worker_type": "thread"}])
def test_a_loader_runs_inside_asyncio(texts: str, expected: list[list[str]], options: dict[str, Any]) -> None:
    uses_own_loop = options != {"workers": 0}  # a hook in the thread of a running loop cannot start another

    async def train() -> list[list[str]]:
        loader = loader_of(texts, AsyncFetching() if uses_own_loop else None, **options)
        batches = []
        for batch in islice(loader, 8):
            batches.append(list(batch.text))
            await asyncio.sleep(0)
        loader.shutdown()
        return batches

    async def in_a_thread() -> list[list[str]]:
        return await asyncio.to_thread(lambda: first_texts(loader_of(texts, **options)))

    assert asyncio.run(train()) == expected
    assert asyncio.run(in_a_thread()) == expected


def train_rank(rank: int, texts: str, folder: str) -> None:
    batches = first_texts(loader_of(texts, workers=1, rank=rank, ranks=2), 4)
    Path(folder, str(rank)).write_text(repr(batches))


@pytest.mark.slow  # two processes that import torch
def test_spawned_ranks_start_loaders(texts: str, expected: list[list[str]], tmp_path: Path) -> None:
    spawn: Any = vars(multiprocessing)["spawn"]  # the stubs do not export it
    spawn(train_rank, args=(texts, str(tmp_path)), nprocs=2)
    ranks = [eval((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert [batch for both in zip(*ranks, strict=True) for batch in both] == expected
