"""Measure ``open_dataset`` on a dataset of ten million samples: opening, reading at random, and look-up by key.

usage: python benchmarks/bench_open_dataset.py [--samples N] [--data FOLDER]

The index is that of real shards; the shards are sparse files, so that ten million samples take no disk. A
thousand samples, chosen at random, are read before: their parts and rows of the index are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from report import machine_facts, print_table

from loader.format.index.key_hash import hash_ragged
from loader.format.index.shard_index import ShardIndex
from loader.format.index.writer import IndexWriter
from loader.storage import LocalStorage

SHARDS, PART_BYTES, STEP_BYTES = 100, 400, 1024
UUID = "00000000-0000-4000-8000-000000000000"

_MEASURE = """
import gc, json, random, sys, time
from loader import open_dataset
from loader.samples.decoding.decoder import SampleDecoder
path, repeats = sys.argv[1], int(sys.argv[2])
open_dataset(sys.argv[3])  # imports, of torch among others, count for no dataset
start = time.perf_counter()
dataset = open_dataset(path, decoder=None)
opened = time.perf_counter() - start
numbers = [random.Random(7).randrange(len(dataset)) for _ in range(repeats)]
keys = [dataset.key(number) for number in numbers]
for number, key in zip(numbers, keys):
    dataset[number], dataset[key]
gc.disable()
def per_sample(indices):
    seconds = []
    for first in range(0, len(indices), 50):  # other programs interrupt few of the rounds
        start = time.perf_counter()
        for index in indices[first : first + 50]:
            dataset[index]
        seconds.append((time.perf_counter() - start) / 50)
    return sorted(seconds)[len(seconds) // 4]
by_number, by_key = per_sample(numbers), per_sample(keys)
batch = numbers[:64]
seconds = []
for _ in range(20):
    start = time.perf_counter()
    dataset.__getitems__(batch)
    seconds.append((time.perf_counter() - start) / len(batch))
print(json.dumps([opened, by_number, by_key - by_number, sorted(seconds)[5]]))
"""


def make_dataset(folder: Path, samples: int) -> None:
    """Write the index of shards of samples with one text each, and sparse files instead of the shards."""
    if (folder / ".nv-meta/.info.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    storage, counts, each = LocalStorage(folder), {}, samples // SHARDS
    with IndexWriter(storage, f".nv-meta/index/{UUID}", durable=False) as writer:
        for shard in range(SHARDS):
            name = f"shard_{shard:03d}.tar"
            with (folder / name).open("wb") as file:
                file.truncate(each * STEP_BYTES + 1024)
            writer.add(storage.stat(name), _index(each, shard * each))
            counts[name] = each
    writer.finish(prepared_by="bench_open_dataset")
    meta = folder / ".nv-meta"
    (meta / "index.uuid").write_text(UUID)
    (meta / "split.yaml").write_text("split_parts: {train: ['shard_{000..099}.tar']}\n")
    (meta / ".info.json").write_text(json.dumps({"shard_counts": counts}))


def _index(samples: int, first: int) -> ShardIndex:
    numbers = np.arange(samples)
    keys = np.char.zfill((numbers + first).astype("S9"), 9)
    key_bytes, key_ends = np.frombuffer(keys.tobytes(), np.uint8), (numbers + 1) * 9
    hashes = hash_ragged(key_bytes, key_ends)
    order = np.argsort(hashes)
    return ShardIndex(
        part_names=("txt",),
        part_name=np.zeros(samples, np.uint32),
        part_offset=numbers * STEP_BYTES + 512,
        part_size=np.full(samples, PART_BYTES),
        part_ends=numbers + 1,
        key_bytes=key_bytes,
        key_ends=key_ends,
        key_hash=hashes[order],
        key_order=order,
        sample_offsets=np.empty(0, np.int64),
        end_offset=samples * STEP_BYTES,
        plain=True,
    )


def main() -> None:
    """Print the medians of several processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path, help="folder to keep the dataset in")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        data = options.data or Path(temporary)
        make_dataset(data / "large", options.samples)
        make_dataset(data / "small", SHARDS)
        command = [sys.executable, "-c", _MEASURE, str(data / "large"), "1000", str(data / "small")]
        rows = [
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stdout)
            for _ in range(options.runs)
        ]
    opened, by_number, key, of_batch = (statistics.median(column) for column in zip(*rows, strict=True))
    print_table(
        [
            ["open_dataset", f"{options.samples:,} samples"],
            ["open", f"{1e3 * opened:.1f} ms"],
            ["ds[i] at random, without decoding, in the page cache", f"{1e6 * by_number:.0f} µs"],
            ['ds["shard/key"], in addition', f"{1e6 * key:.0f} µs"],
            ["a sample of a batch of 64 at random", f"{1e6 * of_batch:.0f} µs"],
        ]
    )
    print(machine_facts())


if __name__ == "__main__":
    main()
