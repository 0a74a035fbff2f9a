"""Measure the cost of mixing: blends, opening many datasets, and finding a key among a million.

usage: python benchmarks/bench_mixes.py --work-folder build/bench [--rounds N]

The same samples are spread over 1, 2 and 200 datasets. This process loads a few batches of each in turn, so that other
load on the machine affects all equally. Figures are CPU time, the minimum of many stretches, since other programs can
only add to it. There are two workloads: crude samples of 150 bytes of json, which measure only the loader, and the same
with a hook of 100 µs per sample, similar to light decoding.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from report import machine_facts, print_table
from webdataset import TarWriter

import loader
from loader.dataset.opening import tars_at
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.stores.dataset_file_store import DatasetFileStore

SAMPLES = 200_000
LEAVES = (1, 2, 200)
LANES = 48
BATCH_SIZE = 16
STRETCH = 100  # batches
KEYS = 1_000_000
LOOK_UPS = 2_000


class Decoded(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Batches of decoded samples."""

    def batch(self, samples: list[Any]) -> list[Any]:
        return samples


class Working(Decoded):
    """Batches of decoded samples, with 100 µs of work per sample."""

    def encode_sample(self, sample: Any) -> Any:
        end = time.thread_time() + 1e-4
        while time.thread_time() < end:
            pass
        return sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    facts = machine_facts()
    print(f"{facts['date']}, {facts['cores']} cores of {facts['processor']}, Python {facts['python']}\n")
    mixes = {sources: make_mix(arguments.work_folder / f"mix_{sources}", sources) for sources in LEAVES}
    rows = [
        ["µs a sample", *(f"{sources} leaves" for sources in LEAVES), *(f"{sources}: ratio" for sources in LEAVES[1:])]
    ]
    for name, encoder in (("json alone", Decoded), ("with 100 µs of work", Working)):
        found = blend_costs(mixes, encoder, arguments.rounds)
        costs = [f"{found[sources]:.2f}" for sources in LEAVES]
        rows.append([name, *costs, *(f"{found[sources] / found[1]:.2f}×" for sources in LEAVES[1:])])
    print_table(rows)
    print()
    one_million = make_mix(arguments.work_folder / "keys", 1, samples=KEYS).parent / "000"
    opening = [seconds(partial(train_dataset, mixes[200], Decoded)) for _ in range(5)]
    print_table(
        [
            ["other", "measured"],
            [
                "opening a metadataset of 200 datasets, first / median of 5",
                f"{opening[0]:.2f} / {statistics.median(opening):.2f} s",
            ],
            *([f"a key among a million: {name}", f"{found:.1f} µs"] for name, found in key_costs(one_million).items()),
        ]
    )


def make_mix(folder: Path, sources: int, *, samples: int = SAMPLES) -> Path:
    """Write datasets and a metadataset that blends them, unless an earlier run did."""
    mix = folder / "mix.yaml"
    if mix.exists():
        return mix
    for number in range(sources):
        dataset = folder / f"{number:03d}"
        dataset.mkdir(parents=True, exist_ok=True)
        with TarWriter(str(dataset / "shard.tar"), mtime=0) as shard:
            for sample in range(samples // sources):
                content = {"id": sample, "leaf": number, "text": "some words " * 10}
                shard.write({"__key__": f"{number:03d}_{sample:08d}", "json": content})
        crude = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
        split = SplitRequest(ratio={"train": 1.0})
        run_prepare(PreparePlan(path=str(dataset), split=split, files={"dataset.yaml": crude}))
    blend = [{"path": f"{number:03d}", "weight": 1 + number % 5} for number in range(sources)]
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": {"train": {"blend": blend}}}
    mix.write_text(yaml.safe_dump(document))
    return mix


def train_dataset(mix: Path, encoder: type[Any]) -> Any:
    return loader.get_train_dataset(
        mix,
        worker_config=loader.WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=LANES),
        batch_size=BATCH_SIZE,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
        task_encoder=encoder(),
    )


def blend_costs(mixes: dict[int, Path], encoder: type[Any], rounds: int) -> dict[int, float]:
    """Return the microseconds per sample of each mix."""
    batches = {sources: iter(loader.get_loader(train_dataset(mix, encoder))) for sources, mix in mixes.items()}
    for some in batches.values():
        for _ in range(LANES * 70):  # past the small first chunks, with all shards open
            next(some)
    least = dict.fromkeys(mixes, float("inf"))
    for _ in range(rounds):
        for sources, some in batches.items():
            least[sources] = min(least[sources], stretch(some))
    return least


def stretch(batches: Iterator[Any]) -> float:
    started = time.process_time()
    for _ in range(STRETCH):
        next(batches)
    return (time.process_time() - started) / (STRETCH * BATCH_SIZE) * 1e6


def key_costs(dataset: Path) -> dict[str, float]:
    """Return the microseconds of a look-up, without and with reading the part, as medians of several rounds."""
    store = DatasetFileStore(dataset)
    index = tars_at(dataset).index
    names = [f"000_{number:08d}" for number in random.Random(0).sample(range(KEYS), LOOK_UPS)]
    works: dict[str, Callable[[str], Any]] = {
        "look-up": index.find_first_full,
        "look-up and reading": lambda name: store[f"{name}.json"],
    }
    return {name: statistics.median(each(work, names) for _ in range(9)) for name, work in works.items()}


def each(work: Callable[[str], Any], names: list[str]) -> float:
    started = time.process_time()
    for name in names:
        work(name)
    return (time.process_time() - started) / len(names) * 1e6


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
