"""Load a copy of the samples in a table of LanceDB with its ``StreamingDataset``.

usage: python benchmarks/load_lancedb.py convert|throughput|first KIND FOLDER …

The copy is in ``FOLDER-lancedb``. It stores texts as strings, without json to decode, and pictures as JPEG. Pillow
decodes them in the dataset's transform, which runs in its threads.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import torch
from lancedb.streaming import StreamingDataset
from load_data import read_samples
from load_work import BATCH_SIZE, arguments_of_script, first_or_throughput, picture_tensor

TABLE = "samples"
SCHEMAS = {
    "json": pa.schema({"id": pa.string(), "text": pa.string()}),
    "captions": pa.schema({"image": pa.binary(), "text": pa.string()}),
}
ROWS_OF_BATCH = 1000
COMPLETE = "complete"  # a file next to the table


def main() -> None:
    arguments = arguments_of_script(("convert", "throughput", "first"))
    copy = arguments.folder.with_name(arguments.folder.name + "-lancedb")
    if arguments.task == "convert":
        convert(arguments.kind, arguments.folder, copy)
        return
    first_or_throughput(lambda: loader(arguments, copy), arguments, contents)


def loader(arguments: Namespace, copy: Path) -> Any:
    dataset = StreamingDataset(
        lancedb.connect(copy).open_table(TABLE),
        num_splits=max(1, arguments.workers),
        shuffle_seed=0,
        transform=decoded if arguments.kind == "captions" else None,
    )
    context = "spawn" if arguments.workers else None  # its threads do not survive a fork
    return torch.utils.data.DataLoader(
        dataset, batch_size=BATCH_SIZE, num_workers=arguments.workers, collate_fn=list, multiprocessing_context=context
    )


def decoded(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [sample | {"image": picture_tensor(sample["image"])} for sample in batch.to_pylist()]


def contents(batch: Any) -> list[tuple[str, torch.Tensor | None]]:
    return [(sample["text"], sample.get("image")) for sample in batch]


def convert(kind: str, folder: Path, copy: Path) -> None:
    """Write the samples into a table, unless an earlier run did."""
    if not (copy / COMPLETE).exists():
        table = batches(kind, folder)
        lancedb.connect(copy).create_table(TABLE, table, schema=SCHEMAS[kind], mode="overwrite")
        (copy / COMPLETE).touch()


def batches(kind: str, folder: Path) -> Iterator[pa.RecordBatch]:
    rows: list[dict[str, Any]] = []
    for parts in read_samples(folder):
        rows.append(
            json.loads(parts["json"]) if kind == "json" else {"image": parts["jpg"], "text": parts["txt"].decode()}
        )
        if len(rows) == ROWS_OF_BATCH:
            yield pa.RecordBatch.from_pylist(rows, SCHEMAS[kind])
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, SCHEMAS[kind])


if __name__ == "__main__":
    main()
