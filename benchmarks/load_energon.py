"""Load with this toolkit or with megatron-energon: the same training code except for the import.

usage: python benchmarks/load_energon.py TASK KIND FOLDER --library loader|megatron.energon …

throughput   time per sample in steady state
first        time from opening the dataset to the first batch, without imports
save         size of the state after some samples; writes it to a file
restore      time from opening the dataset to the first batch after that state
memory       private memory of a worker after some samples
epoch        samples per second from opening the dataset on, and time to the first batch
"""

from __future__ import annotations

import importlib
import json
import os
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from load_work import BATCH_SIZE, arguments_of_script, cold_epoch, report, throughput
from processes import process_tree

MEMORY_READINGS = 20
TASKS = ("throughput", "first", "save", "restore", "memory", "epoch")


def main() -> None:
    arguments = arguments_of_script(TASKS)
    energon = importlib.import_module(arguments.library)
    encoder = task_encoder(energon, arguments)
    if arguments.task == "throughput":
        loader = energon.get_loader(*dataset(energon, arguments, encoder))
        throughput(loader, arguments, padded_contents if arguments.padded else listed_contents)
    elif arguments.task == "epoch":
        cold_epoch(lambda: energon.get_loader(*dataset(energon, arguments, encoder)), arguments, listed_contents)
    elif arguments.task == "save":
        save(energon, arguments, encoder)
    elif arguments.task == "memory":
        memory(energon, arguments, encoder)
    else:
        first_batch(energon, arguments, encoder)


def task_encoder(energon: Any, arguments: Namespace) -> Any:
    """Return the task encoder: as little user code as the task allows."""

    class Listed(energon.DefaultTaskEncoder):  # type: ignore[misc]  # either of two libraries
        def batch(self, samples: list[Any]) -> list[Any]:
            return samples

    class Crude(Listed):
        cookers = (energon.Cooker(energon.stateless(lambda sample: sample)),)

    base: Any = energon.DefaultTaskEncoder if arguments.padded else Listed

    class Captions(base):  # type: ignore[misc]  # as above
        def encode_sample(self, sample: Any) -> Any:
            sample.image = sample.image.contiguous()
            return sample

    return Crude() if arguments.kind == "json" else Captions()


def dataset(energon: Any, arguments: Namespace, encoder: Any) -> tuple[Any]:
    """Open the dataset; return it as the arguments of a loader."""
    return (
        energon.get_train_dataset(
            arguments.url or arguments.folder,
            worker_config=energon.WorkerConfig(rank=0, world_size=1, num_workers=arguments.workers),
            batch_size=BATCH_SIZE,
            shuffle_buffer_size=arguments.buffer,
            max_samples_per_sequence=100,
            task_encoder=encoder,
        ),
    )


def listed_contents(batch: Sequence[Any]) -> list[tuple[str, torch.Tensor | None]]:
    return [
        (sample["json"]["text"], None) if isinstance(sample, dict) else (sample.caption, sample.image)
        for sample in batch
    ]


def padded_contents(batch: Any) -> list[tuple[str, torch.Tensor | None]]:
    return list(zip(batch.caption, batch.image, strict=True))


def first_batch(energon: Any, arguments: Namespace, encoder: Any) -> None:
    """Time the first batch of a new or a resumed run."""
    state = torch.load(arguments.state, weights_only=False) if arguments.task == "restore" else None
    _ = energon.get_train_dataset, energon.get_savable_loader  # imported on first use
    start = time.perf_counter()
    loader = energon.get_savable_loader(*dataset(energon, arguments, encoder))
    if state is not None:
        loader.restore_state_rank(state)
    batch = next(iter(loader))
    seconds = time.perf_counter() - start
    if len(listed_contents(batch)) != BATCH_SIZE:
        raise SystemExit(f"expected {BATCH_SIZE} samples, found {len(batch)}")
    report({"seconds": seconds})


def save(energon: Any, arguments: Namespace, encoder: Any) -> None:
    """Save the state after some samples to a file, and report its size."""
    loader = energon.get_savable_loader(*dataset(energon, arguments, encoder))
    iterator = iter(loader)
    for _ in range(arguments.samples // BATCH_SIZE):
        next(iterator)
    state = loader.save_state_rank()
    torch.save(state, arguments.state)
    figures = {"bytes": arguments.state.stat().st_size}
    if isinstance(state, dict):
        figures["bytes as json"] = len(json.dumps(state))
    report(figures)


def memory(energon: Any, arguments: Namespace, encoder: Any) -> None:
    """Report the memory of a worker in steady state: the minimum of several readings, since batches come and go.

    Shared memory is excluded: it contains only a varying number of batches in transit.
    """
    loader = energon.get_loader(*dataset(energon, arguments, encoder))
    iterator = iter(loader)
    for _ in range(arguments.samples // BATCH_SIZE):
        next(iterator)
    readings = []
    for _ in range(MEMORY_READINGS):
        next(iterator)
        readings.append(sum(anonymous_bytes(pid) for pid in process_tree(os.getpid()) if pid != os.getpid()))
    report({"bytes": min(readings) / arguments.workers})


def anonymous_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss_Anon:"))


if __name__ == "__main__":
    main()
