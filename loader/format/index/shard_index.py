"""Index one shard: its samples, their keys, and the byte ranges of their parts."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from ...engine import Account, AccountEntry
from ...errors import FormatError, plural
from ...storage import FileInfo, Storage
from ..tar.header import BLOCK
from ..tar.names import SplitNames, decode_name, reason_without_sample, split_member_names
from ..tar.scan import MemberBatch, Request, TarScan
from .key_hash import hash_keys
from .layout import ShardEntry

_Number = TypeVar("_Number", bound=np.generic)

_MAX_SPLIT_BYTES = 4 * 1024 * 1024  # of the names that are split at once, without temporaries


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardIndex:
    """The n samples and p parts of one shard, as columns.

    Samples are in the order of their first parts, and the parts of one sample are consecutive rows.
    """

    part_names: tuple[str, ...]
    part_name: npt.NDArray[np.uint32]  # (p,) index in part_names
    part_offset: npt.NDArray[np.int64]  # (p,) of the contents, in bytes
    part_size: npt.NDArray[np.int64]  # (p,) bytes
    part_ends: npt.NDArray[np.int64]  # (n,) sample i has the rows [part_ends[i-1], part_ends[i]) of parts
    key_bytes: npt.NDArray[np.uint8]  # all keys, concatenated
    key_ends: npt.NDArray[np.int64]  # (n,)
    key_hash: npt.NDArray[np.uint64]  # (n,) sorted
    key_order: npt.NDArray[np.int64]  # (n,) the sample of each hash
    sample_offsets: npt.NDArray[np.int64]  # (n + 1,) first header of each sample, and the end; empty if unknown
    end_offset: int  # of the archive: start of its empty blocks
    plain: bool  # each sample starts with the header of its first part: no PAX or GNU headers, no scattered parts
    scattered: int = 0  # number of samples with parts that are not neighbours
    misread: int = 0  # number of hidden members that other tools take for samples
    warnings: tuple[str, ...] = ()
    left_out: tuple[AccountEntry, ...] = ()  # the members that belong to no sample, by reason
    is_complete: bool = True  # False: the scan ended before the end of the shard; never saved

    def __len__(self) -> int:
        return len(self.part_ends)

    def first_part_offsets(self) -> npt.NDArray[np.int64]:
        """Return the content offset of each sample's first part, shape (n,)."""
        return self.part_offset[np.concatenate(([0], self.part_ends[:-1])).astype(np.int64)[: len(self)]]

    def key(self, sample: int) -> str:
        return decode_name(
            self.key_bytes[int(self.key_ends[sample - 1]) if sample else 0 : int(self.key_ends[sample])].tobytes()
        )

    def keys(self) -> list[str]:
        data = self.key_bytes.tobytes()
        ends = self.key_ends.tolist()
        if data.isascii():
            text = data.decode("ascii")
            return [text[start:end] for start, end in zip(chain((0,), ends), ends, strict=False)]
        return [decode_name(data[start:end]) for start, end in zip(chain((0,), ends), ends, strict=False)]


def scan_facts(scanned: ShardIndex | ShardEntry) -> dict[str, Any]:
    """Return what a scan has found out about a whole shard."""
    names = ("end_offset", "plain", "scattered", "misread", "warnings", "left_out")
    return {name: getattr(scanned, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRows:
    """The rows of an index for one shard of n samples and p parts."""

    part_ends: npt.NDArray[np.integer[Any]]  # (n,) counted from zero
    key_ends: npt.NDArray[np.integer[Any]]  # (n,) counted from zero
    key_bytes: npt.NDArray[np.uint8]
    part_names: tuple[str, ...]  # of the shard, in the order of a scan
    part_name: npt.NDArray[np.uint32]  # (p,) index in part_names
    part_block: npt.NDArray[np.integer[Any]]  # (p,) offset of the contents in blocks of 512 bytes
    part_size: npt.NDArray[np.integer[Any]]  # (p,) bytes


def index_shard(
    storage: Storage, name: str, *, max_samples: int | None = None, info: FileInfo | None = None
) -> ShardIndex:
    """Index one tar file by its headers.

    Args:
        max_samples: End the scan after some thousand headers if more samples than this were found; the last sample
            may then lack parts. None scans the whole file.
        info: Size and version of the file, if they are known.
    """
    with storage.open(name, info) as file:
        indexing = shard_requests(TarScan(file.size_bytes, storage.path(name)), max_samples=max_samples)
        try:
            wanted = next(indexing)
            while True:
                wanted = indexing.send(file.read_at(*wanted))
        except StopIteration as end:
            index: ShardIndex = end.value
            return index


def shard_requests(scan: TarScan, *, max_samples: int | None = None) -> Generator[Request, bytes, ShardIndex]:
    """Index one tar file: yield requests for its bytes, which must be sent, and return the index.

    Args:
        scan: The scan of the file, not yet begun.
        max_samples: As for :func:`index_shard`.
    """
    collected = _Columns()
    requests = scan.requests()
    try:
        wanted = next(requests)
        while True:
            wanted = requests.send((yield wanted))
            if scan.batches:
                collected.take(scan.batches)
                if max_samples is not None and collected.samples > max_samples:
                    return replace(collected.finish(scan), is_complete=False)
    except StopIteration:
        collected.take(scan.batches)
    return collected.finish(scan)


def index_members(batches: list[MemberBatch], end_offset: int) -> ShardIndex:
    """Index a shard whose members are known, because this process has written them.

    Args:
        batches: The members in order of offset.
    """
    collected = _Columns()
    collected.take(batches)
    scan = TarScan(end_offset, "")
    scan.end_offset = end_offset
    return collected.finish(scan)


class _Columns:
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
        self._account = Account()

    @property
    def samples(self) -> int:
        """Number of samples so far, if those with scattered parts count more than once."""
        return sum(map(len, self._key_lengths))

    def take(self, batches: list[MemberBatch]) -> None:
        """Add batches, and remove them from their list."""
        for batch in batches:
            # Names may have thousands of bytes: then fewer are split at once.
            step = max(1, _MAX_SPLIT_BYTES // batch.names.dtype.itemsize)
            for start in range(0, len(batch.names), step):
                self._add(batch, slice(start, start + step))
        batches.clear()

    def _add(self, batch: MemberBatch, rows: slice) -> None:
        # Split the names; members that belong to no sample are counted.
        split = split_member_names(batch.names[rows])
        self._hidden += split.hidden
        self._misread += split.misread
        if len(split.taken) < len(batch.names[rows]):
            self._leave(batch, rows, split)
        if len(split.taken) == 0:
            return
        # Number the part names, and append the columns of the parts.
        ids = self._part_ids
        for name in set(split.part_names) - ids.keys():
            ids[name] = len(ids)  # renumbered in finish(), because a set has no order
        self._part_name.append(np.fromiter(map(ids.__getitem__, split.part_names), np.uint32, len(split.part_names)))
        self._part_offset.append(batch.content_offset[rows][split.taken])
        self._part_size.append(batch.size_bytes[rows][split.taken])

        # A sample starts where the key changes, also at the border of two batches.
        starts_sample = starts_of_keys(split)
        starts_sample[0] = split.keys[0, : split.key_lengths[0]].tobytes() != self._last_key
        self._last_key = split.keys[-1, : split.key_lengths[-1]].tobytes()

        # Append the columns of the samples.
        first = np.flatnonzero(starts_sample)
        keys, lengths = split.keys[first], split.key_lengths[first]
        self._part_first.append(first + self._rows)
        self._key_bytes.append(keys[np.arange(keys.shape[1]) < lengths[:, None]])
        self._key_lengths.append(lengths)
        self._key_hash.append(hash_keys(keys, lengths))
        self._sample_offset.append(batch.header_offset[rows][split.taken[first]])
        self._rows += len(split.taken)

    def _leave(self, batch: MemberBatch, rows: slice, split: SplitNames) -> None:
        """Count the members that belong to no sample."""
        names, sizes = batch.names[rows], batch.size_bytes[rows]
        for row in np.setdiff1d(np.arange(len(names)), split.taken).tolist():
            name = decode_name(names[row])
            code = reason_without_sample(name)
            if code is not None:
                self._account.leave("members", code, name, size_bytes=int(sizes[row]))

    def finish(self, scan: TarScan) -> ShardIndex:
        # Account for what belongs to no sample.
        end_offset, warnings = scan.end_offset, scan.warnings
        for link in scan.links:
            self._account.leave("members", "L105", decode_name(link.name))
        if self._hidden:
            warnings = [*warnings, f"{plural(self._hidden, 'member')} whose file name starts with a dot: in no sample"]
        # Number the part names by their bytes, so that the order of the members does not matter.
        part_names = sorted(self._part_ids)
        renumber = np.empty(len(part_names), dtype=np.uint32)
        renumber[[self._part_ids[name] for name in part_names]] = np.arange(len(part_names), dtype=np.uint32)
        # Join the columns, and sort the hashes of keys.
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
            plain=False,  # set below, after scattered parts are gathered
            misread=self._misread,
            warnings=tuple(warnings),
            left_out=tuple(self._account.left_out),
        )
        # Gather the parts that are not neighbours.
        index = _gather_scattered(index)
        plain = index.sample_offsets[:-1] == index.first_part_offsets() - BLOCK
        return replace(index, plain=bool(plain.all()))


def starts_of_keys(split: SplitNames) -> npt.NDArray[np.bool_]:
    """Return True for the first name and for each name with another key than the one before, shape (k,)."""
    words, lengths = split.keys.view(np.uint64), split.key_lengths  # (k, w / 8), (k,)
    starts = np.ones(len(words), dtype=np.bool_)
    starts[1:] = (lengths[1:] != lengths[:-1]) | (words[1:] != words[:-1]).any(axis=1)
    return starts


def _join(pieces: list[npt.NDArray[_Number]], dtype: type[_Number]) -> npt.NDArray[_Number]:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype)


def _gather_scattered(index: ShardIndex) -> ShardIndex:
    """Merge the runs of neighbouring parts that have one key into one sample."""
    first_run = _first_run_of_key(index)  # (n,) for each run of neighbours, the first run of its sample
    is_first = first_run == np.arange(len(index))
    if is_first.all():
        return index
    # Move the parts of each run behind the parts of its sample's first run.
    counts = np.diff(index.part_ends, prepend=0)
    part_order = np.argsort(np.repeat(first_run, counts), kind="stable")  # (p,)
    # Keep keys and hashes of first runs only, and number them again.
    key_lengths = np.diff(index.key_ends, prepend=0)
    new_number = np.cumsum(is_first) - 1
    kept_order = index.key_order[is_first[index.key_order]]
    return replace(
        index,
        part_name=index.part_name[part_order],
        part_offset=index.part_offset[part_order],
        part_size=index.part_size[part_order],
        part_ends=np.cumsum(np.bincount(first_run, weights=counts, minlength=len(index))[is_first].astype(np.int64)),
        key_bytes=index.key_bytes[np.repeat(is_first, key_lengths)],
        key_ends=np.cumsum(key_lengths[is_first]),
        key_hash=index.key_hash[is_first[index.key_order]],
        key_order=new_number[kept_order],
        sample_offsets=index.sample_offsets[np.append(is_first, True)],
        scattered=len(np.unique(first_run[~is_first])),
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


# A line of JSON, then the bytes of each column, in this order.
_COLUMNS: Mapping[str, np.dtype[Any]] = {
    "part_name": np.dtype("<u4"),
    "part_offset": np.dtype("<i8"),
    "part_size": np.dtype("<i8"),
    "part_ends": np.dtype("<i8"),
    "key_bytes": np.dtype("u1"),
    "key_ends": np.dtype("<i8"),
    "key_hash": np.dtype("<u8"),
    "key_order": np.dtype("<i8"),
    "sample_offsets": np.dtype("<i8"),
}
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    """All of an encoded index but its columns."""

    part_names: tuple[str, ...]
    end_offset: _Count
    plain: bool
    scattered: _Count
    misread: _Count
    warnings: tuple[str, ...]
    left_out: tuple[AccountEntry, ...] = ()
    rows: tuple[_Count, ...]  # of each column


def encode_shard_index(index: ShardIndex) -> bytes:
    """Return an index as bytes, for :func:`decode_shard_index`."""
    columns = [np.ascontiguousarray(getattr(index, name), dtype) for name, dtype in _COLUMNS.items()]
    facts = {"part_names": index.part_names, **scan_facts(index)}
    header = {**facts, "left_out": msgspec.to_builtins(index.left_out), "rows": [len(column) for column in columns]}
    return b"".join([json.dumps(header).encode("ascii"), b"\n", *[column.tobytes() for column in columns]])


def decode_shard_index(
    data: bytes, *, name: str, shard_size: int | None = None, is_trusted: bool = False
) -> ShardIndex:
    """Decode an index that :func:`encode_shard_index` encoded.

    Args:
        shard_size: Size of the shard in bytes, the limit of its offsets.
        is_trusted: Skip the check of the numbers: this run has encoded the index.
    """
    try:
        line, _, rest = data.partition(b"\n")
        # The standard library reads names that are not UTF-8; msgspec refuses them.
        header = msgspec.structs.asdict(msgspec.convert(json.loads(line), _Header))
        columns: dict[str, Any] = dict(_split_columns(rest, header.pop("rows")))
        index = ShardIndex(**header, **columns)
        if not is_trusted:
            check_shard_index(index, index.end_offset if shard_size is None else min(shard_size, index.end_offset))
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise FormatError(f"not an index of a shard: {error}", shard=name) from error
    return index


def _split_columns(data: bytes, rows: tuple[int, ...]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    if len(rows) != len(_COLUMNS):
        raise ValueError(f"expected {plural(len(_COLUMNS), 'column')}, found {len(rows)}")
    expected = sum(count * dtype.itemsize for count, dtype in zip(rows, _COLUMNS.values(), strict=True))
    if expected != len(data):
        raise ValueError(f"expected {expected} bytes of columns, found {len(data)}")
    start = 0
    for count, (name, dtype) in zip(rows, _COLUMNS.items(), strict=True):
        yield name, np.frombuffer(data, dtype, count, start) if count else np.empty(0, dtype)
        start += count * dtype.itemsize


def check_shard_index(index: ShardIndex, end: int) -> None:
    """Raise a ``ValueError`` if columns contradict each other, or lead out of a shard that ends at byte ``end``."""
    # The columns must have the rows that others count.
    samples, parts = len(index), len(index.part_name)
    rows = [len(column) for column in (index.part_offset, index.part_size)]
    rows_of_samples = [len(column) for column in (index.key_ends, index.key_hash, index.key_order)]
    if rows != [parts] * 2 or rows_of_samples != [samples] * 3 or len(index.sample_offsets) not in (0, samples + 1):
        raise ValueError("its columns differ in length")
    for ends, last in ((index.part_ends, parts), (index.key_ends, len(index.key_bytes))):
        # Differences of numbers in range do not overflow.
        is_outside = ((ends < 0) | (ends > last)).any()
        if is_outside or (np.diff(ends, prepend=0) < 0).any() or (int(ends[-1]) if samples else 0) != last:
            raise ValueError("a column of ends does not ascend to the last row")
    # Numbers must lead to rows, or into the shard.
    for column, low, high in (
        (index.part_name, 0, len(index.part_names) - 1),
        (index.part_offset, BLOCK, end),
        (index.part_size, 0, end),
        (index.key_order, 0, samples - 1),
        (index.sample_offsets, 0, end),
    ):
        if ((column < low) | (column > high)).any():
            raise ValueError(f"a column has values outside of [{low}, {high}]")
    # Samples must have parts, parts must be inside the shard, and hashes must be sorted.
    if (
        (index.part_size > end - index.part_offset).any()
        or (np.diff(index.part_ends, prepend=0) == 0).any()
        or (index.part_offset % BLOCK).any()
    ):
        raise ValueError("a sample has no parts, or parts at invalid offsets")
    if (index.key_hash[1:] < index.key_hash[:-1]).any() or (np.bincount(index.key_order, minlength=samples) != 1).any():
        raise ValueError("its hashes are not sorted, or do not have every sample once")
