"""Write the index of a whole dataset, shard by shard, with little memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import FormatError
from ...parts.part_sets import PartSetCounter
from ...storage import FileInfo, Storage
from ..nv_meta import contradictory
from ..tar.header import BLOCK
from .dataset_index import DatasetIndex
from .keys import RunWriter, equal_neighbours, merge_runs
from .layout import (
    COLUMNS,
    PART_SETS_FILE,
    Layout,
    PartStats,
    ShardEntry,
    encode_struct,
)
from .npy_column import ColumnReader, ColumnWriter, create_column
from .shard_index import ShardIndex, ShardRows, scan_facts

_APPENDED = ("part_ends", "key_ends", "key_bytes", "part_name", "part_offset", "part_size")
_RUNS = ("run_hash", "run_sample")  # of the key table, before they are merged
_DTYPES = {**COLUMNS, **dict.fromkeys(_RUNS, "<u8")}
_MAX_MEDIAN_PARTS = 1 << 18
_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateKeys:
    """Keys that several samples have."""

    groups: tuple[tuple[str, npt.NDArray[np.uint64]], ...] = ()  # a key and its samples, ascending

    @property
    def samples(self) -> int:
        return sum(len(samples) - 1 for _, samples in self.groups)

    @property
    def first_key(self) -> str:
        return self.groups[0][0] if self.groups else ""


class IndexWriter(ExitStack):
    """Writes the folder of an index, which :class:`.dataset_index.DatasetIndex` opens.

    Use it as a context manager around :meth:`add` and :meth:`keep`, in the order of the shards, and :meth:`finish`.

    Args:
        durable: Wait until the disk has each file; False if the caller does.
    """

    def __init__(
        self, storage: Storage, folder: str, *, kept: DatasetIndex | None = None, durable: bool = True
    ) -> None:
        super().__init__()
        self._storage = storage
        self._folder = folder
        self._kept = kept
        self._durable = durable
        self._kept_first: dict[str, int] = {}  # kept shard → its first sample in this index
        self._columns: dict[str, ColumnWriter] = {}
        self._part_ids: dict[str, int] = {}
        self._part_sets = PartSetCounter()
        self._shards: list[ShardEntry] = []
        self._samples = 0
        self._parts = 0
        self._key_bytes = 0

    def __enter__(self) -> Self:
        for name in _APPENDED:
            self._columns[name] = self.enter_context(self._create(name))
        runs = [self.enter_context(self._create(name, durable=False)) for name in _RUNS]
        self._runs = RunWriter(*(run.append for run in runs))
        return self

    def _create(self, name: str, *, durable: bool = True) -> AbstractContextManager[ColumnWriter]:
        path = f"{self._folder}/{name}.npy"
        return create_column(self._storage, path, _DTYPES[name], durable=durable and self._durable)

    def add(self, shard: FileInfo, index: ShardIndex) -> None:
        blocks = index.part_offset // BLOCK
        if len(blocks) and int(blocks.max()) >= 1 << 32:
            raise FormatError("the shard is larger than 2 TiB", shard=shard.name, hint="split it into smaller ones")
        self._runs.add(index.key_hash, (index.key_order + self._samples).astype(np.uint64))
        entry = ShardEntry.of_file(shard, samples=len(index), first_sample=self._samples, **scan_facts(index))
        rows = ShardRows(
            part_ends=index.part_ends,
            key_ends=index.key_ends,
            key_bytes=index.key_bytes,
            part_names=index.part_names,
            part_name=index.part_name,
            part_block=blocks,
            part_size=index.part_size,
        )
        self._append(entry, rows)

    def keep(self, entry: ShardEntry) -> None:
        """Append one shard with the rows of the previous index."""
        if self._kept is None:
            raise LookupError(entry.name)
        rows = self._kept.rows_of(entry)
        self._kept_first[entry.name] = self._samples
        self._append(msgspec.structs.replace(entry, first_sample=self._samples), rows)

    def _append(self, entry: ShardEntry, rows: ShardRows) -> None:
        ids = np.array(
            [self._part_ids.setdefault(name, len(self._part_ids)) for name in rows.part_names], dtype=np.uint32
        )
        columns = self._columns
        columns["part_ends"].append(rows.part_ends + self._parts)
        columns["key_ends"].append(rows.key_ends + self._key_bytes)
        columns["key_bytes"].append(rows.key_bytes)
        part_ids = ids[rows.part_name] if len(ids) else rows.part_name
        columns["part_name"].append(part_ids)
        self._part_sets.add(rows.part_ends, part_ids)
        columns["part_offset"].append(rows.part_block)
        columns["part_size"].append(rows.part_size)
        self._shards.append(entry)
        self._samples += entry.samples
        self._parts += len(rows.part_name)
        self._key_bytes += len(rows.key_bytes)

    def finish(self, *, prepared_by: str, commit: str = "") -> tuple[DatasetIndex, DuplicateKeys]:
        """Close the other columns, and write the key table and the layout; return the index."""
        self._runs.finish_run()
        if self._kept and self._kept_first:
            self._runs.add_run(_kept_key_table(self._kept, self._kept_first))
        self.close()
        layout = Layout.of_shards(
            self._shards,
            self._part_stats(),
            prepared_by=prepared_by,
            prepared_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            commit=commit,
        )
        index = DatasetIndex(self._storage, "staged", folder=self._folder, layout=layout)
        duplicates = _duplicates(index, self._write_key_table())
        index.layout = msgspec.structs.replace(layout, duplicate_keys=duplicates.samples)
        index.part_sets = self._part_sets.finish(index.part_names, index.full_key)
        for name, data in ((PART_SETS_FILE, index.part_sets), ("layout.json", index.layout)):
            self._storage.write(f"{self._folder}/{name}", encode_struct(data), durable=self._durable)
        return index, duplicates

    def _write_key_table(self) -> list[npt.NDArray[np.uint64]]:
        """Write the key table; return the samples of each hash that several samples have."""
        suspects: list[npt.NDArray[np.uint64]] = []
        with (
            self._read("run_hash") as run_hash,
            self._read("run_sample") as run_sample,
            self._create("key_hash") as hash_column,
            self._create("key_sample") as sample_column,
        ):
            for hashes, samples in merge_runs(run_hash, run_sample, self._runs.ends):
                hash_column.append(hashes)
                sample_column.append(samples)
                suspects += [samples[start:stop] for start, stop in equal_neighbours(hashes)]
        for name in _RUNS:
            self._storage.remove(f"{self._folder}/{name}.npy")
        return suspects

    def _read(self, name: str) -> ColumnReader:
        return ColumnReader(self._storage, f"{self._folder}/{name}.npy")

    def _part_stats(self) -> Iterator[PartStats]:
        count = np.zeros(len(self._part_ids), np.int64)
        total = np.zeros(len(self._part_ids), np.int64)
        some_names, some_sizes = [], []
        selected = self._rows_for_medians()
        with self._read("part_name") as names, self._read("part_size") as sizes:
            for start in range(0, self._parts, _ROWS_AT_ONCE):
                stop = min(start + _ROWS_AT_ONCE, self._parts)
                chunk, size = names[start:stop], sizes[start:stop]
                count += np.bincount(chunk, minlength=len(count))
                # Weights are floats, exact up to 2^53, the size of a million parts of 8 GiB.
                total += np.bincount(chunk, weights=size, minlength=len(total)).astype(np.int64)
                rows = selected[slice(*np.searchsorted(selected, (start, stop)))] - start
                some_names.append(chunk[rows])
                some_sizes.append(size[rows])
        medians = _medians(np.concatenate(some_names), np.concatenate(some_sizes), len(count)) if some_names else []
        for (name, name_id), median in zip(self._part_ids.items(), medians, strict=True):
            yield PartStats(name=name, parts=int(count[name_id]), total_bytes=int(total[name_id]), median_bytes=median)

    def _rows_for_medians(self) -> npt.NDArray[np.int64]:
        """Select the parts for the medians, ascending: all, or evenly spread ones."""
        if self._parts <= _MAX_MEDIAN_PARTS:
            return np.arange(self._parts)
        # Multiples of the golden ratio spread evenly, and have no common period with the parts of samples.
        spread = np.modf(np.arange(_MAX_MEDIAN_PARTS) * 0.6180339887498949)[0]
        return np.sort((spread * self._parts).astype(np.int64))


def _duplicates(index: DatasetIndex, suspects: list[npt.NDArray[np.uint64]]) -> DuplicateKeys:
    """Find the samples with equal keys among those with equal hashes."""
    groups = []
    for samples in suspects:
        by_key: dict[str, list[int]] = {}
        for sample in samples.tolist():
            by_key.setdefault(index.key(sample), []).append(sample)
        groups += [(key, np.array(group, dtype=np.uint64)) for key, group in by_key.items() if len(group) > 1]
    groups.sort(key=lambda group: int(group[1][1]))  # by the first repetition
    return DuplicateKeys(groups=tuple(groups))


def _medians(names: npt.NDArray[np.uint32], sizes: npt.NDArray[np.uint64], count: int) -> list[int]:
    """Return the lower median size of each part name; 0 if none of its parts is selected."""
    by_name = sizes[np.argsort(names, kind="stable")]
    ends = np.cumsum(np.bincount(names, minlength=count)).tolist()
    medians = []
    for start, end in pairwise([0, *ends]):
        middle = (end - start - 1) // 2
        medians.append(int(np.partition(by_name[start:end], middle)[middle]) if end > start else 0)
    return medians


def _kept_key_table(
    index: DatasetIndex, first_samples: Mapping[str, int]
) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
    """Yield the rows of an index's key table for some shards, in pieces: no key is hashed again, nothing is sorted.

    Args:
        index: The index.
        first_samples: For each of these shards, the number of its first sample in the new index.

    Yields:
        Ascending hashes and their samples, numbered as in the new index.
    """
    starts, shifts = _kept_ranges(index, first_samples)
    seen = np.zeros(len(index), np.bool_)
    last = np.uint64(0)
    for start in range(0, len(index), _ROWS_AT_ONCE):
        hashes = index.key_hash[start : start + _ROWS_AT_ONCE]
        samples = index.key_sample[start : start + _ROWS_AT_ONCE].astype(np.int64)
        # Check that the piece is sorted, and names samples of the index.
        if hashes[0] < last or (hashes[1:] < hashes[:-1]).any():
            raise contradictory("the hashes of keys do not ascend", index.path)
        if samples.min() < 0 or samples.max() >= len(index):
            raise contradictory("a key of a missing sample", index.path)
        last = hashes[-1]
        seen[samples] = True
        # Renumber the samples, and drop those of other shards.
        moved = samples + shifts[np.searchsorted(starts, samples, "right") - 1]
        kept = moved >= 0
        yield hashes[kept], moved[kept].astype(np.uint64)
    if not seen.all():
        raise contradictory("the table of keys does not have every sample once", index.path)


def _kept_ranges(
    index: DatasetIndex, first_samples: Mapping[str, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split all samples into ranges that move by one shift: there are few such ranges, and many shards.

    Returns:
        The first sample of each range, and the shift of its samples' numbers. The shift of a range that is not kept
        leads below zero.
    """
    dropped = -len(index) - 1
    shards = [shard for shard in index.shards if shard.samples]
    starts = np.array([shard.first_sample for shard in shards], np.int64)
    targets = [first_samples.get(shard.name, shard.first_sample + dropped) for shard in shards]
    shifts = np.array(targets, np.int64) - starts
    opens = np.diff(shifts, prepend=2 * dropped) != 0
    return starts[opens], shifts[opens]
