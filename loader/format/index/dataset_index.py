"""The memory-mapped index of a dataset: sample number → key and byte ranges of the parts."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isqrt
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...cached_property import cached_property
from ...parts.part_sets import Missing, PartSetCounter, PartSets, missing_in_rows
from ...storage import Storage, read_document
from ...storage.shared_answers import has_answers
from ..nv_meta import INDEX_FOLDER, contradictory, outdated
from ..tar.header import BLOCK
from ..tar.names import decode_name, encode_name
from .key_hash import hash_key, hash_ragged
from .keys import equal_neighbours
from .layout import (
    COLUMNS,
    PART_SETS_FILE,
    ROW_COLUMNS,
    AbstractIndex,
    Layout,
    ShardEntry,
    decode_layout,
    read_part_sets,
)
from .npy_column import column_bytes, map_column
from .shard_index import ShardIndex, ShardRows, scan_facts

_HASHES_AT_ONCE = 1 << 20  # 8 MB of the key table
_PART_COLUMNS = frozenset({"part_name", "part_offset", "part_size"})  # those with a row for each part


class PartLocation(NamedTuple):
    """The byte range of a part in its shard: ``[offset, offset + size_bytes)``."""

    name: str
    offset: int
    size_bytes: int


def _column(name: str) -> cached_property[npt.NDArray[Any]]:
    """Return the property that maps a column of an index at its first use."""
    return cached_property(lambda index: index.map_column(name))


class DatasetIndex(AbstractIndex):
    """The index of a dataset of tar shards.

    Opening reads only ``layout.json``, and columns are mapped when they are first used: a run may open thousands of
    indexes, and each process uses few of them at first.

    Args:
        storage: Store of the dataset.
        uuid: Name of the index.
        folder: Name of its folder, if that is not ``.nv-meta/index/<uuid>``.
        layout: Its layout, if it is known.

    Raises:
        FormatError: The layout is damaged. Properties and methods raise it for a column that is missing, cut, or does
            not fit the layout.
    """

    def __init__(self, storage: Storage, uuid: str, *, folder: str | None = None, layout: Layout | None = None) -> None:
        self._folder = folder or f"{INDEX_FOLDER}/{uuid}"
        if layout is None:
            layout_file = f"{self._folder}/layout.json"
            layout = decode_layout(read_document(storage, layout_file), file=storage.path(layout_file))
        super().__init__(uuid, layout, path=storage.path(self._folder))
        self._storage = storage
        self._hash_margin = 2 * isqrt(2 * isqrt(layout.samples)) + 16

    def check(self) -> None:
        """Map all columns of a local index; columns of a remote index are downloaded when they are needed.

        Raises:
            FormatError: A column is missing, cut, or does not fit the layout.
        """
        if not self._storage.checks_versions:
            for name in COLUMNS:
                getattr(self, name)

    def check_sizes(self) -> None:
        """Compare the sizes of a local index's columns with the layout, which costs less than to map them.

        Of the ranks that share metadata, one compares them.

        Raises:
            FormatError: As :meth:`check` does.
        """
        if self._storage.checks_versions or has_answers(self._storage):
            return
        folder = self._storage.path(self._folder)
        for name in COLUMNS:
            try:
                size_bytes = os.stat(f"{folder}/{name}.npy").st_size
            except OSError:
                size_bytes = -1
            if name != "key_bytes" and size_bytes != column_bytes(self._rows_of_column(name), COLUMNS[name]):
                self.check()
                return

    def map_column(self, name: str) -> npt.NDArray[Any]:
        """Map a column, and compare its length with the layout."""
        # The columns that locate samples are requested together, for a remote dataset.
        ahead = self._storage.ahead
        if ahead is not None and name in ROW_COLUMNS and self.__dict__.keys().isdisjoint(ROW_COLUMNS):
            ahead.prefetch_fixed([f"{self._folder}/{each}.npy" for each in ROW_COLUMNS])
        column = map_column(self._storage, f"{self._folder}/{name}.npy", COLUMNS[name])
        # Each sample has a row, or each part; the ends say how long the columns are that they divide.
        rows = self._rows_of_column(name)
        if name == "key_bytes":
            rows = int(self.key_ends[-1]) if len(self) else 0
        self._check_length(name, len(column), rows)
        if name == "part_ends":
            self._check_length("part_name", self.layout.parts, int(column[-1]) if len(column) else 0)
        return column

    def _rows_of_column(self, name: str) -> int:
        return self.layout.parts if name in _PART_COLUMNS else self.layout.samples

    part_ends = _column("part_ends")  # the part after the last one of each sample, shape (n,)
    key_ends = _column("key_ends")  # the byte of `key_bytes` after the last one of each sample's key, shape (n,)
    key_bytes = _column("key_bytes")  # the keys of all samples
    part_name = _column("part_name")  # the number of each part's name, shape (p,)
    part_offset = _column("part_offset")  # the offset of each part's contents in blocks of 512 bytes, shape (p,)
    part_size = _column("part_size")  # the size of each part in bytes, shape (p,)
    key_hash = _column("key_hash")  # ascending hashes of the keys, shape (n,)
    key_sample = _column("key_sample")  # the sample of each hash, shape (n,)

    # Indexing a memoryview takes a tenth of the time of an array.

    @cached_property
    def _rows(self) -> tuple[memoryview, memoryview, memoryview, memoryview]:
        return self.part_ends.data, self.part_name.data, self.part_offset.data, self.part_size.data

    @cached_property
    def _keys(self) -> tuple[memoryview, memoryview]:
        return self.key_ends.data, self.key_bytes.data

    @cached_property
    def _key_table(self) -> tuple[memoryview, memoryview]:
        return self.key_hash.data, self.key_sample.data

    def _check_length(self, name: str, length: int, expected: int) -> None:
        if length != expected:
            file = self._storage.path(f"{self._folder}/{name}.npy")
            raise outdated(f"expected a length of {expected}, found {length}", file)

    def key(self, sample: int) -> str:
        return decode_name(self._key(sample))

    def _key(self, sample: int) -> bytes:
        ends, keys = self._keys
        return keys[ends[sample - 1] if sample else 0 : ends[sample]].tobytes()

    def parts(self, sample: int) -> list[PartLocation]:
        """Return the byte ranges of a sample's parts, in their order in the shard.

        Raises:
            FormatError: The columns name an unknown part, or a byte range outside of the shard.
        """
        start = int(self.part_ends[sample - 1]) if sample else 0
        rows = slice(start, int(self.part_ends[sample]))
        names, shard_size = self.part_names, self.shard_of(sample).size_bytes
        locations = []
        for name, block, size in zip(
            self.part_name[rows].tolist(), self.part_offset[rows].tolist(), self.part_size[rows].tolist(), strict=True
        ):
            if name >= len(names) or block == 0 or block * BLOCK + size > shard_size:
                raise contradictory(f"sample {sample} has a part outside of its shard, or of no known name", self.path)
            locations.append(PartLocation(names[name], block * BLOCK, size))
        return locations

    def part(self, sample: int, name: str) -> PartLocation | None:
        """Return the byte range of one part of a sample; None if the sample has no part of that name.

        Raises:
            FormatError: As :meth:`parts` does.
        """
        shard_and_part = self.shard_and_part(sample, name)
        return None if shard_and_part is None else shard_and_part[1]

    def shard_and_part(self, sample: int, name: str) -> tuple[ShardEntry, PartLocation] | None:
        """Return the shard and the byte range of one part of a sample; None if the sample has no part of that name.

        Raises:
            FormatError: As :meth:`parts` does.
        """
        name_id = self._number_of_part.get(name)
        if name_id is None:
            return None
        ends, names, offsets, sizes = self._rows
        row, first = ends[sample] - 1, ends[sample - 1] if sample else 0
        if row >= len(names):
            raise contradictory(f"the parts of sample {sample} have no rows", self.path)
        while row >= first and names[row] != name_id:
            row -= 1  # from the end: of two parts of one name the last one is used, as if the shard were unpacked
        if row < first:
            return None
        offset, size, shard = offsets[row] * BLOCK, sizes[row], self.shard_of(sample)
        if offset == 0 or offset + size > shard.size_bytes:
            raise contradictory(f"sample {sample} has a part outside of its shard", self.path)
        return shard, PartLocation(name, offset, size)

    @cached_property
    def _number_of_part(self) -> dict[str, int]:
        return {name: name_id for name_id, name in enumerate(self.part_names)}

    def find(self, key: str) -> list[int]:
        try:
            return sorted({*self._find(encode_name(key)), *self._find_full(key)})
        except UnicodeEncodeError:
            return []  # a lone surrogate, for example from JSON, which no bytes encode

    def starting(self, samples: range, text: str) -> list[int]:
        # Compare the first bytes of all keys that are long enough at once.
        prefix = np.frombuffer(encode_name(text), np.uint8)
        ends = np.asarray(self.key_ends[samples.start : samples.stop]).astype(np.int64)
        first = int(self.key_ends[samples.start - 1]) if samples.start else 0
        starts: IntArray = np.concatenate([[first], ends[:-1]])
        long_enough = np.flatnonzero(ends - starts >= len(prefix))
        places = starts[long_enough][:, None] + np.arange(len(prefix))
        matches = (self.key_bytes[places] == prefix).all(axis=1)
        return cast("list[int]", (long_enough[matches] + samples.start).tolist())

    def find_first_full(self, key: str) -> list[int]:
        """Return the samples of ``<shard>/<key>``, or else of a bare key, ascending; empty for an unknown key.

        Unlike in :meth:`find`, a bare key cannot hide a full one, so every sample can be found.
        """
        try:
            return self._find_full(key) or self._find(encode_name(key))
        except UnicodeEncodeError:
            return []

    def _find_full(self, key: str) -> list[int]:
        matches: list[int] = []
        position = key.find(".tar/")
        while position >= 0:
            # A key may contain ".tar/", so every position is tried.
            shard = self._shard_by_name.get(key[: position + 4])
            if shard is not None:
                matches += self._find(encode_name(key[position + 5 :]), self.samples_of(shard))
            position = key.find(".tar/", position + 1)
        return matches

    def _find(self, key: bytes, among: range | None = None) -> list[int]:
        """Return the samples of a key; rows of one hash ascend by sample, so a range of samples is bisected."""
        wanted = hash_key(key)
        (hashes, samples), rows = self._key_table, len(self)
        if not rows:
            return []
        # Hashes are even over 64 bits: the row is near its share of the rows, and nearer to the share of the distance
        # from there. So a look-up touches few pages of the file, and takes half the time of a bisection of all rows.
        row = wanted * rows >> 64
        row += (wanted - hashes[row]) * rows >> 64
        low, high = row - self._hash_margin, row + self._hash_margin
        if low >= 0 and high < rows and hashes[low] < wanted < hashes[high]:
            start = bisect_left(hashes, wanted, low + 1, high)
        else:
            start = bisect_left(hashes, wanted)
            if start == rows:
                return []
        # Find all rows of the hash, and those of the range.
        if hashes[start] != wanted:
            return []
        stop = start + 1
        if stop < rows and hashes[stop] == wanted:
            stop = bisect_right(hashes, wanted, stop)
        if among is not None:
            start, stop = bisect_left(samples, among.start, start, stop), bisect_left(samples, among.stop, start, stop)
        matches = []
        for row in range(start, stop):  # slicing a memoryview takes half a microsecond
            sample = samples[row]
            if sample >= rows:
                raise contradictory(f"a key belongs to sample {sample} of {rows}", self.path)
            if self._key(sample) == key and (among is None or sample in among):
                matches.append(sample)
        return matches

    @property
    def has_part_sets(self) -> bool:
        """True if the index was written with a table of part sets."""
        return self._storage.exists(f"{self._folder}/{PART_SETS_FILE}")

    @cached_property
    def part_sets(self) -> PartSets:
        """The table of part sets; it is counted if the index has none."""
        table = read_part_sets(self._storage, self._folder, samples=len(self))
        if table is not None:
            return table
        try:
            return self._count_part_sets()
        except (IndexError, ValueError, OverflowError, MemoryError) as error:
            raise contradictory(error, self.path) from error

    def _count_part_sets(self) -> PartSets:
        counter = PartSetCounter()
        for shard in self.shards:
            part_ends, parts = self._from_zero(self.part_ends, shard)
            counter.add(part_ends, self.part_name[parts])
        return counter.finish(self.part_names, self.full_key)

    def missing(self, fields: Mapping[str, Sequence[str]]) -> dict[str, Missing]:
        """Return the fields that some samples cannot fill; exact for any number of part sets."""
        if not self.part_sets.others:
            return super().missing(fields)
        missing: dict[str, Missing] = {}
        for field, names in fields.items():
            wanted = [self._number_of_part[name] for name in names if name in self._number_of_part]
            count, first = missing_in_rows(self.part_ends, self.part_name, wanted)
            if count:
                missing[field] = Missing(count, self.full_key(first))
        return missing

    def sample_offsets(self, shard: ShardEntry) -> npt.NDArray[np.int64]:
        """Return the offsets of a shard's samples and of their end, shape (samples + 1,); empty if it is not plain."""
        if not shard.plain or not shard.samples:
            return np.array([shard.end_offset] if shard.plain else [], np.int64)
        first, stop = shard.first_sample, shard.first_sample + shard.samples
        starts = np.append(self.part_ends[first - 1 : first] if first else [0], self.part_ends[first : stop - 1])
        return np.append((self.part_offset[starts.astype(np.int64)].astype(np.int64) - 1) * BLOCK, shard.end_offset)

    def shard_index(self, shard: ShardEntry) -> ShardIndex:
        """Return the index of one shard, equal to a scan of the shard.

        Returns:
            The shard's index; without sample offsets if the shard is not plain, because this index does not have them.

        Raises:
            FormatError: The columns contradict each other.
        """
        # The dataset's index has hashes of all shards in one table, so hash the shard's keys again.
        try:
            rows = self.rows_of(shard)
            key_ends, key_bytes = rows.key_ends.astype(np.int64), np.array(rows.key_bytes)
            key_hash = hash_ragged(key_bytes, key_ends)
            key_order = np.argsort(key_hash)
            index = ShardIndex(
                part_names=rows.part_names,
                part_name=rows.part_name,
                part_offset=rows.part_block.astype(np.int64) * BLOCK,
                part_size=rows.part_size.astype(np.int64),
                part_ends=rows.part_ends.astype(np.int64),
                key_bytes=key_bytes,
                key_ends=key_ends,
                key_hash=key_hash[key_order],
                key_order=key_order,
                sample_offsets=np.empty(0, np.int64),
                **scan_facts(shard),
            )
            # In a plain shard, each sample begins at the header directly before its first part.
            if shard.plain:
                offsets = np.append(index.first_part_offsets() - BLOCK, shard.end_offset)
                index = replace(index, sample_offsets=offsets)
        except (IndexError, ValueError, OverflowError, MemoryError) as error:
            raise contradictory(error, self.path) from error
        return index

    def rows_of(self, shard: ShardEntry) -> ShardRows:
        """Return the rows of a shard, counted from its start.

        Raises:
            FormatError: The columns contradict each other.
        """
        names = self.part_names
        part_ends, parts = self._from_zero(self.part_ends, shard)
        key_ends, keys = self._from_zero(self.key_ends, shard)
        part_name = self.part_name[parts]
        if len(part_name) < parts.stop - parts.start or (len(part_name) and part_name.max() >= len(names)):
            raise contradictory("parts of no known name, or no parts", self.path)
        # Number the part names as a scan does: those of the shard, by their bytes.
        counts = np.bincount(part_name, minlength=len(names))
        used = sorted(np.flatnonzero(counts).tolist(), key=lambda name_id: encode_name(names[name_id]))
        renumber = np.zeros(len(names), np.uint32)
        renumber[used] = np.arange(len(used), dtype=np.uint32)
        return ShardRows(
            part_ends=part_ends,
            key_ends=key_ends,
            key_bytes=self.key_bytes[keys],
            part_names=tuple(names[name_id] for name_id in used),
            part_name=renumber[part_name],
            part_block=self.part_offset[parts],
            part_size=self.part_size[parts],
        )

    def _from_zero(self, ends: npt.NDArray[np.uint64], shard: ShardEntry) -> tuple[npt.NDArray[np.uint64], slice]:
        """Return the rows of an end column for a shard, counted from its first row, and the slice that they span."""
        first = shard.first_sample
        start, rows = int(ends[first - 1]) if first else 0, ends[first : first + shard.samples]
        if len(rows) and (int(rows[0]) < start or (rows[1:] < rows[:-1]).any()):
            raise contradictory("a column of ends does not ascend", self.path)
        return rows - np.uint64(start), slice(start, int(rows[-1]) if len(rows) else start)


def repeated_samples(index: DatasetIndex) -> Iterator[list[int]]:
    """Yield the samples of each key that several samples have, in the order of hashes.

    Args:
        index: An index with a key table, such as the one of tar shards that are not prepared.
    """
    start = 0
    while start < len(index):
        # Read the key table in pieces that end between two hashes.
        stop = min(start + _HASHES_AT_ONCE, len(index))
        while stop < len(index) and index.key_hash[stop] == index.key_hash[stop - 1]:
            stop += 1
        # Keys of one hash may differ, so the keys themselves are compared.
        for low, high in equal_neighbours(np.array(index.key_hash[start:stop])):
            by_key: dict[str, list[int]] = {}
            for sample in index.key_sample[start + low : start + high].tolist():
                by_key.setdefault(index.key(sample), []).append(sample)
            yield from (samples for samples in by_key.values() if len(samples) > 1)
        start = stop
