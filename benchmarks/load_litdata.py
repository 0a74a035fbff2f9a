"""Load a copy of the samples in its own format with litdata.

usage: python benchmarks/load_litdata.py convert|throughput|first|epoch KIND FOLDER …

The copy is in ``FOLDER-litdata``. It stores texts as plain strings, without json to decode, and pictures as JPEG.
Pillow decodes them, since no torchvision exists for a torch without CUDA. With ``--stored-json`` the copy is in
``FOLDER-litdata-stored``, and stores the json as it is, which Python's decoder decodes.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from litdata import StreamingDataLoader, StreamingDataset, optimize
from load_data import read_samples, samples_of_shard
from load_work import BATCH_SIZE, arguments_of_script, cold_epoch, first_or_throughput, picture_tensor


def main() -> None:
    arguments = arguments_of_script(("convert", "throughput", "first", "epoch"))
    copy = arguments.folder.with_name(arguments.folder.name + "-litdata" + ("-stored" if arguments.stored_json else ""))
    if arguments.task == "convert":
        samples = stored_samples if arguments.stored_json else SAMPLES_OF[arguments.kind]
        convert(samples, arguments.folder, copy)
        return
    if arguments.task == "epoch":
        cold_epoch(lambda: loader(arguments, arguments.url), arguments, contents)
        return
    first_or_throughput(lambda: loader(arguments, copy), arguments, contents)


def loader(arguments: Namespace, copy: Path | str) -> Any:
    class Captions(StreamingDataset):  # type: ignore[misc]  # untyped
        def __getitem__(self, index: Any) -> dict[str, Any]:
            sample: dict[str, Any] = super().__getitem__(index)
            sample["image"] = picture_tensor(sample["image"])
            return sample

    class Stored(StreamingDataset):  # type: ignore[misc]  # untyped
        def __getitem__(self, index: Any) -> dict[str, Any]:
            sample: dict[str, Any] = json.loads(bytes(super().__getitem__(index)))
            return sample

    kinds = {"captions": Captions, "json": Stored if arguments.stored_json else StreamingDataset}
    remote = {}
    if arguments.url:
        remote = {
            "cache_dir": str(arguments.cache),
            "storage_options": {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]},
        }
    dataset = kinds[arguments.kind](str(copy), shuffle=True, seed=0, **remote)
    return StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=arguments.workers, collate_fn=list)


def contents(batch: Any) -> list[tuple[str, torch.Tensor | None]]:
    return [(sample["text"], sample.get("image")) for sample in batch]


def convert(samples: Callable[[str], Iterator[Any]], folder: Path, copy: Path) -> None:
    """Write the samples in litdata's format, unless an earlier run did."""
    if (copy / "index.json").exists():
        return
    # By default it empties folders called data and chunks in the folder for temporary files.
    scratch = copy.with_name(copy.name + "-scratch")
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(scratch / "chunks")
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(scratch / "data")
    optimize(
        fn=samples,
        inputs=[str(folder)],
        output_dir=str(copy),
        chunk_size=samples_of_shard(folder),
        num_workers=1,
    )


def json_samples(folder: str) -> Iterator[dict[str, Any]]:
    for parts in read_samples(Path(folder)):
        yield json.loads(parts["json"])


def stored_samples(folder: str) -> Iterator[bytes]:
    for parts in read_samples(Path(folder)):
        yield parts["json"]


def caption_samples(folder: str) -> Iterator[dict[str, Any]]:
    for parts in read_samples(Path(folder)):
        yield {"image": parts["jpg"], "text": parts["txt"].decode()}


SAMPLES_OF = {"json": json_samples, "captions": caption_samples}

if __name__ == "__main__":
    main()
