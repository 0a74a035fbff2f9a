"""Measure how many samples a second `energon stats` reads: sizes of 20,000 pictures, and 400,000 JSON texts.

usage: python benchmarks/bench_stats.py [--workers N]

Each measurement is a separate process; those of `stats` include its start. Headers of pictures are read from shards
that the page cache holds after the first round; the fastest of the rounds counts.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from report import machine_facts, print_table

ENERGON = [sys.executable, "-m", "energon_cli"]
SIZES = {"sizes of pictures": (20_000, 10, 20_000), "JSON texts": (400_000, 20, 50_000)}  # samples, shards, to reach


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for (name, (samples, shards, goal)), part in zip(SIZES.items(), (pictures(), texts()), strict=True):
            path = Path(folder) / name
            write_dataset(path, samples, shards, part)
            rounds = [run("stats", str(path), "--num-workers", str(options.workers)) for _ in range(options.rounds)]
            best = min(run.wall_s for run in rounds)
            used = min(run.processor_s for run in rounds)
            rows.append([name, f"{samples:,}", f"{best:.2f} s", f"{used:.2f} s", f"{samples / best:,.0f}", f"{goal:,}"])
    print(machine_facts())
    print_table([["what", "samples", "fastest round", "processor time", "samples/s", "to reach"], *rows])


class Run(NamedTuple):
    """Time that a command took."""

    wall_s: float
    processor_s: float


def run(*arguments: str) -> Run:
    """Run a command, and return its time."""
    started, before = time.perf_counter(), os.times()
    subprocess.run([*ENERGON, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(time.perf_counter() - started, used)


def write_dataset(path: Path, samples: int, shards: int, part: Callable[[int], tuple[str, bytes]]) -> None:
    """Write shards of samples with one part each, and prepare them."""
    path.mkdir()
    for shard in range(shards):
        with tarfile.open(path / f"shard_{shard:03}.tar", "w") as tar:
            for number in range(shard * samples // shards, (shard + 1) * samples // shards):
                name, data = part(number)
                member = tarfile.TarInfo(f"{number:06}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    run("prepare", str(path), "--yes", "--split-ratio", "1,0,0", "--sample-type", "CrudeWebdataset")


def pictures() -> Callable[[int], tuple[str, bytes]]:
    """Return a function that makes JPEG parts, of 20 different sizes."""
    drawn = []
    for number in range(20):
        file = io.BytesIO()
        noise = np.random.default_rng(number).integers(0, 255, (240 + 8 * number, 320 + 8 * number, 3), np.uint8)
        Image.fromarray(noise).save(file, "JPEG", quality=50)
        drawn.append(file.getvalue())
    return lambda number: ("jpg", drawn[number % len(drawn)])


def texts() -> Callable[[int], tuple[str, bytes]]:
    """Return a function that makes JSON parts with a caption, a number and a label."""

    def part(number: int) -> tuple[str, bytes]:
        draw = random.Random(number)
        caption = "a cat sits on " * draw.randrange(2, 8)
        document = {"caption": caption, "score": draw.random(), "id": number, "lang": draw.choice("abc")}
        return "json", json.dumps(document).encode()

    return part


if __name__ == "__main__":
    main()
