"""Filters: the files that are built, and what is refused when they are opened."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loader import EPath, build_filter_index, build_filter_index_from_shard_indexes
from loader.dataset import split_parts
from loader.dataset.opening import folder_at
from loader.errors import ConfigError, EnergonError, FormatError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.format.filters.rows import (
    FilteredShard,
    FilterFiles,
    FilterRows,
    filter_names,
    open_file_filter,
    open_filter,
)
from loader.format.jsonl.index import prepare_jsonl
from loader.lint.report import LintPlan
from loader.lint.run import lint_dataset
from loader.storage import open_storage
from tests.e2e.dataset_tree import prepare, write_shards
from tests.tables import write_rows
from tests.token_files import numbered, write_tokens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six shards of three samples, numbered 0 to 17."""
    write_shards(tmp_path / "ds")
    prepare(tmp_path / "ds")
    return tmp_path / "ds"


def kept(folder: Path, name: str) -> list[int]:
    rows = split_parts.open_filter(folder_at(folder), name)
    found: list[int] = rows.numbers(np.arange(len(rows))).tolist()
    return found


def record(folder: Path, name: str = "odd") -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / f".nv-meta/filter_{name}.json").read_text())
    return found


def test_files_hold_numbers_and_the_counts_of_shards(folder: Path) -> None:
    build_filter_index(EPath(folder), "odd", [17, 1, 3])
    data = (folder / ".nv-meta/filter_odd.idx").read_bytes()
    assert np.frombuffer(data, "<u8").tolist() == [1, 3, 17]
    counts = dict.fromkeys([f"shard_{n:03}.tar" for n in range(6)], 0)
    counts |= {"shard_000.tar": 1, "shard_001.tar": 1, "shard_005.tar": 1}
    assert record(folder) == {"format_version": 1, "shard_counts": counts}
    assert filter_names(open_storage(folder)) == ["odd"]


def test_numbers_may_be_given_in_several_ways(folder: Path) -> None:
    build_filter_index(folder, "array", np.array([2, 9, 16], np.uint64))
    build_filter_index(folder, "small", np.array([16, 9, 2], np.int8))
    build_filter_index(folder, "iterator", iter([9, 2, 16]))
    build_filter_index(folder, "some", [2, 3, 7], shards=["shard_005.tar", "shard_000.tar", "shard_002.tar"])
    build_filter_index(folder, "counted", [2, 4], shards={"shard_003.tar": 3, "shard_001.tar": 3})
    build_filter_index_from_shard_indexes(
        folder, "local", {"shard_005.tar": [1], "shard_000.tar": np.array([2]), "shard_003.tar": []}
    )
    build_filter_index(folder, "none", [])
    assert kept(folder, "array") == kept(folder, "small") == kept(folder, "iterator") == [2, 9, 16]
    assert kept(folder, "some") == [0, 7, 17]
    assert kept(folder, "counted") == [4, 11]
    assert kept(folder, "local") == [2, 16]
    assert kept(folder, "none") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("odd", [1, 18]), "there is no sample 18 among the 18 of the dataset"),
        (("odd", [-1, 2]), "there is no sample -1"),
        (("odd", np.array([1, 2**64 - 1], np.uint64)), "there is no sample -1"),
        (("odd", [4, 2, 4]), "sample 4 comes twice"),
        (("odd", [0.5]), "expected the numbers of samples, found an array of float64"),
        (("../odd", [1]), "expected the name of a filter, found '../odd'"),
        (("odd", [1], ["shard_0.tar"]), "there is no shard 'shard_0.tar'; did you mean 'shard_00"),
        (("odd", [1], {"shard_000.tar": 4}), "expected 4 samples in shard 'shard_000.tar', found 3"),
        (("odd", [3], ["shard_001.tar"]), "there is no sample 3 among the 3 of these shards"),
    ],
)
def test_wrong_numbers_are_refused(folder: Path, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        build_filter_index(folder, *arguments)  # type: ignore[arg-type]
    assert not list(folder.glob(".nv-meta/filter_*"))


def test_numbers_within_shards_are_checked(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no sample 3 among the 3 of shard 'shard_001\.tar'"):
        build_filter_index_from_shard_indexes(folder, "odd", {"shard_001.tar": [3]})
    with pytest.raises(ConfigError, match="there is no shard 'x'"):
        build_filter_index_from_shard_indexes(folder, "odd", {"x": [0]})


def test_a_folder_must_be_prepared(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is not a prepared dataset"):
        build_filter_index(tmp_path, "odd", [1])


def test_a_filter_of_a_jsonl_file_is_next_to_it(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    prepare_jsonl(open_storage(tmp_path), file.name)
    build_filter_index(EPath(file), "good", [2, 0])
    assert sorted(path.name for path in tmp_path.glob("*good*")) == ["lines.jsonl.good.idx", "lines.jsonl.good.json"]
    assert json.loads((tmp_path / "lines.jsonl.good.json").read_text())["shard_counts"] == {"lines.jsonl": 2}


@pytest.mark.parametrize("name", ["tokens#1.bin", "tokens#1", "rows.parquet"])
def test_a_filter_of_tokens_or_rows_is_next_to_the_file(tmp_path: Path, name: str) -> None:
    write_tokens(tmp_path / "tokens#1", numbered(3))
    write_rows(tmp_path / "rows.parquet", range(3))
    build_filter_index(tmp_path / name, "good", [2, 0])
    file = name if "." in name else f"{name}.bin"
    assert json.loads((tmp_path / f"{file}.good.json").read_text())["shard_counts"] == {file: 2}
    assert open_file_filter(open_storage(tmp_path), file, "good", 3).numbers(np.arange(2)).tolist() == [0, 2]


def break_json(text: str) -> object:
    return lambda meta: (meta / "filter_odd.json").write_text(text)


def drop_shard(meta: Path) -> None:
    info = json.loads((meta / "filter_odd.json").read_text())
    info["shard_counts"].pop("shard_000.tar")
    (meta / "filter_odd.json").write_text(json.dumps(info))


def count_in_first_shard(count: int) -> object:
    def change(meta: Path) -> None:
        info = json.loads((meta / "filter_odd.json").read_text())
        info["shard_counts"]["shard_000.tar"] = count
        (meta / "filter_odd.json").write_text(json.dumps(info))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda meta: (meta / "filter_odd.idx").unlink(), "this file is missing"),
        (lambda meta: (meta / "filter_odd.idx").write_bytes(b"\1" * 16), "expected 24 bytes, .* found 16"),
        (break_json("{"), "it is not JSON"),
        (break_json("[]"), "it is not a mapping"),
        (break_json('{"format_version": 2}'), "expected format_version 1, found 2"),
        (break_json('{"format_version": 1, "shard_counts": {"a": -1}}'), "expected 'shard_counts'"),
        (count_in_first_shard(2**64), "expected at most"),
        (count_in_first_shard(2**62), "expected at most"),
        (break_json('{"format_version": 1, "shard_counts": {"a": 1}}'), "it has shards that the dataset does not"),
        (drop_shard, "it lacks shards of the dataset: 'shard_000.tar'"),
        (
            lambda meta: np.array([1, 2, 3], "<u8").tofile(meta / "filter_odd.idx"),
            r"its rows of shard 'shard_001\.tar' are not among the shard's samples",
        ),
    ],
)
def test_damaged_and_stale_filters_are_refused(folder: Path, damage: object, message: str) -> None:
    build_filter_index(folder, "odd", [1, 3, 17])
    damage(folder / ".nv-meta")  # type: ignore[operator]
    with pytest.raises(FormatError, match=message) as caught:
        split_parts.open_filter(folder_at(folder), "odd")
    assert "filter_odd" in str(caught.value.shard)
    assert "build_filter_index" in str(caught.value.hint)
    report = lint_dataset(LintPlan(ref=DatasetRef(str(folder)), level="headers", workers=1))
    assert [finding.code for finding in report.findings if finding.code == "E206"] == ["E206"]


def test_lint_checks_every_row(folder: Path) -> None:
    build_filter_index(folder, "odd", [6, 7, 8])
    np.array([6, 6, 8], "<u8").tofile(folder / ".nv-meta/filter_odd.idx")
    report = lint_dataset(LintPlan(ref=DatasetRef(str(folder)), level="headers", workers=1))
    assert [finding.message for finding in report.findings if finding.code == "E206"] == [
        "the filter 'odd' is damaged or stale: its numbers do not ascend"
    ]


def test_a_missing_filter_names_the_existing_ones(folder: Path) -> None:
    build_filter_index(folder, "odd", [1])
    with pytest.raises(ConfigError, match="there is no filter 'even'; there are: odd"):
        split_parts.open_filter(folder_at(folder), "even")


def test_a_filter_of_a_dataset_that_another_tool_prepared_again_is_stale(folder: Path) -> None:
    build_filter_index(folder, "odd", [1, 17])
    info = folder / ".nv-meta/.info.json"
    document = json.loads(info.read_text())
    del document["shard_counts"]["shard_003.tar"]
    info.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="stale: it has shards that the dataset does not have: 'shard_003"):
        split_parts.open_filter(folder_at(folder), "odd")


@pytest.fixture
def reordered(tmp_path: Path) -> FilterRows:
    """A filter of shards a (4 samples), b (0) and c (3), which the index has in the order c, b, a."""
    files = FilterFiles.of_dataset(open_storage(tmp_path), "odd")
    (tmp_path / ".nv-meta").mkdir()
    files.write({"a": 2, "b": 0, "c": 2}, iter([np.array([1, 3, 4, 6], "<u8")]))
    shards = [FilteredShard("a", 4, 3), FilteredShard("b", 0, 3), FilteredShard("c", 3, 0)]
    return open_filter(files, shards)


def test_the_index_may_have_the_shards_in_another_order(reordered: FilterRows) -> None:
    assert [reordered.rows_of(shard) for shard in "abc"] == [range(2), range(2, 2), range(2, 4)]
    assert reordered.numbers(np.arange(4)).tolist() == [4, 6, 0, 2]
    assert reordered.keeps(np.arange(7)).tolist() == [True, False, True, False, True, False, True]
    assert reordered.find(np.array([0, 1, 4, 5])).tolist() == [0, 2]


def test_rows_beyond_the_dataset_are_refused_when_they_are_read(tmp_path: Path) -> None:
    files = FilterFiles.of_dataset(open_storage(tmp_path), "odd")
    (tmp_path / ".nv-meta").mkdir()
    files.write({"a": 3}, iter([np.array([1, 2**63 + 5, 3], "<u8")]))
    rows = open_filter(files, [FilteredShard("a", 4, 0)])
    with pytest.raises(EnergonError, match="it has samples that the dataset does not have"):
        rows.numbers(np.arange(3))
