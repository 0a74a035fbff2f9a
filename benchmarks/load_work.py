"""The work of every loader and its timing; one script per library runs it in a separate process.

The timed loop only counts samples. Their content is checked before and after it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from processes import process_tree

__all__ = [
    "BATCH_SIZE",
    "arguments_of_script",
    "cold_epoch",
    "first_or_throughput",
    "picture_tensor",
    "report",
    "throughput",
]

BATCH_SIZE = 16
WARM_UP_BATCHES = {"json": 1000, "captions": 40}


def arguments_of_script(tasks: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments that bench_load.py passes to each library's script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=tasks)
    parser.add_argument("kind", choices=("json", "captions"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--library", help="the module to import, for a script of several libraries")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--buffer", type=int, default=100)
    parser.add_argument("--padded", action="store_true", help="stack padded pictures instead of listing samples")
    parser.add_argument("--stored-json", action="store_true", help="store json, and decode it, instead of texts")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--url", help="URL of the samples, instead of the folder")
    parser.add_argument("--cache", type=Path, help="empty folder for copies of remote files")
    parser.add_argument("--signed", type=Path, help="file with a signed URL of each shard, one a line")
    # Worker processes have one thread each. With one thread here, 0 workers use one core with every library.
    torch.set_num_threads(1)
    return parser.parse_args()


def throughput(
    batches: Iterable[Any], arguments: argparse.Namespace, sample_lists: Callable[[Any], Sequence[Any]]
) -> None:
    """Time an iteration over batches after a warm-up, and report the microseconds per sample.

    Args:
        batches: At least the requested number of batches, of 16 samples each.
        arguments: The arguments of the script: the kind and number of samples.
        sample_lists: Returns ``(text, picture or None)`` of each sample of a batch; not timed.
    """
    iterator = iter(batches)
    first = next(iterator)
    for _ in range(WARM_UP_BATCHES[arguments.kind] - 1):
        first = next(iterator)
    check(sample_lists(first))
    before = fingerprint(sample_lists(first))
    number = arguments.samples // BATCH_SIZE
    batch = first
    processor_start, start = processor_seconds(), time.perf_counter()
    for _ in range(number):
        batch = next(iterator)
    seconds, processor = time.perf_counter() - start, processor_seconds() - processor_start
    check(sample_lists(batch))
    if fingerprint(sample_lists(first)) != before:
        raise SystemExit("a batch changed after it was returned: its memory was reused")
    count = number * BATCH_SIZE
    report({"microseconds": seconds / count * 1e6, "processor": processor / count * 1e6, "samples": count})


def first_or_throughput(
    open_batches: Callable[[], Iterable[Any]],
    arguments: argparse.Namespace,
    sample_lists: Callable[[Any], Sequence[Any]],
) -> None:
    """Time the task ``throughput``, or the seconds from the opening of the dataset to its first batch."""
    start = time.perf_counter()
    batches = iter(open_batches())
    if arguments.task == "throughput":
        throughput(batches, arguments, sample_lists)
    else:
        next(batches)
        report({"seconds": time.perf_counter() - start})


def cold_epoch(
    open_batches: Callable[[], Iterable[Any]],
    arguments: argparse.Namespace,
    sample_lists: Callable[[Any], Sequence[Any]],
) -> None:
    """Time an epoch from the opening of the dataset to its last full batch, and its first batch.

    Args:
        open_batches: Opens the dataset, and returns at least the requested number of batches.
        arguments: The arguments of the script: the number of samples.
        sample_lists: See :func:`throughput`.
    """
    number = arguments.samples // BATCH_SIZE
    processor_start, start = processor_seconds(), time.perf_counter()
    iterator = iter(open_batches())
    first = batch = next(iterator)
    first_seconds = time.perf_counter() - start
    for _ in range(number - 1):
        batch = next(iterator)
    seconds, processor = time.perf_counter() - start, processor_seconds() - processor_start
    for some in (first, batch):
        check(sample_lists(some))
    count = number * BATCH_SIZE
    report({"rate": count / seconds, "first": first_seconds, "processor": processor / count * 1e6})


def processor_seconds() -> float:
    """Return the CPU time of this process and its workers; on a busy machine it varies less than wall time."""
    total = time.process_time()
    for pid in process_tree(os.getpid()):
        if pid != os.getpid():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and kernel time
    return total


def check(samples: Sequence[tuple[Any, torch.Tensor | None]]) -> None:
    """Check the content of a batch.

    Raises:
        SystemExit: The content is wrong, so the time is meaningless.
    """
    if len(samples) != BATCH_SIZE or len({id(text) for text, _ in samples}) != BATCH_SIZE:
        raise SystemExit(f"expected {BATCH_SIZE} samples in a batch, found {len(samples)}")
    for text, picture in samples:
        if not isinstance(text, str) or not text:
            raise SystemExit(f"expected a text, found {text!r}")
        if picture is not None and not is_picture(picture):
            raise SystemExit(f"expected a float picture (3, H, W), found {picture.dtype} {tuple(picture.shape)}")


def fingerprint(samples: Sequence[tuple[str, torch.Tensor | None]]) -> list[tuple[str, float]]:
    return [(text, 0.0 if picture is None else float(picture.sum(dtype=torch.float64))) for text, picture in samples]


def is_picture(picture: torch.Tensor) -> bool:
    """Check for a contiguous float picture with more than one value, all in [0, 1]."""
    return (
        picture.dtype == torch.float32
        and picture.ndim == 3
        and picture.shape[0] == 3
        and min(picture.shape) > 2
        and picture.is_contiguous()
        and 0 <= float(picture.min()) < float(picture.max()) <= 1
    )


def picture_tensor(jpeg: bytes) -> torch.Tensor:
    """Decode a JPEG with Pillow to float32 (3, H, W) in [0, 1], for libraries that rely on torchvision."""
    import io

    import numpy as np
    from PIL import Image

    pixels = torch.from_numpy(np.array(Image.open(io.BytesIO(jpeg)).convert("RGB")))  # (H, W, 3)
    return pixels.permute(2, 0, 1).contiguous().to(torch.float32).div_(255)  # (3, H, W)


def report(figures: dict[str, float]) -> None:
    """Print figures as the last line of a script, for bench_load.py to read."""
    print(json.dumps(figures), flush=True)
