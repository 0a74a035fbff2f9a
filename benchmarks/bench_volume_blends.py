"""Measure blends whose weights are shares of a volume: their cost next to plain blends, and how near the shares are.

usage: python benchmarks/bench_volume_blends.py --work-folder build/bench [--rounds N]

The cost is processor time per sample of loading crude samples of 150 bytes of json without workers, in blocks that are
long enough to locate and read all chunks of samples, in turn with the same load on the machine. A ratio is the median
of those of the rounds. The datasets are those of ``bench_mixes.py``: the same samples in 1, 2 and 200 datasets.

The shares are those of four datasets whose samples have sizes of a heavy tail (Pareto, exponent 1.1, up to 100,000
times the least): of one lane over 100,000 samples, with constant weights and with weights that change every 10,000,
and of 4 ranks with 2 workers each.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import yaml
from bench_mixes import BATCH_SIZE, Decoded, make_mix
from report import machine_facts, print_table
from webdataset import TarWriter

import loader
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

LANES = 8
BLOCK = LANES * 256  # micro-batches: each lane locates its samples several times
SAMPLES = 10_000  # of each dataset with a heavy tail
WEIGHTS = (5, 3, 1, 0.2)
STEPS = 100_000
EVERY = 10_000  # samples between changes
HEAD = {"__module__": "megatron.energon", "__class__": "MetadatasetV2"}


class Sized(Decoded):
    """Batches of decoded samples, and the length of their texts as a metric."""

    @loader.sample_size_metric
    def characters(self, sample: Any) -> int:
        return len(sample["json"]["text"])


class Tokens(loader.TaskEncoder[Any, Any, Any, Any]):
    """Samples as their dataset and size."""

    def encode_sample(self, sample: Any) -> tuple[int, int]:
        return sample["json"]["leaf"], sample["json"]["tokens"]

    @loader.sample_size_metric
    def tokens(self, sample: tuple[int, int]) -> int:
        return sample[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    facts = machine_facts()
    print(f"{facts['date']}, {facts['cores']} cores of {facts['processor']}, Python {facts['python']}\n")
    print_costs(arguments.work_folder, arguments.rounds)
    print_shares(write_heavy(arguments.work_folder / "heavy_tail"))


# ------------------------------------------------------------------------------------------------------------- cost


def print_costs(folder: Path, rounds: int) -> None:
    mixes = {sources: make_mix(folder / f"mix_{sources}", sources) for sources in (1, 2, 200)}
    runs: dict[str, Callable[[], Any]] = {
        "1 dataset": partial(train, mixes[1], Decoded()),
        "2 datasets": partial(train, mixes[2], Decoded()),
        "2 datasets, by characters": partial(train, with_unit(mixes[2], "characters"), Sized()),
        "2 datasets, by characters, changing": partial(train, with_unit(mixes[2], "characters", changes=True), Sized()),
        "200 datasets": partial(train, mixes[200], Decoded()),
        "200 datasets, by characters": partial(train, with_unit(mixes[200], "characters"), Sized()),
        "200 datasets, by characters, changing": partial(
            train, with_unit(mixes[200], "characters", changes=True), Sized()
        ),
    }
    opened = {name: seconds(run) for name, run in runs.items()}
    batches = {name: iter(loader.get_loader(run())) for name, run in runs.items()}
    first = {name: microseconds(some) for name, some in batches.items()}
    found: dict[str, list[float]] = {name: [] for name in batches}
    for _ in range(rounds):
        for name, some in batches.items():
            found[name].append(microseconds(some))
    rows = [
        [
            "crude json",
            "opening, s",
            "µs a sample: first block",
            "median",
            "next to 1 dataset",
            "next to a plain blend",
            "next to constant weights",
        ]
    ]
    for name, times in found.items():
        rows.append(
            [
                name,
                f"{opened[name]:.2f}",
                f"{first[name]:.1f}",
                f"{statistics.median(times):.1f}",
                ratio(times, found["1 dataset"]),
                ratio(times, found[name.partition(",")[0]]),
                ratio(times, found[name.removesuffix(", changing")]),
            ]
        )
    print_table(rows)
    print()


def with_unit(mix: Path, unit: str, *, changes: bool = False) -> Path:
    """Write a metadataset next to another one, whose weights are shares of a volume, and change every 1,000 steps."""
    document = yaml.safe_load(mix.read_text())
    document["splits"]["train"]["blend_weight_unit"] = unit
    if changes:
        for place, entry in enumerate(document["splits"]["train"]["blend"]):
            entry["weight"] = {1000 * row: 1 + (place + row) % 3 for row in range(100)}
    path = mix.with_name(f"{unit}{'_changing' if changes else ''}.yaml")
    path.write_text(yaml.safe_dump(document))
    return path


def train(
    mix: Path, encoder: Any, *, config: loader.WorkerConfig | None = None, batch_size: int | None = BATCH_SIZE
) -> Any:
    return loader.get_train_dataset(
        mix,
        worker_config=config or loader.WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=LANES),
        batch_size=batch_size,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
        task_encoder=encoder,
    )


def microseconds(batches: Iterator[Any]) -> float:
    """Return the processor time per sample of a block."""
    started = time.process_time()
    for _ in range(BLOCK):
        next(batches)
    return (time.process_time() - started) / (BLOCK * BATCH_SIZE) * 1e6


def seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def ratio(times: list[float], others: list[float]) -> str:
    return f"{statistics.median(one / other for one, other in zip(times, others, strict=True)):.2f}×"


# ------------------------------------------------------------------------------------------------------------ shares


def write_heavy(folder: Path) -> Path:
    """Write datasets with sizes of a heavy tail, and a metadataset that blends them by tokens, unless they exist."""
    mix = folder / "mix.yaml"
    if mix.exists():
        return mix
    draw = random.Random(0)
    for leaf in range(len(WEIGHTS)):
        dataset = folder / str(leaf)
        dataset.mkdir(parents=True, exist_ok=True)
        with TarWriter(str(dataset / "shard.tar"), mtime=0) as shard:
            for number in range(SAMPLES):
                tokens = min(10**6, int(10 * (1 + leaf) * draw.paretovariate(1.1)))
                shard.write({"__key__": f"{number:08d}", "json": {"leaf": leaf, "tokens": tokens}})
        crude = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
        split = SplitRequest(ratio={"train": 1.0})
        run_prepare(PreparePlan(path=str(dataset), split=split, files={"dataset.yaml": crude}))
    blend = [{"path": str(leaf), "weight": weight} for leaf, weight in enumerate(WEIGHTS)]
    splits = {"train": {"blend": blend, "blend_weight_unit": "tokens"}}
    mix.write_text(yaml.safe_dump({**HEAD, "splits": splits}))
    return mix


def write_changing(mix: Path) -> Path:
    """Write the same with weights that change."""
    document = yaml.safe_load(mix.read_text())
    for leaf, entry in enumerate(document["splits"]["train"]["blend"]):
        entry["weight"] = {EVERY * row: weights[leaf] for row, weights in enumerate(changing_weights())}
    path = mix.with_name("changing.yaml")
    path.write_text(yaml.safe_dump(document))
    return path


def changing_weights() -> list[list[float]]:
    """Return the weights of each stretch: those of constant weights, moved on by one dataset each time."""
    places = range(len(WEIGHTS))
    return [[WEIGHTS[(place + row) % len(WEIGHTS)] for place in places] for row in range(STEPS // EVERY)]


def print_shares(mix: Path) -> None:
    rows = [
        [
            "heavy tail",
            "samples",
            "ahead, in own largest samples",
            "behind, of the bound",
            "behind / (M + w L)",
            "share",
        ]
    ]
    alone = loader.WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    lane = list(islice(loader.get_loader(train(mix, Tokens(), config=alone, batch_size=None)), STEPS))
    rows += [["one lane, every step", *row] for row in distances(lane, lanes=1)]
    changing = loader.get_loader(train(write_changing(mix), Tokens(), config=alone, batch_size=None))
    rows += [["one lane, changing weights", *row] for row in distances([*islice(changing, STEPS)], changes=True)]
    samples: list[tuple[int, int]] = []
    for rank in range(4):
        config = loader.WorkerConfig(rank=rank, world_size=4, num_workers=2, lanes=LANES)
        with loader.get_loader(train(mix, Tokens(), config=config, batch_size=None)) as of_rank:
            samples += islice(of_rank, STEPS // 4)
    rows += [["4 ranks × 2 workers, at the end", *row] for row in distances(samples, lanes=LANES, at_every_step=False)]
    print_table(rows)


def distances(
    samples: list[tuple[int, int]], *, lanes: int = 1, at_every_step: bool = True, changes: bool = False
) -> Iterator[list[str]]:
    """Yield a row for each dataset: the largest distances from its target, next to the bounds of as many lanes."""
    stretches = changing_weights() if changes else [[*WEIGHTS]]
    shares = [weight / sum(WEIGHTS) for weight in map(max, *stretches, stretches[0])]
    targets = [0.0] * len(WEIGHTS)
    largest = [max((size for leaf, size in samples if leaf == number), default=0) for number in range(len(WEIGHTS))]
    volumes, ahead, behind = [0] * len(WEIGHTS), [0.0] * len(WEIGHTS), [0.0] * len(WEIGHTS)
    for number, (leaf, size) in enumerate(samples, 1):
        volumes[leaf] += size
        for place, weight in enumerate(stretches[(number - 1) // EVERY] if changes else WEIGHTS):
            targets[place] += weight / sum(WEIGHTS) * size
        if not at_every_step and number < len(samples):
            continue
        for place, target in enumerate(targets):
            distance = volumes[place] - target
            ahead[place] = max(ahead[place], distance)
            behind[place] = max(behind[place], -distance)
    for place, share in enumerate(shares):
        most = max(largest) + share * (max(largest) + sum(largest) - largest[place])
        if changes:
            most += (1 + share) * largest[place]
        yield [
            f"{sum(leaf == place for leaf, _ in samples):,} of dataset {place}",
            f"{ahead[place] / (lanes * largest[place]):.3f}",
            f"{behind[place] / (lanes * most):.3f}",
            f"{behind[place] / (lanes * (largest[place] + share * max(largest))):.3f}",
            f"{volumes[place] / sum(volumes):.2%} for {targets[place] / sum(volumes):.2%}",
        ]


if __name__ == "__main__":
    main()
