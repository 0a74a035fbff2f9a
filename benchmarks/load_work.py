"""What every loader is asked to do, and how it is timed: one script per library calls this in a process of its own.

Samples are counted in the timed loop; what is in them is looked at before the clock starts and after it stops.
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

__all__ = ["BATCH_SIZE", "arguments_of_script", "picture_tensor", "report", "throughput"]

BATCH_SIZE = 16
WARM_UP_BATCHES = {"json": 1000, "captions": 40}


def arguments_of_script(tasks: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments that bench_load.py gives to each library's script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=tasks)
    parser.add_argument("kind", choices=("json", "captions"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--library", help="the module to import, where a script serves more than one")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--buffer", type=int, default=100)
    parser.add_argument("--padded", action="store_true", help="stack padded pictures instead of listing samples")
    parser.add_argument("--state", type=Path)
    # Worker processes have one thread each anyway. With one here as well, 0 workers use one core with any library.
    torch.set_num_threads(1)
    return parser.parse_args()


def throughput(
    batches: Iterable[Any], arguments: argparse.Namespace, sample_lists: Callable[[Any], Sequence[Any]]
) -> None:
    """Time going through batches, once they flow, and report the microseconds of a sample.

    Args:
        batches: At least as many as are asked for; of 16 samples each.
        arguments: Of the script: what samples, and how many to time.
        sample_lists: Gives ``(text, picture or None)`` of each sample of a batch; not timed.
    """
    iterator = iter(batches)
    for _ in range(WARM_UP_BATCHES[arguments.kind]):
        first = next(iterator)
    check(sample_lists(first))
    before = fingerprint(sample_lists(first))
    number = arguments.samples // BATCH_SIZE
    processor_start, start = processor_seconds(), time.perf_counter()
    for _ in range(number):
        batch = next(iterator)
    seconds, processor = time.perf_counter() - start, processor_seconds() - processor_start
    check(sample_lists(batch))
    if fingerprint(sample_lists(first)) != before:
        raise SystemExit("a batch changed after it was given: its memory was used again")
    count = number * BATCH_SIZE
    report({"microseconds": seconds / count * 1e6, "processor": processor / count * 1e6, "samples": count})


def processor_seconds() -> float:
    """Give the processor time of this process and its workers so far: on a busy machine it varies less than time."""
    total = time.process_time()
    for pid in process_tree(os.getpid()):
        if pid != os.getpid():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # in user code, and in the kernel
    return total


def check(samples: Sequence[tuple[str, torch.Tensor | None]]) -> None:
    """Make sure that a batch holds what it was asked to.

    Raises:
        SystemExit: It does not, so its time means nothing.
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
    """Tell whether this is a contiguous float picture with values in [0, 1] that differ."""
    return (
        picture.dtype == torch.float32
        and picture.ndim == 3
        and picture.shape[0] == 3
        and min(picture.shape) > 2
        and picture.is_contiguous()
        and 0 <= float(picture.min()) < float(picture.max()) <= 1
    )


def picture_tensor(jpeg: bytes) -> torch.Tensor:
    """Decode a JPEG with Pillow for the libraries that leave it to torchvision: float32 (3, H, W) in [0, 1]."""
    import io

    import numpy as np
    from PIL import Image

    pixels = torch.from_numpy(np.array(Image.open(io.BytesIO(jpeg)).convert("RGB")))  # (H, W, 3)
    return pixels.permute(2, 0, 1).contiguous().to(torch.float32).div_(255)  # (3, H, W)


def report(figures: dict[str, float]) -> None:
    """Print figures as the last line of a script, where bench_load.py reads them."""
    print(json.dumps(figures), flush=True)
