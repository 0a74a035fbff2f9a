"""The index of one shard: which samples it holds, and where the bytes of their parts lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..storage import Storage
from .key_hash import hash_keys
from .member_name import decode_name, split_member_names
from .tar_header import BLOCK
from .tar_scan import MemberBatch, TarScan

__all__ = ["ShardIndex", "index_shard"]

_Number = TypeVar("_Number", bound=np.generic)

_LETTERS_AT_ONCE = 4 * 1024 * 1024  # memory for names while they are split, before temporaries


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardIndex:
    """The n samples and p parts of one shard, as columns.

    Samples stand in the order of their first parts, and the parts of one sample are neighbouring rows.
    """

    part_names: tuple[str, ...]
    part_name: npt.NDArray[np.uint32]  # (p,) which of part_names
    part_offset: npt.NDArray[np.int64]  # (p,) of the contents, in bytes
    part_size: npt.NDArray[np.int64]  # (p,) bytes
    part_ends: npt.NDArray[np.int64]  # (n,) sample i has the part rows [part_ends[i-1], part_ends[i])
    key_bytes: npt.NDArray[np.uint8]  # all keys behind each other
    key_ends: npt.NDArray[np.int64]  # (n,)
    key_hash: npt.NDArray[np.uint64]  # (n,) sorted
    key_order: npt.NDArray[np.int64]  # (n,) the sample whose key each hash is of
    sample_offsets: npt.NDArray[np.int64]  # (n + 1,) of each sample's first header; last: the end. Empty: not known
    end_offset: int  # of the archive: where its empty blocks start
    plain: bool  # each sample starts with its first part's own header: no PAX or GNU headers, no scattered parts
    scattered: int = 0  # samples whose parts are not all neighbours in the shard
    misread: int = 0  # hidden members of folders, of which other tools make samples
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.part_ends)

    def first_part_offsets(self) -> npt.NDArray[np.int64]:
        """Give the content offset of each sample's first part, shape (n,)."""
        return self.part_offset[np.concatenate(([0], self.part_ends[:-1])).astype(np.int64)[: len(self)]]

    def keys(self) -> list[str]:
        """Give the keys as text."""
        data = self.key_bytes.tobytes()
        ends = self.key_ends.tolist()
        if data.isascii():
            text = data.decode("ascii")
            return [text[start:end] for start, end in zip(chain((0,), ends), ends, strict=False)]
        return [decode_name(data[start:end]) for start, end in zip(chain((0,), ends), ends, strict=False)]


def index_shard(storage: Storage, name: str) -> ShardIndex:
    """Index one tar file by its headers.

    Raises:
        FormatError: The file is truncated, damaged or no tar file; with the byte offset.
        StorageError: The file cannot be read.
    """
    with storage.open(name) as file:
        scan = TarScan(file, storage.path(name))
        collected = _Columns()
        for batch in scan:
            # Names of thousands of bytes are legal: split fewer of them at a time.
            step = max(1, _LETTERS_AT_ONCE // batch.names.dtype.itemsize)
            for start in range(0, len(batch.names), step):
                collected.add(batch, slice(start, start + step))
    return collected.finish(scan.end_offset, scan.warnings)


class _Columns:
    """Columns of a shard as they grow."""

    def __init__(self) -> None:
        self._part_ids: dict[bytes, int] = {}
        self._part_name: list[npt.NDArray[np.uint32]] = []
        self._part_offset: list[npt.NDArray[np.int64]] = []
        self._part_size: list[npt.NDArray[np.int64]] = []
        self._part_first: list[npt.NDArray[np.int64]] = []  # row of each sample's first part
        self._key_bytes: list[npt.NDArray[np.uint8]] = []
        self._key_lengths: list[npt.NDArray[np.int64]] = []
        self._key_hash: list[npt.NDArray[np.uint64]] = []
        self._sample_offset: list[npt.NDArray[np.int64]] = []
        self._last_key: bytes | None = None
        self._rows = 0
        self._hidden = 0
        self._misread = 0

    def add(self, batch: MemberBatch, rows: slice) -> None:
        split = split_member_names(batch.names[rows])
        self._hidden += split.hidden
        self._misread += split.misread
        if len(split.taken) == 0:
            return
        ids = self._part_ids
        for name in set(split.part_names) - ids.keys():
            ids[name] = len(ids)  # numbered for good in finish(), since a set has no order
        self._part_name.append(np.fromiter(map(ids.__getitem__, split.part_names), np.uint32, len(split.part_names)))
        self._part_offset.append(batch.content_offset[rows][split.taken])
        self._part_size.append(batch.size_bytes[rows][split.taken])

        words = split.keys.view(np.uint64)  # (k, w / 8)
        starts_sample = np.empty(len(words), dtype=np.bool_)
        starts_sample[0] = split.keys[0, : split.key_lengths[0]].tobytes() != self._last_key
        starts_sample[1:] = (split.key_lengths[1:] != split.key_lengths[:-1]) | (words[1:] != words[:-1]).any(axis=1)
        self._last_key = split.keys[-1, : split.key_lengths[-1]].tobytes()

        first = np.flatnonzero(starts_sample)
        keys, lengths = split.keys[first], split.key_lengths[first]
        self._part_first.append(first + self._rows)
        self._key_bytes.append(keys[np.arange(keys.shape[1]) < lengths[:, None]])
        self._key_lengths.append(lengths)
        self._key_hash.append(hash_keys(keys, lengths))
        self._sample_offset.append(batch.header_offset[rows][split.taken[first]])
        self._rows += len(split.taken)

    def finish(self, end_offset: int, warnings: list[str]) -> ShardIndex:
        if self._hidden:
            warnings = [*warnings, f"{self._hidden} members whose file name starts with a dot belong to no sample"]
        part_names = sorted(self._part_ids)
        renumber = np.empty(len(part_names), dtype=np.uint32)
        renumber[[self._part_ids[name] for name in part_names]] = np.arange(len(part_names), dtype=np.uint32)
        first = _join(self._part_first, np.int64)
        key_hash = _join(self._key_hash, np.uint64)
        key_order = np.argsort(key_hash)
        index = ShardIndex(
            part_names=tuple(decode_name(name) for name in part_names),
            part_name=renumber[_join(self._part_name, np.uint32)],
            part_offset=_join(self._part_offset, np.int64),
            part_size=_join(self._part_size, np.int64),
            part_ends=np.append(first[1:], self._rows)[: len(first)],
            key_bytes=_join(self._key_bytes, np.uint8),
            key_ends=np.cumsum(_join(self._key_lengths, np.int64)),
            key_hash=key_hash[key_order],
            key_order=key_order,
            sample_offsets=np.append(_join(self._sample_offset, np.int64), end_offset),
            end_offset=end_offset,
            plain=False,  # decided below, when scattered parts are gathered
            misread=self._misread,
            warnings=tuple(warnings),
        )
        index = _gather_scattered(index)
        plain = index.sample_offsets[:-1] == index.first_part_offsets() - BLOCK
        return replace(index, plain=bool(plain.all()))


def _join(pieces: list[npt.NDArray[_Number]], dtype: type[_Number]) -> npt.NDArray[_Number]:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype)


def _gather_scattered(index: ShardIndex) -> ShardIndex:
    """Make one sample of each key whose parts lie in several runs of neighbours."""
    home = _first_run_of_key(index)  # (n,) for each run of neighbours, the run that opens its sample
    opens = home == np.arange(len(index))
    if opens.all():
        return index
    counts = np.diff(index.part_ends, prepend=0)
    part_order = np.argsort(np.repeat(home, counts), kind="stable")  # (p,)
    key_lengths = np.diff(index.key_ends, prepend=0)
    new_number = np.cumsum(opens) - 1
    kept_order = index.key_order[opens[index.key_order]]
    return replace(
        index,
        part_name=index.part_name[part_order],
        part_offset=index.part_offset[part_order],
        part_size=index.part_size[part_order],
        part_ends=np.cumsum(np.bincount(home, weights=counts, minlength=len(index))[opens].astype(np.int64)),
        key_bytes=index.key_bytes[np.repeat(opens, key_lengths)],
        key_ends=np.cumsum(key_lengths[opens]),
        key_hash=index.key_hash[opens[index.key_order]],
        key_order=new_number[kept_order],
        sample_offsets=index.sample_offsets[np.append(opens, True)],
        scattered=len(np.unique(home[~opens])),
    )


def _first_run_of_key(index: ShardIndex) -> npt.NDArray[np.int64]:
    runs = np.arange(len(index))
    same_as_next = index.key_hash[1:] == index.key_hash[:-1]
    if not same_as_next.any():
        return runs
    suspects = np.zeros(len(index), dtype=np.bool_)
    suspects[index.key_order[:-1][same_as_next]] = True
    suspects[index.key_order[1:][same_as_next]] = True
    keys = index.keys()
    seen: dict[str, int] = {}
    for run in np.flatnonzero(suspects).tolist():
        runs[run] = seen.setdefault(keys[run], run)
    return runs
