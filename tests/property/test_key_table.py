"""The table of keys: runs merge into what a plain sort gives, in pieces of any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.errors import FormatError
from loader.format.key_table import KeyRuns, equal_neighbours, merge_runs
from loader.format.npy_column import create_column, map_column
from loader.storage import LocalStorage

TOP = (1 << 64) - 1
hashes = st.sampled_from([0, 1, 2, TOP // 3, TOP // 2, TOP // 2 + 1, TOP - 1, TOP]) | st.integers(0, TOP)


def runs_of(parts: list[list[int]]) -> KeyRuns:
    ends = np.cumsum([len(part) for part in parts]).tolist()
    rows = [value for part in parts for value in sorted(part)]
    return KeyRuns(np.array(rows, dtype=np.uint64), np.arange(len(rows), dtype=np.uint64), ends)


@given(st.lists(st.lists(hashes, max_size=8), max_size=5), st.integers(1, 12))
def test_merged_runs_are_what_a_stable_sort_gives(parts, rows_at_once):
    runs = runs_of(parts)
    pieces = list(merge_runs(runs, rows_at_once=rows_at_once))
    order = np.argsort(runs.hashes, kind="stable")
    assert np.concatenate([piece for piece, _ in pieces]).tolist() == runs.hashes[order].tolist()
    assert np.concatenate([piece for _, piece in pieces]).tolist() == runs.samples[order].tolist()
    seen: set[int] = set()
    for piece, _ in pieces:
        assert seen.isdisjoint(piece.tolist())  # equal hashes are in one piece
        seen.update(piece.tolist())


def test_pieces_hold_about_as_many_rows_as_asked_for():
    chance = np.random.default_rng(5)
    runs = runs_of([chance.integers(0, TOP, 1000, dtype=np.uint64).tolist() for _ in range(4)])
    lengths = [len(piece) for piece, _ in merge_runs(runs, rows_at_once=100)]
    assert len(lengths) == 40
    assert max(lengths) < 200


@given(st.lists(st.integers(0, 4), max_size=12).map(sorted))
def test_equal_neighbours_are_all_the_ranges_of_one_value(values):
    ranges = equal_neighbours(np.array(values, dtype=np.uint64))
    expected = [
        (values.index(v), values.index(v) + values.count(v)) for v in sorted(set(values)) if values.count(v) > 1
    ]
    assert ranges == expected


@given(
    st.sampled_from(["<u8", "<u4", "<u1"]),
    st.lists(st.lists(st.integers(0, 255), max_size=20), max_size=5),
)
def test_a_column_reads_back_as_it_was_written(tmp_path, dtype, pieces):
    storage = LocalStorage(tmp_path)
    with create_column(storage, "c.npy", dtype) as column:
        for piece in pieces:
            column.append(np.array(piece, dtype=np.int64))
    mapped = map_column(storage, "c.npy", dtype)
    assert mapped.tolist() == [value for piece in pieces for value in piece]
    assert mapped.dtype == np.dtype(dtype)
    assert not mapped.flags.writeable
    assert np.load(tmp_path / "c.npy").tolist() == mapped.tolist()


def test_a_column_that_fails_leaves_no_file(tmp_path):
    def write_half() -> None:
        with create_column(LocalStorage(tmp_path), "c.npy", "<u8") as column:
            column.append(np.arange(3))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(FormatError, match="cannot map this column") as caught:
        map_column(LocalStorage(tmp_path), "c.npy", "<u8")
    assert caught.value.shard == str(tmp_path / "c.npy")
