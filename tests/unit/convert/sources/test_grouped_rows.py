"""Rows of a table that share the value of a column are one sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from loader.convert.importing import list_rows
from loader.convert.sources.detect import open_source
from loader.convert.sources.files import FilesSource
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError
from tests.imports import imported, picture


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    folder = tmp_path / "data" / "img"
    folder.mkdir(parents=True)
    for number in range(12):
        (folder / f"{number}.jpg").write_bytes(picture(number))
    return [
        {"id": n, "image": f"img/{n % 12}.jpg", "label": ["cat", "dog"][n % 2], "caption": f"c {n}"} for n in range(30)
    ]


def open_grouped(path: Path, column: str, **options: Any) -> Any:
    return open_source(str(path), kind=None, options=SourceOptions(group_column=column, **options))


@pytest.mark.parametrize("form", ["table", "folder"])
def test_rows_of_one_picture_are_a_list_in_the_order_of_the_table(
    form: str, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    lines = [",".join(map(str, row.values())) for row in rows]
    (tmp_path / "data" / "boxes.csv").write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    path = tmp_path / "data" / ("boxes.csv" if form == "table" else "")
    samples, report = imported(open_grouped(path, "image"), tmp_path / "out")
    assert len(samples) == 12
    with list_rows((open_grouped(path, "image"),), shuffled=False) as listed:
        assert "30 rows are 12 samples, one for each value of the column" in listed.notes
    assert report.account.is_complete
    assert samples["img/3"]["jpg"] == picture(3)
    assert json.loads(samples["img/3"]["json"]) == [
        {name: value for name, value in rows[n].items() if name != "image"} for n in (3, 15, 27)
    ]


def test_rows_with_other_files_and_splits_lose_nothing(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    chosen = [
        {"thing": "a", "image": {"bytes": picture(0), "path": None}, "split": "train"},
        {"thing": None, "image": {"bytes": picture(1), "path": None}, "split": "train"},
        {"thing": "a", "image": {"bytes": picture(2), "path": None}, "split": "train"},
        {"thing": "a", "image": {"bytes": picture(0), "path": None}, "split": "test"},
    ]
    parquet.write_table(pa.Table.from_pylist(chosen), tmp_path / "t.parquet")
    samples, _ = imported(open_grouped(tmp_path / "t.parquet", "thing"), tmp_path / "out")
    assert {key: sorted(parts) for key, parts in samples.items()} == {
        "a": ["2.jpg", "jpg", "json"],
        "000000001": ["jpg", "json"],
        "a-2": ["jpg", "json"],
    }
    assert json.loads(samples["a"]["json"]) == [{"thing": "a"}, {"thing": "a"}]


def test_a_group_needs_rows_of_a_table_with_the_column(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    source = open_grouped(tmp_path / "data", "image")
    assert isinstance(source, FilesSource)
    with pytest.raises(ConfigError, match="--group-by column:image: the samples are not rows of a table"):
        imported(source, tmp_path / "out")
    (tmp_path / "t.csv").write_text("image,text\ndata/img/0.jpg,a\n")
    with pytest.raises(ConfigError, match="no column 'picture'"):
        imported(open_grouped(tmp_path / "t.csv", "picture"), tmp_path / "out")
    with pytest.raises(ConfigError, match="omit one of them"):
        imported(open_grouped(tmp_path / "t.csv", "image", parts={"jpg": "image"}), tmp_path / "out")
    (tmp_path / "x.bin").write_bytes(b"")
    with pytest.raises(ConfigError, match="a source of the kind 'tokens' has no columns"):
        open_grouped(tmp_path / "x.bin", "image")
