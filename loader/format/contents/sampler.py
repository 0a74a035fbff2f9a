"""Inspect some samples of each shard, in the processes that scan the shards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...accounting.kinds import HEADER_BYTES, is_compressed, kind_of_bytes, part_extension
from ...accounting.large_parts import is_limited
from ...accounting.part_sets import PartSetCounter
from ...errors import EnergonError
from ...storage import FileInfo, ReadableFile, Storage
from ..index.shard_index import ShardIndex
from .findings import Contents

_MAX_SHARDS = 2000  # whose samples are inspected, besides the shards of rare part sets
_MIN_SAMPLES = 256  # in all shards, if there are few shards
_MAX_RARE = 1000  # samples of further part sets, for each process
_MAX_RARE_OF_SHARD = 32
_MAX_REQUESTS = 56  # to an object store, of all processes; the first sample takes a few more
MAX_JSON_BYTES = 1 << 20
"""Size of a json part up to which it is parsed."""

_SMALL_PARTS = 64  # in a shard
_MAX_LAYOUTS = 10_000  # of small shards, that are remembered
_READ_TOGETHER = 256 * 1024  # bytes of a sample up to which it is read at once


@dataclass(slots=True)
class ContentSampler:
    """Inspects samples: some of each chosen shard, and one of each part set that it has not seen."""

    samples_of: Mapping[str, int]  # shard → number of samples to inspect
    requests: int | None = None  # number of reads that this process may do; None for any number
    max_json_bytes: int | None = None  # larger JSON parts are counted, in all samples of the shards; None counts none
    _seen: set[tuple[str, ...]] = field(default_factory=set)
    _layouts: set[object] = field(default_factory=set)  # parts of small shards: many have the same ones
    _rare: int = 0

    @staticmethod
    def of_shards(
        shards: Sequence[str],
        *,
        is_far: bool,
        workers: int,
        also: Iterable[str] = (),
        max_json_bytes: int | None = None,
    ) -> ContentSampler:
        """Return a sampler for a dataset: of many shards, it inspects evenly spread ones."""
        most = _MAX_REQUESTS if is_far else _MAX_SHARDS
        stride = max(1, -(-len(shards) // most))
        chosen = shards[::stride]
        each = 1 if is_far else max(1, -(-_MIN_SAMPLES // max(1, len(chosen))))
        return ContentSampler(
            dict.fromkeys(also, 0) | dict.fromkeys(chosen, each),
            _MAX_REQUESTS // max(1, workers) if is_far else None,
            max_json_bytes,
        )

    def inspect(self, storage: Storage, shard: FileInfo, index: ShardIndex, *, head: bytes = b"") -> Contents:
        """Inspect samples of a shard that was just indexed.

        Args:
            head: Its first bytes, as far as the scan has fetched them.
        """
        contents = Contents()
        self._count_large(shard.name, index, contents)
        samples = self._choose(shard.name, index)
        if not samples or (self.requests is not None and self.requests <= 0 and not head):
            return contents
        try:
            with storage.open(shard.name, shard) as opened:
                opened.expect_few()
                for sample in samples:
                    self._look_at(_WithHead(opened, head), index, sample, f"{shard.name}/{index.key(sample)}", contents)
        except EnergonError:
            pass  # the shard was removed or replaced meanwhile: the prepare reports it
        contents.shards = min(1, contents.samples)
        return contents

    def _count_large(self, shard: str, index: ShardIndex, contents: Contents) -> None:
        """Count the parts that are too large to be parsed."""
        if self.max_json_bytes is None:
            return
        limited = [number for number, name in enumerate(index.part_names) if is_limited(name)]
        rows = np.flatnonzero((index.part_size > self.max_json_bytes) & np.isin(index.part_name, limited))
        if len(rows):
            sample = int(np.searchsorted(index.part_ends, rows[0], side="right"))
            contents.add_large(len(rows), f"{shard}/{index.key(sample)}")

    def _choose(self, shard: str, index: ShardIndex) -> list[int]:
        """Return samples that are evenly spread, and the first one of each part set that was not seen before."""
        count = min(self.samples_of.get(shard, 0), len(index))
        chosen = {sample * len(index) // count for sample in range(count)}
        is_small = len(index.part_name) <= _SMALL_PARTS
        layout = (index.part_names, index.part_name.tobytes(), index.part_ends.tobytes()) if is_small else None
        if layout is not None and layout in self._layouts:
            return sorted(chosen)
        if len(self._layouts) < _MAX_LAYOUTS:
            self._layouts.add(layout)
        counter = PartSetCounter()
        counter.add(index.part_ends, index.part_name)
        table = counter.finish(index.part_names, lambda _: "")
        rare = [each for each in table.sets if each.parts not in self._seen][:_MAX_RARE_OF_SHARD]
        if self._rare < _MAX_RARE:
            self._rare += len(rare)
            self._seen.update(each.parts for each in rare)
            chosen.update(each.first_sample for each in rare)
        return sorted(chosen)

    def _look_at(self, file: _WithHead, index: ShardIndex, sample: int, key: str, contents: Contents) -> None:
        rows = slice(int(index.part_ends[sample - 1]) if sample else 0, int(index.part_ends[sample]))
        parts = [
            (index.part_names[name], offset, size)
            for name, offset, size in zip(
                index.part_name[rows].tolist(),
                index.part_offset[rows].tolist(),
                index.part_size[rows].tolist(),
                strict=True,
            )
        ]
        contents.samples += 1
        for name, size, data in self._read(file, parts):
            contents.add_part(name, kind_of_bytes(data[:HEADER_BYTES], size), key)
            if _is_json(name) and len(data) == size:
                document = parse_document(data)
                if document is not None:
                    contents.add_document(name, document, key, size_bytes=size)

    def _read(self, file: _WithHead, parts: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, int, bytes]]:
        """Yield the name, the size and the first bytes of each part; json parts are read whole, unless very large."""
        wanted = [
            (name, size, offset, min(size, MAX_JSON_BYTES if _is_json(name) else HEADER_BYTES))
            for name, offset, size in parts
        ]
        start = min(offset for _, _, offset, _ in wanted)
        stop = max(offset + length for _, _, offset, length in wanted)
        if stop - start <= _READ_TOGETHER:
            if file.has(stop) or self._may_read():
                data = file.read_at(start, stop - start)
                for name, size, offset, length in wanted:
                    yield name, size, data[offset - start : offset - start + length]
            return
        for name, size, offset, length in wanted:
            if file.has(offset + length) or self._may_read():
                yield name, size, file.read_at(offset, length) if length else b""

    def _may_read(self) -> bool:
        if self.requests is None:
            return True
        self.requests -= 1
        return self.requests >= 0


class _WithHead:
    """A shard whose first bytes are in memory."""

    def __init__(self, file: ReadableFile, head: bytes) -> None:
        self._file = file
        self._head = head

    def has(self, stop: int) -> bool:
        """Return True if the bytes up to an offset are in memory."""
        return stop <= len(self._head)

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """Return bytes, from memory if possible."""
        stop = offset + size_bytes
        return self._head[offset:stop] if self.has(stop) else self._file.read_at(offset, size_bytes)


def _is_json(name: str) -> bool:
    return part_extension(name) in ("json", "jsn") and not is_compressed(name)


def parse_document(text: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; return None for other values and other texts."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
