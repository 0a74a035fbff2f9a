"""Lists of numbers in Arrow tables become arrays that keep their type, such as tokens and embeddings."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from loader.convert.rows.row import CellRef, ValueRef
from loader.convert.sources.detect import open_source
from loader.convert.sources.source import Listing
from loader.convert.tables.source_options import SourceOptions
from tests.unit.convert.sources.imported import faults_of, import_source, load, rows_of

ROWS = 9
VALUES: dict[str, list[Any]] = {
    "input_ids": [[*range(n)] for n in range(ROWS)],
    "mask": [None if n == 3 else [1] * n for n in range(ROWS)],
    "vector": [[0.1 * n] * 17 for n in range(ROWS)],
    "halves": [[n / 2] * 17 for n in range(ROWS)],
    "tags": [[0, 1]] * ROWS,
}
TYPES = {"input_ids": pa.int32(), "mask": pa.uint8(), "vector": pa.float32(), "halves": pa.float16(), "tags": None}


def write(path: Path) -> str:
    if path.name == "saved":
        kinds = {name: np.dtype(type_.to_pandas_dtype()).name for name, type_ in TYPES.items() if type_}
        datasets = import_module("datasets")  # takes a second, which those who only collect tests need not wait
        features = {name: datasets.Sequence(datasets.Value(kind)) for name, kind in kinds.items()}
        features["tags"] = datasets.Sequence(datasets.ClassLabel(names=["a", "b"]))
        datasets.Dataset.from_dict(VALUES, features=datasets.Features(features)).save_to_disk(str(path))
        return str(path)
    lists = {"mask": pa.large_list, "vector": lambda type_: pa.list_(type_, 17)}
    fields = {name: lists.get(name, pa.list_)(type_) for name, type_ in TYPES.items() if type_}
    columns = {name: pa.array(VALUES[name], type_) for name, type_ in fields.items()}
    table = pa.table({**columns, "tags": pa.array([["a", "b"]] * ROWS)})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=4)
    else:
        with ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=4)
    return str(path)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "saved"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_lists_of_numbers_are_arrays_of_their_type(name: str, shuffled: bool, tmp_path: Path) -> None:
    source = open_source(write(tmp_path / name), kind=None, options=SourceOptions())
    cells = source.open_cells()
    rows = [*source.rows(Listing(shuffled=shuffled))]
    for at, row in enumerate(rows):
        names = {f"{name}.npy" for name in ("input_ids", "mask", "vector", "halves")} - (
            {"mask.npy"} if at == 3 else set()
        )
        assert {*row.parts} == names | {"json"}
        for part in names:
            ref, column = row.parts[part], part.removesuffix(".npy")
            data = cells.read(ref) if isinstance(ref, CellRef) else ref.data if isinstance(ref, ValueRef) else b""
            assert isinstance(data, bytes)
            array = np.load(io.BytesIO(data), allow_pickle=False)
            expected = np.array(VALUES[column][at], TYPES[column].to_pandas_dtype())
            assert (array.dtype, array.tolist()) == (expected.dtype, expected.tolist())
    assert len(rows) == ROWS
    cells.close()


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize(
    ("last", "part"), [([1.5, 2, 3, 4], "json"), (None, "json"), ([1, None, 3, 4], "json"), ([1, 2, 3], "bbox.npy")]
)
def test_short_lists_are_in_json_if_all_of_them_have_one_length(
    name: str, last: list[float] | None, part: str, tmp_path: Path
) -> None:
    boxes = [*([n, 0.5, 1, 2] for n in range(200)), last]
    table = pa.table({"id": [f"r{n}" for n in range(201)], "bbox": pa.array(boxes, pa.list_(pa.float64()))})
    if name == "t.parquet":
        parquet.write_table(table, tmp_path / name, row_group_size=40)
    else:
        with ipc.new_file(tmp_path / name, table.schema) as file:
            file.write_table(table, max_chunksize=40)
    source = open_source(str(tmp_path / name), kind=None, options=SourceOptions())
    import_source(source, tmp_path / "out")
    samples = load(tmp_path / "out", 201)
    assert {name for name in samples["r7"] if not name.startswith("__")} == {part}
    if part == "json":
        assert (samples["r7"]["json"], samples["r200"]["json"]) == ({"bbox": boxes[7]}, {"bbox": last})


def test_a_list_with_null_among_its_numbers_fails_unless_it_is_written_as_json(tmp_path: Path) -> None:
    parquet.write_table(
        pa.table({"ids": pa.array([[1, None], [2, 3, 4]], pa.list_(pa.int64()))}), tmp_path / "t.parquet"
    )
    source = open_source(str(tmp_path / "t.parquet"), kind=None, options=SourceOptions())
    assert import_source(source, tmp_path / "out", max_failures=1).failed == 1
    named = open_source(str(tmp_path / "t.parquet"), kind=None, options=SourceOptions(parts={"ids.json": "ids"}))
    assert faults_of(rows_of(named)) == {}
    import_source(named, tmp_path / "named")
    assert [sample["ids.json"] for sample in load(tmp_path / "named", 2).values()] == [[1, None], [2, 3, 4]]
