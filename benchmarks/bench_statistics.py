"""Measure what the statistics of loaders cost, in processor time: loaders in turn, with and without them.

usage: python benchmarks/bench_statistics.py [--starts 40] [--rounds 8] [--workers 0 2] [--data FOLDER]

Three loaders read the same samples: one with statistics, and two without, whose difference shows the noise. They take
short turns, in random order, so that other programs and the frequency of the processor affect all of them. A figure
is the mean of the faster half of the turns, since other programs only add time: the processor time of this process
and, with workers, of the workers. Loaders that do the same differ by some percent, for as long as they run, so all
three are started many times. The table shows the means of all starts and their standard errors. Without workers, the
process stays on one processor.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from report import machine_facts, print_table

import loader
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
CAPTIONS = "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n"
CAPTIONS += "field_map: {image: jpg, caption: txt}\n"
SAMPLES = 2000
IDLE_S = 0.004  # a worker that makes no batch for so long waits for its rank


class Undecoded(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Batches of undecoded json: the least work that a sample can be."""

    decoder: Any = None
    batch: Any = staticmethod(loader.batch_list)


class Encoding(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Batches of decoded json, of which each is encoded, with a metric."""

    batch: Any = staticmethod(loader.batch_list)

    def encode_sample(self, sample: Any) -> Any:
        return sample["json"]

    @loader.sample_size_metric
    def characters(self, sample: Any) -> int:
        return len(sample["text"])


class Pictures(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Batches of decoded JPEG pictures of equal size."""


class Turns(NamedTuple):
    """The turns of a loader.

    Attributes:
        before: Micro-batches before the first turn. Early in a run, chunks are small, more micro-batches are timed, and
            workers send counts more often.
        batches: Micro-batches of a turn. With workers it takes about 0.1 s, since they send counts after each pause.
    """

    before: int
    batches: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.data or Path(temporary)
        texts = make_dataset(folder / "texts", "json", json_part, CRUDE)
        pictures = make_dataset(folder / "pictures", "jpg", jpeg_part, CAPTIONS)
        cells = [["samples", "workers", "µs of a sample", "with statistics", "without, again", "their estimate"]]
        for name, path, encoder, turns in (
            ("undecoded json", texts, Undecoded(), (Turns(4000, 96), Turns(16000, 768))),
            ("json, encoded", texts, Encoding(), (Turns(4000, 64), Turns(16000, 1024))),
            ("JPEG 256 × 256", pictures, Pictures(), (Turns(100, 2), Turns(300, 16))),
        ):
            cells += (
                [
                    name,
                    str(some),
                    *compared(path, encoder, some, turns[some > 0], starts=arguments.starts, rounds=arguments.rounds),
                ]
                for some in arguments.workers
            )
        print_table(cells)
    print(json.dumps(machine_facts(), indent=1))


def make_dataset(
    path: Path, ending: str, part: Callable[[int], bytes], document: str, *, samples: int = SAMPLES
) -> Path:
    """Write and prepare a dataset, unless it is there."""
    if (path / ".nv-meta").is_dir():
        return path
    path.mkdir(parents=True)
    for shard in range(4):
        with tarfile.open(path / f"shard_{shard}.tar", "w") as tar:
            for number in range(shard * samples // 4, (shard + 1) * samples // 4):
                for name, data in ((ending, part(number)), ("txt", f"caption {number}".encode())):
                    info = tarfile.TarInfo(f"{number:06d}.{name}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    split = SplitRequest(ratio={"train": 1.0})
    run_prepare(PreparePlan(path=str(path), split=split, files={"dataset.yaml": document}, workers=1))
    return path


def json_part(number: int) -> bytes:
    return json.dumps({"number": number, "text": "word " * (number % 60)}).encode()


def jpeg_part(number: int) -> bytes:
    noise = np.random.default_rng(number).integers(0, 255, (16, 16, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noise).resize((256, 256)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def compared(path: Path, encoder: Any, workers: int, turns: Turns, *, starts: int, rounds: int) -> list[str]:
    """Return the cells of a case."""
    processors = os.sched_getaffinity(0)
    if not workers:
        os.sched_setaffinity(0, {min(processors)})
    results = [measured(path, encoder, workers, turns, start=start, rounds=rounds) for start in range(starts)]
    os.sched_setaffinity(0, processors)
    sample_us, on, again, estimate = zip(*results, strict=True)
    return [
        f"{mean(sample_us):.1f}",
        *(f"{100 * mean(some):+.2f} ± {100 * stdev(some) / len(some) ** 0.5:.2f} %" for some in (on, again)),
        f"{100 * mean(estimate):.2f} %",
    ]


def measured(
    path: Path, encoder: Any, workers: int, turns: Turns, *, start: int, rounds: int
) -> tuple[float, float, float, float]:
    """Return the time of a sample in µs, how much more the other two loaders take, and the estimate."""
    random = Random(start)
    on, off, again = random.sample(range(3), 3)  # which is started first, changes
    kinds = [place == on for place in range(3)]
    loaders = [loader_of(path, encoder, workers, stats) for stats in kinds]
    running = [iter(one) for one in loaders]
    for batches in running:
        take(batches, turns.before)
    spent: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        for which in random.sample(range(3), 3):
            before = Spent.by(loaders[which])
            take(running[which], turns.batches)
            spent[which].append(Spent.by(loaders[which]).of_turn(before, turns.batches))
    estimate = loaders[on].stats().cost_share
    for one in loaders:
        one.shutdown()
    took = [sum(sorted(times)[: len(times) // 2]) for times in spent]
    sample_us = took[off] / (rounds // 2 * turns.batches * 16) * 1e6
    return sample_us, 2 * took[on] / (took[off] + took[again]) - 1, took[again] / took[off] - 1, estimate


def loader_of(path: Path, encoder: Any, workers: int, on: bool) -> loader.DataLoader[Any]:
    dataset = loader.get_train_dataset(
        path,
        worker_config=loader.WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=48),
        batch_size=16,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
        task_encoder=encoder,
    )
    return loader.get_loader(dataset, stats=on)


def take(batches: Iterator[Any], count: int) -> None:
    for _ in range(count):
        next(batches)


class Spent(NamedTuple):
    """The processor time of a loader until now.

    Attributes:
        own_s: Of this process, in seconds.
        workers_s: Of its workers.
        made: Micro-batches that the workers have made.
    """

    own_s: float
    workers_s: float
    made: int

    @classmethod
    def by(cls, one: loader.DataLoader[Any]) -> Spent:
        """Wait until the workers of a loader have made as many micro-batches as they may, and return the time."""
        stream = one.run.lanes.start().source
        pids = [pid for pid in map(stream.pid, range(one.num_workers)) if pid is not None]
        own_s = time.process_time()
        before, workers_ns = -1, processor_ns(pids)
        while pids and before != workers_ns:
            time.sleep(IDLE_S)
            before, workers_ns = workers_ns, processor_ns(pids)
        made = sum(stream._board.cells[worker].made for worker in range(len(pids)))  # noqa: SLF001 - nothing else has it
        return cls(own_s, workers_ns / 1e9, made)

    def of_turn(self, before: Spent, batches: int) -> float:
        """Return the time of a turn; that of the workers for as many micro-batches as were taken: they work ahead."""
        share = batches / max(1, self.made - before.made)
        return self.own_s - before.own_s + share * (self.workers_s - before.workers_s)


def processor_ns(pids: Iterable[int]) -> int:
    """Return the processor time of processes and all their threads, in nanoseconds."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


if __name__ == "__main__":
    main()
