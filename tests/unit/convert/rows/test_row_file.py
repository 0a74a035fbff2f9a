"""Rows in a file come back as they were added, with keys of their own."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from loader.convert.rows.row import CellRef, FileRef, RangeRef, Row, ValueRef
from loader.convert.rows.row_file import RowFileWriter
from loader.errors import StorageError

ROWS = [
    Row(key="a", parts={"jpg": FileRef(b"/x/\xff.jpg", 10, "1"), "txt": ValueRef(b"text")}, origin="t.csv, line 2"),
    Row(key="a", parts={"jpg": RangeRef(b"/x/s.tar", 512, 600)}, split="val"),
    Row(key="b", parts={"png": CellRef(7, "image")}, source=3),
]


def test_rows_come_back(tmp_path: Path) -> None:
    with RowFileWriter(str(tmp_path / "rows")) as writer:
        writer.add(ROWS)
        rows = writer.finish()
    rows = pickle.loads(pickle.dumps(rows))  # as a worker gets them
    assert [rows[number] for number in range(3)] == ROWS
    assert [rows.key(number, rows[number].key) for number in range(3)] == ["a", "a-2", "b"]
    assert rows.sizes.tolist() == [512 + 512 + 512 + 512, 512 + 1024, -1]
    assert [rows.split_names[split] for split in rows.splits.tolist()] == ["", "val", ""]


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="write"):
        RowFileWriter(str(tmp_path / "missing/rows"))
