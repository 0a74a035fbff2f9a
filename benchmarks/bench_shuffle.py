"""Measure the quality of shuffling against a shuffle buffer of 10,000 samples and a random permutation.

usage: python benchmarks/bench_shuffle.py

The script orders a million samples, numbered in shard order, for two epochs in several ways, without reading data.
Some ways have several streams that yield a batch in turn: our lanes, or workers with a buffer each. Buffers receive
slices of the data in random order, assigned to the streams again in each epoch, which is their best case. One buffer
receives the data in shard order. docs/explanation/shuffling.md explains the columns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
from report import machine_facts, print_table

from loader.order import RepeatedOrder, SourceOrder

SAMPLES = 1_000_000
BUFFER = 10_000
BATCH = 16
LANES = 48
SECTIONS = 100  # of equal length, of the data
STRETCH = 1_000  # consecutive samples of training
TOGETHER = 256  # samples in a global batch
PAIRS = 4_000_000  # inspected pairs of samples

Order = npt.NDArray[np.int64]
"""Shape (SAMPLES,): the samples of an epoch in training order."""

HEAD = [
    "order",
    "mean move",
    "stay within 1 %",
    "hundredths met",
    "unevenness",
    "neighbours stay",
    "neighbours in a batch",
    "meet again",
]


def main() -> None:
    facts = machine_facts()
    print(f"{facts['date']}, Python {facts['python']}: {SAMPLES:,} samples, a buffer of {BUFFER:,}\n")
    print_table([HEAD, *(row(name, order) for name, order in ORDERS)])


def by_chance(epoch: int) -> Order:
    return np.random.default_rng(epoch).permutation(SAMPLES)


def buffered(epoch: int, *, length: int, streams: int, shuffle_slices: bool = True) -> Order:
    rng = random.Random(epoch)
    starts = list(range(0, SAMPLES, length))
    if shuffle_slices:
        rng.shuffle(starts)
    mine = [starts[stream::streams] for stream in range(streams)]
    return in_turn([np.fromiter(through_buffer(slices, length, rng), dtype=np.int64) for slices in mine])


def through_buffer(starts: list[int], length: int, rng: random.Random) -> Iterator[int]:
    """Pass samples through a shuffle buffer: each new sample replaces a random one, which is yielded."""
    held: list[int] = []
    for start in starts:
        for sample in range(start, min(start + length, SAMPLES)):
            if len(held) < BUFFER:
                held.append(sample)
                continue
            place = rng.randrange(BUFFER)
            yield held[place]
            held[place] = sample
    rng.shuffle(held)
    yield from held


def ours(epoch: int, *, length: int, streams: int, buffer: int = BUFFER) -> Order:
    source = SourceOrder(samples=SAMPLES, slice_length=length, shuffle_buffer=buffer)
    order = RepeatedOrder((source,), (1.0,), lanes=streams, seed=0)
    columns = []
    for number in range(streams):
        size = SAMPLES * (number + 1) // streams - SAMPLES * number // streams
        # The epochs of a lane differ slightly in length; samples of another epoch are dropped.
        _, epochs, sample = order.lane(number).locate(epoch * size, (epoch + 1) * size)
        columns.append(sample[epochs == epoch])
    return in_turn(columns)


def in_turn(streams: list[Order]) -> Order:
    """Concatenate micro-batches of the streams in turn."""
    batches = [[stream[start : start + BATCH] for start in range(0, len(stream), BATCH)] for stream in streams]
    rounds = max(map(len, batches))
    return np.concatenate([some[number] for number in range(rounds) for some in batches if number < len(some)])


ORDERS: list[tuple[str, Callable[[int], Order]]] = [
    ("chance: a free permutation", by_chance),
    ("a buffer, data as it lies", partial(buffered, length=1000, streams=1, shuffle_slices=False)),
    ("slices of 1,000: a buffer", partial(buffered, length=1000, streams=1)),
    ("… 8 buffers", partial(buffered, length=1000, streams=8)),
    ("… ours, 1 lane", partial(ours, length=1000, streams=1)),
    ("… ours, 48 lanes", partial(ours, length=1000, streams=LANES)),
    ("slices of 100: a buffer", partial(buffered, length=100, streams=1)),
    ("… 8 buffers", partial(buffered, length=100, streams=8)),
    ("… ours, 1 lane", partial(ours, length=100, streams=1)),
    ("… ours, 1 lane, twice the size", partial(ours, length=100, streams=1, buffer=2 * BUFFER)),
    ("… ours, 48 lanes", partial(ours, length=100, streams=LANES)),
    ("… ours, 48 lanes, no buffer", partial(ours, length=100, streams=LANES, buffer=0)),
    ("slices of 10,000: ours, 48 lanes", partial(ours, length=10_000, streams=LANES)),
]


def row(name: str, order: Callable[[int], Order]) -> list[str]:
    first, second = order(0), order(1)
    moved = np.abs(np.arange(len(first)) - first) / len(first)
    met, unevenness = sections_met(first)
    return [
        name,
        f"{moved.mean():.3f}",
        f"{np.mean(moved < 0.01):.1%}",
        f"{met:.1f}",
        f"{unevenness:.2f}",
        f"{np.mean(np.abs(np.diff(first)) == 1) * 1e4:.2f}",
        f"{neighbours_in_a_batch(first):.2%}",
        f"{meeting_again(first, second):.1f}",
    ]


def sections_met(order: Order) -> tuple[float, float]:
    """Return the mean number of sections in a stretch, and the variance of their counts relative to chance."""
    whole = len(order) // STRETCH * STRETCH
    section = order[:whole].reshape(-1, STRETCH) * SECTIONS // SAMPLES
    counts = np.stack([np.bincount(stretch, minlength=SECTIONS) for stretch in section])
    expected = STRETCH / SECTIONS
    by_chance = expected * (1 - 1 / SECTIONS)
    return float(np.mean((counts > 0).sum(axis=1))), float(np.mean((counts - expected) ** 2) / by_chance)


def neighbours_in_a_batch(order: Order) -> float:
    place = places(order)
    return float(np.mean(place[:-1] // TOGETHER == place[1:] // TOGETHER))


def meeting_again(first: Order, second: Order) -> float:
    """Return how often two samples of a batch share a batch again, relative to chance."""
    rng = np.random.default_rng(0)
    batch = rng.integers(0, len(first) // TOGETHER, PAIRS) * TOGETHER
    one, other = rng.integers(0, TOGETHER, PAIRS), rng.integers(1, TOGETHER, PAIRS)
    pair = first[batch + one], first[batch + (one + other) % TOGETHER]
    place = places(second)
    again = np.mean(place[pair[0]] // TOGETHER == place[pair[1]] // TOGETHER)
    return float(again / (TOGETHER / SAMPLES))


def places(order: Order) -> Order:
    """Return the position of each sample in the order."""
    place = np.empty(SAMPLES, dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


if __name__ == "__main__":
    main()
