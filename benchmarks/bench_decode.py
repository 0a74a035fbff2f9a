"""Measure our decoder of JPEGs against the bare ``simplejpeg.decode_jpeg``, and print a table.

usage: python benchmarks/bench_decode.py [--pictures N] [--rounds N]

Pictures are those of the comparison of loaders (`make_data.py images`). Each is decoded to all forms in random order,
by one thread, in the memory that a loader reuses. Figures are CPU time, the median of the rounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import simplejpeg
import torch
from make_data import jpeg_pictures
from report import print_table

from loader.samples.batch_memory import ReusedMemory
from loader.samples.decoding.image_decode import IMAGE_FORMS, decode_image
from loader.samples.hooks import HookContext, set_hook_context

BARE = "simplejpeg.decode_jpeg"
FORMS = ("torchrgb", "torchrgb8", "rgb8")
KEPT = 2  # pictures that a caller still holds, in each form


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    context = HookContext()
    context.memory = ReusedMemory()
    set_hook_context(context)
    decoders: dict[str, Callable[[bytes], Any]] = {
        BARE: simplejpeg.decode_jpeg,
        **{form: partial(decode_image, form=IMAGE_FORMS[form]) for form in FORMS},
    }
    pictures = jpeg_pictures()[: arguments.pictures]
    rounds = [microseconds(decoders, pictures) for _ in range(1 + arguments.rounds)][1:]
    cells = [["form", "µs a picture", "of the bare decoder"]]
    for name in decoders:
        time_us = statistics.median(times[name] for times in rounds)
        ratio = statistics.median(times[name] / times[BARE] for times in rounds)
        cells.append([name, f"{time_us:.0f}", f"{ratio:.3f}×"])
    print_table(cells)


def microseconds(decoders: dict[str, Callable[[bytes], Any]], pictures: list[bytes]) -> dict[str, float]:
    """Return the mean time of each decoder."""
    total_ns = dict.fromkeys(decoders, 0)
    kept: dict[str, list[Any]] = {name: [] for name in decoders}
    for picture in pictures:
        for name in random.sample([*decoders], len(decoders)):
            start = time.process_time_ns()
            decoded = decoders[name](picture)
            total_ns[name] += time.process_time_ns() - start
            kept[name] = [*kept[name][1 - KEPT :], decoded]
    return {name: total / len(pictures) / 1000 for name, total in total_ns.items()}


if __name__ == "__main__":
    main()
