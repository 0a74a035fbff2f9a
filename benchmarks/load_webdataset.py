"""Load the same shards with webdataset.

usage: python benchmarks/load_webdataset.py throughput|first|epoch KIND FOLDER …

Shards in an object store are read through `pipe:curl`, by signed URLs.
"""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import torch
import webdataset
from load_work import BATCH_SIZE, arguments_of_script, cold_epoch, report, throughput

WANTED = {"json": None, "captions": lambda name: not name.endswith(".json")}


def main() -> None:
    arguments = arguments_of_script(("throughput", "first", "epoch"))
    if arguments.task == "epoch":
        cold_epoch(lambda: loader(arguments), arguments, contents)
        return
    start = time.perf_counter()
    batches = iter(loader(arguments))
    if arguments.task == "throughput":
        throughput(batches, arguments, contents)
    else:
        next(batches)
        report({"seconds": time.perf_counter() - start})


def loader(arguments: Namespace) -> Any:
    if arguments.signed:
        shards = [f"pipe:curl -s -f '{url}'" for url in arguments.signed.read_text().splitlines()]
    else:
        shards = sorted(str(path) for path in arguments.folder.glob("*.tar"))
    # webdataset shuffles whole shards and a buffer; it has no slices of shards as the other libraries.
    dataset = webdataset.WebDataset(
        shards, shardshuffle=len(shards), nodesplitter=None, seed=0, select_files=WANTED[arguments.kind]
    ).shuffle(arguments.buffer)
    dataset = dataset.decode() if arguments.kind == "json" else dataset.decode("torchrgb").map_dict(jpg=contiguous)
    dataset = dataset.batched(BATCH_SIZE, collation_fn=list)
    return webdataset.WebLoader(dataset, batch_size=None, num_workers=arguments.workers)


def contiguous(picture: torch.Tensor) -> torch.Tensor:
    return picture.contiguous()


def contents(batch: Any) -> list[tuple[str, torch.Tensor | None]]:
    return [(sample["json"]["text"], None) if "json" in sample else (sample["txt"], sample["jpg"]) for sample in batch]


if __name__ == "__main__":
    main()
