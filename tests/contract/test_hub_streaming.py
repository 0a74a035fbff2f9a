"""``datasets`` streams from the hub of the tests, as it does from the hub."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from tests.hub_server import HubServer, hub_server

_PROGRAM = """
import datasets
for name in ("cats/tars", "cats/tables"):
    rows = list(datasets.load_dataset(name, split="train", streaming=True))
    print(name, len(rows), sorted(rows[0]))
"""


def add_repositories(hub: HubServer) -> None:
    """Add 20 samples in two tars of WebDataset, and as rows of two tables."""
    files: dict[str, bytes | Path | None] = {}
    tables: dict[str, bytes | Path | None] = {}
    for shard in range(2):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            for number in range(10):
                for suffix, data in (("txt", b"a cat"), ("json", b"{}")):
                    member = tarfile.TarInfo(f"{shard}{number:04}.{suffix}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        files[f"train-{shard:04}.tar"] = file.getvalue()
        file = io.BytesIO()
        parquet.write_table(pa.table({"text": ["a cat"] * 10, "number": range(10)}), file)
        tables[f"data/train-{shard:05}-of-00002.parquet"] = file.getvalue()
    hub.create("datasets", "cats/tars").commit(files)
    hub.create("datasets", "cats/tables", xet=True).commit(tables)


def test_tars_and_tables_are_streamed(tmp_path: Path) -> None:
    with hub_server() as hub:
        add_repositories(hub)
        variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_TELEMETRY": "1"}
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            check=False,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout.splitlines() == [
            "cats/tars 20 ['__key__', '__url__', 'json', 'txt']",
            "cats/tables 20 ['number', 'text']",
        ], done.stderr
        assert hub.count(kind="cdn")
