"""Measure the time of a sample in each stage of our pipeline, without worker processes and user code.

usage: python benchmarks/load_overhead.py FOLDER

The chain is run up to each of its stages in turn; the cost of a stage is the time that it adds. Samples are crude, with
undecoded json, in batches of 16 from all lanes in turn. Figures are CPU time, the median of three passes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from load_rows import PIPELINE
from load_work import BATCH_SIZE, report

import loader
from loader.dataset.open_files import OpenFiles
from loader.pipeline.reading.dataset_source import DatasetSource
from loader.pipeline.reading.read import ReadDataset
from loader.pipeline.reading.sample_chunk import OpenSources, SampleChunk
from loader.training.workers.running_lane import open_lane

LANES = 48
CHUNK = 1024  # positions that the reader locates in one call
ORDERED = 4 * CHUNK  # positions that the order computes in one call
PASS = LANES * ORDERED  # samples
PASSES = 3
Step = Iterator[int]  # does some work in each step, and yields its number of samples


class Undecoded(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Batches of undecoded samples."""

    decoder: Any = None
    batch: Any = staticmethod(loader.batch_list)


class Decoded(Undecoded):
    """Batches of samples with their json decoded."""

    decoder = loader.SampleDecoder()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    dataset = train_dataset(folder, Undecoded())
    stages = list(stages_of(dataset))
    reader = stages[0]
    steps: dict[str, Callable[[], Step]] = {
        "computing the order": partial(ordered, reader),
        "locating the bytes": partial(found, reader),
        "reading the bytes": partial(running, reader, 1),
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
    """Return the median time of several passes, without the first, in which files are opened and chunks grow."""
    work = step()
    times = []
    for _ in range(1 + PASSES):
        samples, start = 0, time.process_time()
        while samples < PASS:
            samples += next(work)
        times.append((time.process_time() - start) / samples * 1e6)
    return statistics.median(times[1:])


def positions(reader: ReadDataset) -> Iterator[tuple[Any, Any]]:
    """Yield the sources and sample numbers of a chunk of each lane in turn."""
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
    shards, table = OpenFiles(), OpenSources(reader.sources)
    sources = cast("Sequence[DatasetSource]", reader.sources)  # a split part of a dataset
    for source, sample in positions(reader):
        SampleChunk(sources, shards, source, table.index_numbers(source, sample))
        yield len(source)


def running(stage: Any, samples: int) -> Step:
    """Run a chain for a batch of each lane in turn; each item consists of ``samples`` samples."""
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
