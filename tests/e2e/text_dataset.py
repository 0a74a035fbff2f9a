"""Small prepared dataset of texts, in shards of different sizes, split for training and validation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare, write_shard

TEXT = "sample_type: {__module__: megatron.energon, __class__: TextSample}\nfield_map: {text: txt}\n"
CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"

_SPLIT = SplitRequest(patterns=(("train", "train_.*"), ("val", "val_.*")))


def write_texts(
    folder: Path,
    *,
    train: Sequence[int] = (41, 13, 1, 57, 30, 15),
    val: Sequence[int] = (20, 1, 40),
    first: int = 0,
    config: str = TEXT,
) -> Path:
    """Write and prepare a dataset; the text of sample n is ``"text n"``.

    Args:
        folder: The folder to create.
        train: Number of samples of each training shard.
        val: Number of samples of each validation shard.
        first: The number of the first sample.
        config: Content of ``dataset.yaml``.
    """
    for part, sizes in (("train", train), ("val", val)):
        for shard, size in enumerate(sizes):
            samples = {f"{number:05d}": {"txt": b"text %d" % number} for number in range(first, first + size)}
            write_shard(folder / f"{part}_{shard}.tar", samples)
            first += size
    prepare(folder, split=_SPLIT, files={"dataset.yaml": config})
    return folder


def exclude(folder: Path, *names: str) -> None:
    """Set the excluded samples, each as ``shard/key``."""
    path = folder / ".nv-meta/split.yaml"
    split = yaml.safe_load(path.read_text())
    split["exclude"] = list(names)
    path.write_text(yaml.safe_dump(split))
