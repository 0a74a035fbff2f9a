"""Datasets of several kinds, and metadatasets that mix them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from loader.format.jsonl.index import prepare_jsonl
from loader.storage import open_storage
from tests.e2e.dataset_tree import prepare, write_shard
from tests.e2e.text_dataset import CRUDE, write_texts


@dataclass(frozen=True)
class MixedData:
    """Prepared datasets, with the numbers of their training samples."""

    folder: Path
    texts: Path  # 0 to 156; 157 to 217 for validation
    more: Path  # 5000 to 5039; 5040 to 5044 for validation
    crude: Path  # 7000 to 7029
    lines: Path  # 9000 to 9022, a JSONL file
    pictures: Path  # the parts ``<number>.raw`` of 7000 to 7029, in other shards than those of crude
    notes: Path  # a folder of files ``<number>.txt`` for the same

    def write(self, name: str, splits: dict[str, Any]) -> Path:
        """Write a metadataset into the folder of the datasets."""
        return write_metadataset(self.folder / name, splits)


def write_metadataset(path: Path, splits: dict[str, Any]) -> Path:
    document = {"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": splits}
    path.write_text(yaml.safe_dump(document))
    return path


def write_mixed_data(folder: Path) -> MixedData:
    data = MixedData(
        folder=folder,
        texts=write_texts(folder / "texts"),
        more=write_texts(folder / "more", train=(9, 31), val=(5,), first=5000),
        crude=write_texts(folder / "crude", train=(11, 19), val=(3,), first=7000, config=CRUDE),
        lines=folder / "lines.jsonl",
        pictures=folder / "pictures",
        notes=folder / "notes",
    )
    texts = [json.dumps({"id": number, "text": f"text {number}"}) for number in range(9000, 9023)]
    data.lines.write_text("\n".join(texts) + "\n")
    prepare_jsonl(open_storage(folder), data.lines.name)
    for shard, numbers in enumerate((range(7020, 7033), range(7000, 7020))):
        samples = {f"{number:05d}": {"raw": b"picture %d" % number} for number in numbers}
        write_shard(data.pictures / f"{shard}.tar", samples)
    prepare(data.pictures)
    data.notes.mkdir()
    for number in range(7000, 7033):
        (data.notes / f"{number:05d}.txt").write_text(f"note {number}")
    return data
