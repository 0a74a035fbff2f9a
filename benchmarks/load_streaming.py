"""Load a copy of the samples in its own format with mosaicml-streaming.

usage: python benchmarks/load_streaming.py convert|throughput|first|epoch KIND FOLDER …

The copy is in ``FOLDER-streaming``. It stores texts as plain strings, without json to decode, and pictures as JPEG.
Pillow decodes them, since no torchvision exists for a torch without CUDA.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from load_data import read_samples
from load_work import BATCH_SIZE, arguments_of_script, cold_epoch, first_or_throughput, picture_tensor

COLUMNS = {"json": {"id": "str", "text": "str"}, "captions": {"image": "bytes", "text": "str"}}
SHARD_BYTES = 1 << 26  # the default


def main() -> None:
    import_without_torchvision()
    arguments = arguments_of_script(("convert", "throughput", "first", "epoch"))
    copy = arguments.folder.with_name(arguments.folder.name + "-streaming")
    if arguments.task == "convert":
        convert(arguments.kind, arguments.folder, copy)
        return
    if arguments.task == "epoch":
        cold_epoch(lambda: loader(arguments, arguments.cache), arguments, contents)
        return
    first_or_throughput(lambda: loader(arguments, copy), arguments, contents)


def import_without_torchvision() -> None:
    """Import streaming with stubs for torchvision, which only its readers of public datasets use."""
    # transformers, which streaming imports, checks for torchvision; import it before the stubs exist.
    import transformers.feature_extraction_utils  # noqa: F401

    names = ("torchvision", "torchvision.transforms", "torchvision.transforms.functional", "torchvision.datasets")
    sys.modules |= {name: ModuleType(name) for name in names}
    vars(sys.modules["torchvision.datasets"])["VisionDataset"] = object
    vars(sys.modules["torchvision.transforms.functional"])["to_tensor"] = None
    import streaming  # noqa: F401

    for name in names:
        del sys.modules[name]


def loader(arguments: Namespace, copy: Path) -> Any:
    from streaming import StreamingDataLoader, StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    class Captions(StreamingDataset):  # type: ignore[misc]  # untyped
        def __getitem__(self, index: Any) -> dict[str, Any]:
            sample: dict[str, Any] = super().__getitem__(index)
            sample["image"] = picture_tensor(sample["image"])
            return sample

    clean_stale_shared_memory()
    dataset = (StreamingDataset if arguments.kind == "json" else Captions)(
        remote=arguments.url, local=str(copy), shuffle=True, shuffle_seed=0, batch_size=BATCH_SIZE
    )
    return StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=arguments.workers, collate_fn=list)


def contents(batch: Any) -> list[tuple[str, torch.Tensor | None]]:
    return [(sample["text"], sample.get("image")) for sample in batch]


def convert(kind: str, folder: Path, copy: Path) -> None:
    """Write the samples in its format, unless an earlier run did."""
    from streaming import MDSWriter

    if (copy / "index.json").exists():
        return
    with MDSWriter(out=str(copy), columns=COLUMNS[kind], size_limit=SHARD_BYTES, exist_ok=True) as writer:
        for parts in read_samples(folder):
            if kind == "json":
                writer.write(json.loads(parts["json"]))
            else:
                writer.write({"image": parts["jpg"], "text": parts["txt"].decode()})


if __name__ == "__main__":
    main()
