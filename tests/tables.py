"""Write folders of JSONL and Parquet files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

CRUDE_YAML = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


def row(number: int) -> dict[str, Any]:
    """Return the row of a number: columns of several types."""
    return {
        "id": number,
        "text": f"text {number}",
        "image": b"\xff%d" % number,
        "turns": [{"role": "user", "n": number}],
    }


def write_rows(path: Path, numbers: Sequence[int], *, group: int = 7) -> Path:
    """Write the rows of some numbers to a Parquet file, in row groups of ``group`` rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist([row(number) for number in numbers]), path, row_group_size=group)
    return path


def write_lines(path: Path, numbers: Sequence[int]) -> Path:
    """Write a JSONL file with a line for each number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": number, "text": f"text {number}"}) + "\n" for number in numbers))
    return path


def prepare_parts(folder: Path, parts: dict[str, int]) -> Path:
    """Prepare a folder; each split part gets some of its files, in order."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".jsonl", ".parquet"))
    split = {}
    for part, count in parts.items():
        split[part], names = tuple(names[:count]), names[count:]
    run_prepare(PreparePlan(path=str(folder), split=SplitRequest(parts=split), files={"dataset.yaml": CRUDE_YAML}))
    return folder
