"""Merged runs of the key table equal a stable sort, in pieces of any size."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from loader.errors import FormatError, StorageError
from loader.format.index import writer as index_writer
from loader.format.index.keys import RunWriter, equal_neighbours, merge_runs
from loader.format.index.npy_column import ColumnReader, create_column, map_column
from loader.format.index.shard_index import index_shard
from loader.storage import LocalStorage, ReadableFile
from tests.malformed.tar_bytes import END, member

TOP = (1 << 64) - 1
hashes = st.sampled_from([0, 1, 2, TOP // 3, TOP // 2, TOP // 2 + 1, TOP - 1, TOP]) | st.integers(0, TOP)


Runs = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], list[int]]
"""Hashes, samples, and the ends of runs."""


def runs_of(parts: list[list[int]]) -> Runs:
    ends = np.cumsum([len(part) for part in parts]).tolist()
    rows = [value for part in parts for value in sorted(part)]
    return np.array(rows, dtype=np.uint64), np.arange(len(rows), dtype=np.uint64), ends


@given(st.lists(st.lists(hashes, max_size=8), max_size=5), st.integers(1, 12))
def test_merged_runs_are_what_a_stable_sort_gives(parts: list[list[int]], rows_at_once: int) -> None:
    runs = runs_of(parts)
    pieces = list(merge_runs(*runs, rows_at_once=rows_at_once))
    hashes, samples, _ = runs
    order = np.argsort(hashes, kind="stable")
    assert np.concatenate([piece for piece, _ in pieces]).tolist() == hashes[order].tolist()
    assert np.concatenate([piece for _, piece in pieces]).tolist() == samples[order].tolist()
    seen: set[int] = set()
    for piece, _ in pieces:
        assert seen.isdisjoint(piece.tolist())  # equal hashes are in one piece
        seen.update(piece.tolist())


class Rows(list[int]):
    """A column in memory."""

    def append(self, values: Any) -> None:
        self.extend(values.tolist())


@given(st.lists(st.lists(hashes, max_size=8), max_size=9), st.integers(1, 12), st.integers(1, 12))
def test_shards_gathered_into_runs_merge_to_what_a_stable_sort_gives(
    shards: list[list[int]], rows_a_run: int, rows_at_once: int
) -> None:
    run_hash, run_sample = Rows(), Rows()
    writer = RunWriter(run_hash.append, run_sample.append, rows_at_once=rows_a_run)
    plain: list[int] = []
    for shard in shards:
        values = np.array(shard, dtype=np.uint64)
        order = np.argsort(values, kind="stable")
        writer.add(values[order], (order + len(plain)).astype(np.uint64))
        plain += shard
    writer.finish_run()
    sizes = np.diff([0, *writer.ends])
    assert (sizes[:-1] >= rows_a_run).all()
    runs = (np.array(run_hash, dtype=np.uint64), np.array(run_sample, dtype=np.uint64), writer.ends)
    pieces = list(merge_runs(*runs, rows_at_once=rows_at_once))
    expected = sorted(range(len(plain)), key=lambda sample: (plain[sample], sample))
    assert [sample for _, piece in pieces for sample in piece.tolist()] == expected


@given(st.lists(hashes, max_size=12), st.data(), st.integers(1, 12))
def test_a_run_that_is_sorted_already_merges_with_the_others(
    values: list[int], data: st.DataObject, rows_at_once: int
) -> None:
    is_kept = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    piece_rows = data.draw(st.integers(1, 5))
    run_hash, run_sample = Rows(), Rows()
    writer = RunWriter(run_hash.append, run_sample.append)
    rows = sorted((value, sample) for sample, value in enumerate(values))
    for sample, value in enumerate(values):
        if not is_kept[sample]:
            writer.add(np.array([value], np.uint64), np.array([sample], np.uint64))
    kept = np.array([row for row in rows if is_kept[row[1]]], np.uint64).reshape(-1, 2)
    pieces = [kept[start : start + piece_rows] for start in range(0, len(kept), piece_rows)]
    writer.add_run((piece[:, 0], piece[:, 1]) for piece in pieces)
    runs = (np.array(run_hash, dtype=np.uint64), np.array(run_sample, dtype=np.uint64), writer.ends)
    merged = list(merge_runs(*runs, rows_at_once=rows_at_once))
    found = [row for hashes, samples in merged for row in zip(hashes.tolist(), samples.tolist(), strict=True)]
    assert found == rows


def test_small_shards_share_a_run() -> None:
    writer = RunWriter(Rows().append, Rows().append)
    for shard in range(3000):
        writer.add(np.arange(1000, dtype=np.uint64), np.arange(1000, dtype=np.uint64) + np.uint64(shard * 1000))
    writer.finish_run()
    assert len(writer.ends) == 3
    assert writer.ends[-1] == 3_000_000


def test_a_run_keeps_nothing_else_of_a_scan_in_memory() -> None:
    writer = RunWriter(Rows().append, Rows().append)
    tracemalloc.start()
    try:
        for shard in range(20):
            scan = bytes(1 << 20)
            writer.add(np.frombuffer(scan, np.uint64, count=100), np.full(100, shard, np.uint64))
            del scan
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 1 << 20


def test_a_dataset_of_small_shards_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.tar").write_bytes(member(b"a.txt", b"") + member(b"b.txt", b"") + END)
    storage = LocalStorage(tmp_path)
    merged = []

    def merge_and_note(
        hashes: ColumnReader, samples: ColumnReader, ends: list[int]
    ) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
        merged.append(ends)
        return merge_runs(hashes, samples, ends)

    monkeypatch.setattr(index_writer, "merge_runs", merge_and_note)
    writer = index_writer.IndexWriter(storage, "index")
    with writer:
        for _ in range(5):
            writer.add(storage.stat("s.tar"), index_shard(storage, "s.tar"))
        _, duplicates = writer.finish(prepared_by="a test")
    assert merged == [[10]]
    assert [(key, samples.tolist()) for key, samples in duplicates.groups] == [
        ("a", [0, 2, 4, 6, 8]),
        ("b", [1, 3, 5, 7, 9]),
    ]


def test_pieces_hold_about_as_many_rows_as_asked_for() -> None:
    chance = np.random.default_rng(5)
    runs = runs_of([chance.integers(0, TOP, 1000, dtype=np.uint64).tolist() for _ in range(4)])
    lengths = [len(piece) for piece, _ in merge_runs(*runs, rows_at_once=100)]
    assert len(lengths) == 40
    assert max(lengths) < 200


@given(st.lists(st.integers(0, 4), max_size=12).map(sorted))
def test_equal_neighbours_are_all_the_ranges_of_one_value(values: list[int]) -> None:
    ranges = equal_neighbours(np.array(values, dtype=np.uint64))
    expected = [
        (values.index(v), values.index(v) + values.count(v)) for v in sorted(set(values)) if values.count(v) > 1
    ]
    assert ranges == expected


@given(
    st.sampled_from(["<u8", "<u4", "<u1"]),
    st.lists(st.lists(st.integers(0, 255), max_size=20), max_size=5),
)
def test_a_column_reads_back_as_it_was_written(tmp_path: Path, dtype: str, pieces: list[list[int]]) -> None:
    storage = LocalStorage(tmp_path)
    with create_column(storage, "c.npy", dtype) as column:
        for piece in pieces:
            column.append(np.array(piece, dtype=np.int64))
    mapped = map_column(storage, "c.npy", dtype)
    assert mapped.tolist() == [value for piece in pieces for value in piece]
    assert mapped.dtype == np.dtype(dtype)
    assert not mapped.flags.writeable
    assert np.load(tmp_path / "c.npy").tolist() == mapped.tolist()


def test_a_column_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def write_half() -> None:
        with create_column(LocalStorage(tmp_path), "c.npy", "<u8") as column:
            column.append(np.arange(3))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot map this column") as caught:
        map_column(LocalStorage(tmp_path), "c.npy", "<u8")
    assert caught.value.shard == str(tmp_path / "c.npy")


@pytest.mark.parametrize("damage", [b"", b"x" * 300, b"<f8", b"|O", b"<u2"])
def test_a_damaged_column_raises_in_both_readers(tmp_path: Path, damage: bytes) -> None:
    storage = LocalStorage(tmp_path)
    with create_column(storage, "c.npy", "<u8") as column:
        column.append(np.arange(3))
    whole = (tmp_path / "c.npy").read_bytes()
    (tmp_path / "c.npy").write_bytes(whole.replace(b"<u8", damage) if len(damage) == 3 else damage)
    with pytest.raises(FormatError):
        map_column(storage, "c.npy", "<u8")
    with pytest.raises(FormatError):
        ColumnReader(storage, "c.npy")


def test_a_truncated_column_raises_and_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    with create_column(storage, "c.npy", "<u8") as column:
        column.append(np.arange(3))
    os.truncate(tmp_path / "c.npy", 140)
    opened: list[ReadableFile] = []
    real = storage.open

    def open_and_note(name: str) -> ReadableFile:
        opened.append(real(name))
        return opened[-1]

    monkeypatch.setattr(storage, "open", open_and_note)
    with pytest.raises(FormatError, match="expected 152 bytes for 3 rows, found 140"):
        ColumnReader(storage, "c.npy")
    with pytest.raises(StorageError):  # closed
        opened[0].read_at(0, 1)
