"""Measure the order of samples: start-up time, cost per position, and memory.

usage: python benchmarks/bench_order.py

Prints two tables. The first measures a single source of a billion samples in 64 lanes, in a new process that has only
imported the package. The second shows microseconds per position, the minimum of many stretches, since other programs
can only add to it.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from processes import run
from report import machine_facts, print_table

from loader.order import FinitePass, RepeatedOrder, SourceOrder

LANES = 64
CHUNKS = (1, 16, 64, 256, 1024, 4096)
STRETCHES = 200
FAR = 10**12  # upper limit of random positions of an endless order


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only-billion", action="store_true", help="internal: measure in this process and print json")
    if parser.parse_args().only_billion:
        print(json.dumps(measure_billion()))
        return
    facts = machine_facts()
    print(f"{facts['date']}, {facts['cores']} cores of {facts['processor']}, Python {facts['python']}\n")
    rounds = [json.loads(run([sys.executable, __file__, "--only-billion"]).stdout) for _ in range(3)]
    figures = {name: statistics.median(figure[name] for figure in rounds) for name in rounds[0]}
    print_table([["a billion samples, 64 lanes", "median of 3 processes"], *billion_rows(figures)])
    print()
    print_table([["µs a position, by chunk", *map(str, CHUNKS)], *map(chunk_row, ORDERS)])


def source(samples: int, seed: int = 0, *, buffer: int = 10_000, together: int | None = 1) -> SourceOrder:
    return SourceOrder(samples=samples, slice_length=1000, shuffle_buffer=buffer, epochs_together=together, seed=seed)


def blend(sources: int) -> RepeatedOrder:
    some = tuple(source(5_000_003 + seed, seed) for seed in range(sources))
    return RepeatedOrder(some, tuple(1.0 + place % 7 for place in range(sources)), LANES, 0)


def repetitions(sources: int) -> FinitePass:
    some = tuple(source(5_000_003 + seed, seed) for seed in range(sources))
    return FinitePass(some, tuple(1.0 + place % 7 / 2 for place in range(sources)), LANES, 0)


ORDERS: dict[str, Callable[[], RepeatedOrder | FinitePass]] = {
    "one leaf": lambda: RepeatedOrder((source(10**9 + 7),), (1.0,), LANES, 0),
    "one leaf, no shuffle buffer": lambda: RepeatedOrder((source(10**9 + 7, buffer=0),), (1.0,), LANES, 0),
    "one leaf, unshuffled": lambda: RepeatedOrder((source(10**9 + 7, together=None),), (1.0,), LANES, 0),
    "a blend of 2 leaves": lambda: blend(2),
    "a blend of 200 leaves": lambda: blend(200),
    "one pass over 200 leaves with repetitions": lambda: repetitions(200),
}


def chunk_row(name: str) -> list[str]:
    lane = ORDERS[name]().lane(5)
    costs = []
    for chunk in CHUNKS:
        best = min(seconds_of(partial(lane.locate, at, at + chunk)) for at in range(0, STRETCHES * 331, 331))
        costs.append(f"{best / chunk * 1e6:.2f}")
    return [name, *costs]


def measure_billion() -> dict[str, float]:
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    order = RepeatedOrder((source(10**9),), (1.0,), LANES, seed=1)
    lanes = [order.lane(number) for number in range(LANES)]
    opened = time.perf_counter()
    lanes[0].locate(0, 1)
    first = time.perf_counter()
    rng = random.Random(0)
    places = [(rng.randrange(LANES), rng.randrange(FAR)) for _ in range(1000)]
    each = [seconds_of(partial(lanes[lane].locate, at, at + 1)) for lane, at in places]
    for lane, at in places[:100]:
        lanes[lane].locate(at, at + 1024)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    return {
        "opening": opened - start,
        "first": first - start,
        "random": statistics.median(each),
        "slowest": max(each),
        "grown_kib": grown,
    }


def billion_rows(figures: dict[str, float]) -> list[list[str]]:
    def milliseconds(name: str) -> str:
        return f"{figures[name] * 1e3:.2f} ms"

    return [
        ["opening all 64 lanes", milliseconds("opening")],
        ["opening and the first index", milliseconds("first")],
        ["a random position below 10¹²", milliseconds("random")],
        ["the slowest of 1,000 such", milliseconds("slowest")],
        ["memory that the process gains", f"{figures['grown_kib'] / 1024:.1f} MiB"],
    ]


def seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
