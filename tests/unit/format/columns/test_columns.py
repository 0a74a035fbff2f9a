"""Columns of a dataset: values for each sample, which stay right when the dataset is prepared again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from loader.dataset.opening import folder_at
from loader.errors import ConfigError, FormatError
from loader.format.columns.column import Column
from loader.format.columns.column_files import open_column, write_column
from loader.format.columns.column_record import column_names
from loader.prepare.plan import PreparePlan, PrepareReport
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import RATIO, caption_samples, shard_path, write_shard, write_shards
from tests.tables import write_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_shards(tmp_path / "ds", 4)
    prepare(folder)
    return folder


def prepare(folder: Path) -> PrepareReport:
    return run_prepare(PreparePlan(path=str(folder), split=RATIO, compat=False))


def write(folder: Path, name: str, values: npt.NDArray[np.generic], **options: object) -> None:
    opened = folder_at(folder)
    write_column(opened.storage, opened.index, name, values, **options)  # type: ignore[arg-type]


def read(folder: Path, name: str) -> Column:
    opened = folder_at(folder)
    return open_column(opened.storage, opened.index, name)


def values_by_key(folder: Path, name: str) -> dict[str, object]:
    opened, column = folder_at(folder), read(folder, name)
    return {opened.index.full_key(sample): column.value(sample) for sample in range(len(opened.index))}


def samples(folder: Path) -> int:
    return len(folder_at(folder).index)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "?", ">i4"])
def test_values_of_each_type_are_read_as_they_were_written(folder: Path, dtype: str) -> None:
    expected = (np.arange(samples(folder)) % 100).astype(dtype)
    write(folder, "x", expected, unit="pixels", description="some numbers", made_by="a test")
    column = read(folder, "x")
    assert column.values.tolist() == expected.tolist()
    assert column.values.dtype == expected.dtype.newbyteorder("<")
    assert (column.record.unit, column.record.description, column.record.made_by) == (
        "pixels",
        "some numbers",
        "a test",
    )


def test_samples_without_a_value_and_categories_are_known(folder: Path) -> None:
    count = samples(folder)
    write(folder, "mode", np.arange(count) % 3 - 1, missing=-1, categories=["RGB", "L"])
    assert [read(folder, "mode").value(sample) for sample in range(3)] == [None, "RGB", "L"]
    write(folder, "score", np.where(np.arange(count) == 1, np.nan, 0.5))
    assert [read(folder, "score").value(sample) for sample in range(3)] == [0.5, None, 0.5]
    assert read(folder, "score").is_known().sum() == count - 1


def test_columns_are_listed_and_replaced(folder: Path) -> None:
    storage = folder_at(folder).storage
    assert column_names(storage) == []
    for name in ("b", "a"):
        write(folder, name, np.zeros(samples(folder)))
    write(folder, "a", np.ones(samples(folder)))
    assert column_names(storage) == ["a", "b"]
    assert read(folder, "a").values.all()
    with pytest.raises(ConfigError, match=r"there is no column 'c'; known are a, b"):
        read(folder, "c")


@pytest.mark.parametrize("name", ["../x", "", "1a", "a b", "ä", "a.b"])
def test_other_names_are_refused(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="expected the name of a column"):
        write(folder, name, np.zeros(samples(folder)))


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((40, 2)), np.array(["x"] * 40)])
def test_other_values_are_refused(folder: Path, values: npt.NDArray[np.generic]) -> None:
    with pytest.raises(ConfigError, match="numbers or dates for column 'x', found an array of"):
        write(folder, "x", values)


def test_a_second_prepare_keeps_columns(folder: Path) -> None:
    write(folder, "x", np.arange(samples(folder)))
    before = values_by_key(folder, "x")
    assert not prepare(folder).warnings
    assert values_by_key(folder, "x") == before


def test_values_move_with_their_shards(folder: Path) -> None:
    write(folder, "x", np.arange(samples(folder)), missing=7)
    before = values_by_key(folder, "x")
    shard_path(folder, 1).unlink()
    assert not [warning for warning in prepare(folder).warnings if "column" in warning]
    after = values_by_key(folder, "x")
    assert after == {key: value for key, value in before.items() if key in after}
    assert 0 < len(after) < len(before)


def test_a_new_or_changed_shard_drops_columns_with_a_warning(folder: Path) -> None:
    write(folder, "x", np.arange(samples(folder)))
    write_shard(shard_path(folder, 2), caption_samples(90, 3))
    (warning,) = (warning for warning in prepare(folder).warnings if "column" in warning)
    assert warning == (
        f"column 'x' was dropped: 1 of 4 shards are new or changed; write it again: energon stats {folder} --write x"
    )
    assert not list((folder / ".nv-meta/columns").iterdir())


def test_columns_of_folders_of_records_are_kept_or_dropped_too(tmp_path: Path) -> None:
    for number in range(3):
        write_lines(tmp_path / f"part_{number}.jsonl", [*range(4)])
    prepare(tmp_path)
    write(tmp_path, "x", np.arange(12))
    (tmp_path / "part_0.jsonl").unlink()
    prepare(tmp_path)
    assert read(tmp_path, "x").values.tolist() == list(range(4, 12))
    write_lines(tmp_path / "part_7.jsonl", [1])
    assert [warning for warning in prepare(tmp_path).warnings if "column 'x' was dropped" in warning]


def test_columns_of_other_shards_are_refused(folder: Path, tmp_path: Path) -> None:
    write(folder, "x", np.arange(samples(folder)))
    info = folder / ".nv-meta/.info.json"
    document = json.loads(info.read_text())
    other = write_shards(tmp_path / "other", 5)
    prepare(other)
    (folder / ".nv-meta/columns").rename(other / ".nv-meta/columns")
    assert document["shard_counts"]
    with pytest.raises(FormatError, match="column 'x' is damaged or stale: it was written for other shards"):
        read(other, "x")


@pytest.mark.parametrize("damage", ["cut", "longer", "text", "object", "no file", "no json", "other json", "version"])
def test_damaged_files_are_named(folder: Path, damage: str) -> None:
    write(folder, "x", np.arange(samples(folder)))
    npy, record = (folder / f".nv-meta/columns/x{end}" for end in (".npy", ".json"))
    data = npy.read_bytes()
    if damage == "cut":
        npy.write_bytes(data[:-3])
    elif damage == "longer":
        npy.write_bytes(data + b"1")
    elif damage == "text":
        npy.write_text("hello")
    elif damage == "object":
        np.save(npy, np.array([{}] * samples(folder)), allow_pickle=True)
    elif damage == "no file":
        npy.unlink()
    elif damage == "no json":
        record.write_text("{")
    elif damage == "other json":
        record.write_text("[]")
    else:
        record.write_text(record.read_text().replace('"samples"', '"format_version": 2, "samples"'))
    with pytest.raises(FormatError, match="column") as caught:
        read(folder, "x")
    assert "columns/x." in str(caught.value)
    shard_path(folder, 1).unlink()
    (warning,) = (warning for warning in prepare(folder).warnings if "column 'x' was dropped" in warning)
    assert warning.count("column 'x'") == 1
