"""Say where the time of a sample goes in our own pipeline, without worker processes and without user code.

usage: python benchmarks/load_overhead.py FOLDER

The chain is opened up to each of its stages in turn; what a stage costs is what is added by it. Crude samples, their
json left as bytes, in batches of 16 from all lanes in turn. Processor time, the median of three passes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from load_rows import PIPELINE
from load_work import BATCH_SIZE, report

import loader
from loader.pipeline.reading.read import ReadDataset, SourceTable
from loader.pipeline.reading.sample_chunk import SampleChunk
from loader.pipeline.reading.shard_reads import OpenShards
from loader.training.workers.lane_host import open_lane

LANES = 48
CHUNK = 1024  # positions whose bytes the reader finds together
ORDERED = 4 * CHUNK  # positions that the order gives together
PASS = LANES * ORDERED  # samples
PASSES = 3
Step = Iterator[int]  # does some work at each step, and says for how many samples


class AsTheyAre(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Batches of undecoded samples."""

    decoder = None
    batch = staticmethod(loader.batch_list)


class Decoded(AsTheyAre):
    """Batches of samples with their json decoded."""

    decoder = loader.SampleDecoder()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    dataset = train_dataset(folder, AsTheyAre())
    stages = list(stages_of(dataset))
    reader = stages[0]
    steps: dict[str, Callable[[], Step]] = {
        "which samples come next": partial(ordered, reader),
        "where their bytes lie": partial(found, reader),
        "their bytes": partial(running, reader, 1),
        **{f"stage: {stage.name}": partial(running, stage, 1) for stage in stages[1:-1]},
        "stage: batch": partial(running, dataset, BATCH_SIZE),
        "the loader": partial(loaded, dataset),
    }
    reached = {name: microseconds(step) for name, step in steps.items()}
    added = dict(zip(reached, np.diff([0.0, *reached.values()]).tolist(), strict=True))
    total = reached["the loader"]
    decoded = microseconds(partial(loaded, train_dataset(folder, Decoded())))
    report({**added, PIPELINE: total, "decoding the json": decoded - total})


def train_dataset(folder: Path, encoder: Any) -> Any:
    return loader.get_train_dataset(
        folder,
        worker_config=loader.WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=LANES),
        batch_size=BATCH_SIZE,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
        task_encoder=encoder,
    )


def stages_of(dataset: Any) -> Iterator[Any]:
    """Yield the stages of a chain, the reader first."""
    for source in dataset.inputs:
        yield from stages_of(source)
    yield dataset


def microseconds(step: Callable[[], Step]) -> float:
    """Time passes of something; the first, in which files are opened and chunks grow, does not count."""
    work = step()
    times = []
    for _ in range(1 + PASSES):
        samples, start = 0, time.process_time()
        while samples < PASS:
            samples += next(work)
        times.append((time.process_time() - start) / samples * 1e6)
    return statistics.median(times[1:])


def positions(reader: ReadDataset) -> Iterator[tuple[Any, Any]]:
    """Yield the leaves and sample numbers of a chunk of each lane in turn."""
    order = reader.plan.order([source.samples for source in reader.sources], lanes=LANES, seed=0)
    lanes = [order.lane(number) for number in range(LANES)]
    start = 0
    while True:
        ordered = [lane.locate(start, start + ORDERED) for lane in lanes]
        for chunk in range(0, ORDERED, CHUNK):
            for source, _, sample in ordered:
                yield source[chunk : chunk + CHUNK], sample[chunk : chunk + CHUNK]
        start += ORDERED


def ordered(reader: ReadDataset) -> Step:
    for source, _ in positions(reader):
        yield len(source)


def found(reader: ReadDataset) -> Step:
    shards, table = OpenShards(), SourceTable(reader.sources)
    for source, sample in positions(reader):
        SampleChunk(reader.sources, shards, source, table.index_numbers(source, sample))
        yield len(source)


def running(stage: Any, samples: int) -> Step:
    """Take a batch of each lane of a chain in turn, where each item is of so many samples."""
    lanes = [stage.open(open_lane(stage, number, LANES), {}) for number in range(LANES)]
    while True:
        for lane in lanes:
            for _ in range(BATCH_SIZE // samples):
                lane.next()
            yield BATCH_SIZE


def loaded(dataset: Any) -> Step:
    for batch in loader.get_loader(dataset):
        yield len(batch)


if __name__ == "__main__":
    main()
