"""Measure `loader.to_device` and decoding on a GPU, and print two tables. Needs a CUDA device.

usage: python benchmarks/bench_device.py [--workers 1 2 4 8] [--steps 100] [--rounds 3]

Copies: a training loop computes on the GPU for some milliseconds a step, and the CPU only starts the computations. Its
micro-batches of 64 samples have 96 MiB of bytes, made by four workers. They are copied by the loop itself, or by
`to_device`. The second table divides photographs of 512 × 512 pixels by the time to decode them: in the workers, or on
the GPU by each package that is installed.

All figures are medians of the rounds, in which the ways take turns.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any

import torch
from bench_statistics import CAPTIONS, CRUDE, make_dataset
from demo_photographs import PHOTOGRAPHS, open_photograph
from PIL import Image
from report import machine_facts, print_table

import loader
from loader.samples import SampleDecoder
from loader.samples.batching.device_copy import NvImageCodecDecoder, TorchvisionDecoder, is_installed

BATCH = 64
BLOB_BYTES = 3 << 19  # of a sample whose bytes are copied
PHOTOGRAPH_COUNT = 512
SIDE = 512  # of a photograph, in pixels
BEFORE = 8  # steps before the clock is started
DECODERS: dict[str, Any] = {"nvidia.nvimgcodec": NvImageCodecDecoder, "torchvision": TorchvisionDecoder}


class Blobs(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Samples of many bytes, which cost little to make."""

    decoder: Any = None

    def encode_sample(self, sample: Any) -> Any:
        return {"blob": torch.full((BLOB_BYTES,), len(sample["json"]), dtype=torch.uint8)}


class Pictures(loader.DefaultTaskEncoder[Any, Any, Any, Any]):
    """Photographs that are decoded in the workers, or by `to_device`."""

    def __init__(self, device: str) -> None:
        self.decoder = SampleDecoder(image_decode="torchrgb8", image_decode_device=device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch finds no CUDA device")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        blobs = make_dataset(folder / "blobs", "json", digit, CRUDE)
        pictures = make_dataset(folder / "pictures", "jpg", photograph, CAPTIONS, samples=PHOTOGRAPH_COUNT)
        print_table(copies_table(blobs, arguments.steps, arguments.rounds))
        print()
        print_table(decoding_table(pictures, arguments.workers, arguments.steps, arguments.rounds))
    facts = machine_facts() | {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(json.dumps(facts, indent=1))


def digit(number: int) -> bytes:
    """Return one byte of json."""
    return str(number % 10).encode()


def photograph(number: int) -> bytes:
    """Return the JPEG of a part of a photograph."""
    image = opened(number % len(PHOTOGRAPHS))
    side = round(0.85 * min(image.size))
    left = Random(number).randint(0, image.width - side)
    stream = io.BytesIO()
    image.resize((SIDE, SIDE), box=(left, 0, left + side, side)).save(stream, "JPEG", quality=90)
    return stream.getvalue()


@cache
def opened(which: int) -> Image.Image:
    name, _ = PHOTOGRAPHS[which]
    return open_photograph(name)


# ------------------------------------------------------------------------------------------------- copies


def copies_table(path: Path, steps: int, rounds: int) -> list[list[str]]:
    """Return the times of a step with each way to copy."""
    ways: dict[str, Callable[[], float]] = {
        "computations alone": lambda: step_s(repeated_blob(), steps),
        "loop, pageable memory": lambda: loop_s(path, steps, pin_memory=False),
        "loop, pin_memory": lambda: loop_s(path, steps),
        "to_device, prefetch=0": lambda: to_device_s(path, steps, 0),
        "to_device": lambda: to_device_s(path, steps),
        "to_device, pin_memory=False": lambda: to_device_s(path, steps, pin_memory=False),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, measured in ways.items():
            times[way].append(measured())
    medians = {way: statistics.median(some) for way, some in times.items()}
    alone = medians["computations alone"]
    return [
        ["96 MiB a step", "ms a step", "more than alone"],
        *([way, f"{1e3 * some:.1f}", f"{1e3 * (some - alone):+.1f} ms"] for way, some in medians.items()),
    ]


def loop_s(path: Path, steps: int, **options: Any) -> float:
    with loader.get_loader(dataset_of(path, Blobs(), 4), **options) as batches:
        return step_s((batch["blob"].to("cuda", non_blocking=True) for batch in batches), steps)


def to_device_s(path: Path, steps: int, prefetch: int = 2, **options: Any) -> float:
    with loader.get_loader(dataset_of(path, Blobs(), 4), **options).to_device("cuda", prefetch=prefetch) as batches:
        return step_s((batch["blob"] for batch in batches), steps)


def repeated_blob() -> Iterator[torch.Tensor]:
    return repeat(torch.ones(BATCH, BLOB_BYTES, dtype=torch.uint8, device="cuda"))


def step_s(blobs: Iterable[torch.Tensor], steps: int) -> float:
    """Return the time of a step that computes with what was copied."""
    weights = torch.full((8192, 8192), 1 / 8192, device="cuda", dtype=torch.bfloat16)
    total = torch.zeros((), device="cuda")

    def compute(blob: torch.Tensor) -> None:
        nonlocal weights, total
        total += blob.sum(dtype=torch.float32)
        for _ in range(16):
            weights = weights @ weights

    took_s = timed_s(blobs, steps, compute)
    assert total.item() == (BEFORE + steps) * BATCH * BLOB_BYTES, total
    return took_s / steps


def timed_s(values: Iterable[Any], steps: int, compute: Callable[[Any], None]) -> float:
    """Return the time of some steps that compute with values, after a few that are not timed."""
    started_s = 0.0
    for step, value in enumerate(values):
        if step == BEFORE:
            torch.cuda.synchronize()
            started_s = time.perf_counter()
        if step == BEFORE + steps:
            break
        compute(value)
    torch.cuda.synchronize()
    return time.perf_counter() - started_s


# ------------------------------------------------------------------------------------------------- decoding


def decoding_table(path: Path, workers: Iterable[int], steps: int, rounds: int) -> list[list[str]]:
    """Return the photographs a second by each way to decode, and number of workers."""
    packages = [package for package in DECODERS if is_installed(package)]
    cells = [["photographs a second", "in the workers", *packages]]
    for some in workers:
        rates: dict[str, list[float]] = {way: [] for way in ("cpu", *packages)}
        for _ in range(rounds):
            for way, found in rates.items():
                found.append(photographs_per_s(path, way, some, steps))
        cells.append([f"{some} workers", *(f"{statistics.median(found):,.0f}" for found in rates.values())])
    return cells


def photographs_per_s(path: Path, way: str, workers: int, steps: int) -> float:
    encoder = Pictures("cpu" if way == "cpu" else "cuda")
    with loader.get_loader(dataset_of(path, encoder, workers)).to_device("cuda") as batches:
        if way in DECODERS:
            batches._copies._decoder = DECODERS[way](torch.device("cuda"))  # noqa: SLF001 - else nvImageCodec, if there
        return steps * BATCH / timed_s(batches, steps, lambda batch: batch.image.sum(dtype=torch.float32))


def dataset_of(path: Path, encoder: Any, workers: int) -> Any:
    return loader.get_train_dataset(
        path,
        worker_config=loader.WorkerConfig(rank=0, world_size=1, num_workers=workers, lanes=16),
        batch_size=BATCH,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
        task_encoder=encoder,
    )


if __name__ == "__main__":
    main()
