"""Measure how much slower a filter makes loading.

Three loaders of one dataset of JSON texts read in one process, in turns: without a filter, with a filter that drops one
sample of a thousand, and with one that drops every tenth. Each turn takes the same number of samples, and its
processor time is divided by that of the turn without a filter in the same round; the order within a round is random.

usage: python benchmarks/bench_filter.py [--samples N] [--rounds N] [--turn N] [--batch-size N]

The table has the least and the median time of a sample, and the median of the ratios with an interval of 95 % for it
(by order statistics). The least times and the median ratio are robust against other work on the machine.
`--instructions LOADER` reads without measuring, so that valgrind can count instructions.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from math import sqrt
from pathlib import Path

import numpy as np
from bench_stats import texts, write_dataset
from report import machine_facts, print_table

from loader import WorkerConfig, build_filter_index, get_savable_loader, get_train_dataset

FILTERS = {"no filter": None, "keeps 99.9 %": "most", "keeps 90 %": "nine_of_ten"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--turn", type=int, default=6400, help="samples of a turn")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--data", type=Path, help="keep the dataset in this folder")
    parser.add_argument("--instructions", choices=FILTERS, help="only read: this loader, --rounds turns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.data or Path(folder) / "texts"
        if not path.exists():
            make(path, options.samples)
        loaders = {
            name: batches(path, of, options.batch_size)
            for name, of in FILTERS.items()
            if options.instructions in (None, name)
        }
        count = options.turn // options.batch_size
        if options.instructions is not None:
            for _ in range(options.rounds):
                turn(loaders[options.instructions], count)
            return
        times = measure(loaders, count, options.rounds)
    print(machine_facts())
    print(f"{options.rounds} rounds of {count * options.batch_size:,} samples each, processor time of a sample in µs")
    rows = []
    for name, own in times.items():
        each = [seconds / (count * options.batch_size) * 1e6 for seconds in own]
        ratios = sorted(one / other for one, other in zip(own, times["no filter"], strict=True))
        low, high = interval(ratios)
        rows.append(
            [
                name,
                f"{min(each):.2f}",
                f"{min(own) / min(times['no filter']) - 1:+.1%}",
                f"{statistics.median(each):.2f}",
                f"{statistics.median(ratios) - 1:+.1%}",
                f"{low - 1:+.1%} to {high - 1:+.1%}",
            ]
        )
    print_table([["loader", "least", "more", "median", "more", "95 %"], *rows])


def make(path: Path, samples: int) -> None:
    """Write a dataset, and its filters."""
    write_dataset(path, samples, 20, texts())
    numbers = np.arange(samples)
    build_filter_index(path, "most", numbers[numbers % 1000 != 7])
    build_filter_index(path, "nine_of_ten", numbers[numbers % 10 != 7])


def batches(path: Path, filter_name: str | None, batch_size: int) -> Iterator[object]:
    """Return the endless micro-batches of a loader in this process."""
    dataset = get_train_dataset(
        path,
        filter_name=filter_name,
        batch_size=batch_size,
        shuffle_buffer_size=1000,
        max_samples_per_sequence=100,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
    )
    return iter(get_savable_loader(dataset))


def turn(loader: Iterator[object], count: int) -> float:
    """Return the processor time of some micro-batches, in seconds."""
    before = time.process_time()
    for _ in islice(loader, count):
        pass
    return time.process_time() - before


def measure(loaders: dict[str, Iterator[object]], count: int, rounds: int) -> dict[str, list[float]]:
    """Return the processor times of each loader, by round."""
    draw = random.Random(0)
    for loader in loaders.values():  # shards are opened, caches filled
        turn(loader, 4 * count)
    times: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(rounds):
        for name in draw.sample(list(loaders), len(loaders)):
            times[name].append(turn(loaders[name], count))
    return times


def interval(values: list[float]) -> tuple[float, float]:
    """Return an interval of 95 % for the median of sorted values: two of them, by order statistics."""
    half = 0.98 * sqrt(len(values))
    middle = len(values) / 2
    return values[max(0, int(middle - half))], values[min(len(values) - 1, int(middle + half))]


if __name__ == "__main__":
    main()
