"""Training script whose process group gets signals; it counts its handlers, and saves its state in them.

usage: signalled_training.py DATASET LOG START_METHOD

It prints what it got, its states, and what they lead to, as a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from loader import TaskEncoder, WorkerConfig, get_loader, get_train_dataset

SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT)
STEPS = 40


class Slow(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that is waited for, so that signals arrive within steps."""

    def encode_sample(self, sample: Any) -> Any:
        time.sleep(0.002)
        return sample

    def batch(self, samples: list[Any]) -> list[str]:
        return [sample.__key__ for sample in samples]


def loader_of(path: str, *, workers: int, method: str | None = None) -> Any:
    dataset = get_train_dataset(
        path,
        batch_size=3,
        shuffle_buffer_size=10,
        max_samples_per_sequence=10,
        virtual_epoch_length=7,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=6),
        task_encoder=Slow(),
    )
    return get_loader(dataset, multiprocessing_context=method, watchdog_timeout_seconds=60)


@contextmanager
def signals_to_the_group(every_s: float) -> Iterator[None]:
    """Send signals to all processes of this group, as a scheduler does."""
    is_over = threading.Event()

    def send() -> None:
        number = 0
        while not is_over.wait(every_s):
            os.killpg(0, SIGNALS[number % len(SIGNALS)])
            number += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def batches_of(loader: Any) -> Iterator[Any]:
    while True:  # virtual epochs
        yield from loader


def main(path: str, log: str, method: str) -> None:
    got: list[list[str]] = []
    saved: dict[int, Any] = {}
    # A first loader before the handlers, so that the fork server is older than they are.
    loader = loader_of(path, workers=1, method=method)
    next(iter(loader))
    loader.close()
    loader = loader_of(path, workers=2, method=method)

    def save(number: int, frame: Any) -> None:
        with Path(log).open("a") as file:
            file.write(f"{os.getpid()} {signal.Signals(number).name}\n")
        saved[len(got)] = loader.save_state_rank()

    for number in SIGNALS:
        signal.signal(number, save)
    with signals_to_the_group(0.003):
        for batch in loader:
            got.append(batch)  # noqa: PERF402 - the handler counts them
        for batch in islice(batches_of(loader), STEPS - len(got)):
            got.append(batch)  # noqa: PERF402 - likewise
    counts = len(Path(log).read_text().splitlines())
    for number in SIGNALS:
        os.killpg(0, number)
    once = len(Path(log).read_text().splitlines()) - counts
    got.extend(islice(batches_of(loader), 3))  # by the same workers
    restarts = loader.save_state_rank().get("worker_restarts", 0)
    loader.close()
    continued = {}
    for steps, state in saved.items():
        again = loader_of(path, workers=0)
        again.restore_state_rank(state)
        continued[steps] = list(islice(batches_of(again), 2))
    print(json.dumps({"pid": os.getpid(), "got": got, "once": once, "restarts": restarts, "continued": continued}))


if __name__ == "__main__":
    main(*sys.argv[1:])
