"""Check that a shard is complete and that the index agrees with its headers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..accounting import REASONS
from ..accounting.kinds import kind_of_name
from ..errors import FormatError, StorageError
from ..format.documents.dataset_config import DatasetConfig
from ..format.index.dataset_index import DatasetIndex
from ..format.index.layout import ShardEntry
from ..format.index.shard_index import ShardIndex, index_shard
from ..format.nv_meta import INDEX_SQLITE
from ..format.tar.idx import has_tar_idx, tar_idx_bytes
from ..storage import FileInfo, Storage
from .metadata import check_sqlite_rows
from .report import Finding

_CHUNK = 4 * 1024 * 1024
_SCAN_AGAIN = "run energon prepare --force-overwrite"  # a plain prepare compares size and modification time only


def check_shard(
    storage: Storage,
    index: DatasetIndex,
    shard: ShardEntry,
    config: DatasetConfig | None,
    *,
    read_bytes: bool,
    sqlite_number: int | None,
) -> Iterator[Finding]:
    """Compare the index and the compat files with the headers of one shard.

    Args:
        storage: The dataset.
        index: Index of the dataset.
        shard: Entry of the shard in the index.
        config: Dataset config with the parts that each sample must have; None requires no parts.
        read_bytes: Read the contents too, to find bytes that the disk cannot read.
        sqlite_number: Number of the shard in ``index.sqlite``; None if that file is missing or unreadable.
    """
    name = shard.name
    try:
        now = storage.stat(name)
    except StorageError as error:
        missing = isinstance(error.__cause__, FileNotFoundError)
        yield Finding(code="E101" if missing else "E109", message=error.message, shard=name)
        return
    if shard.has_changed(now):
        is_version = now.size_bytes == shard.size_bytes
        expected = f"version {shard.etag}" if is_version else f"{shard.size_bytes} bytes"
        found = now.etag if is_version else now.size_bytes
        message = f"expected {expected}, as indexed, found {found}: run energon prepare again"
        yield Finding(code="E102", message=message, shard=name)
    elif shard.was_touched(now):
        yield Finding(code="W103", message="the shard was changed or copied since it was indexed", shard=name)
    try:
        scanned = index_shard(storage, name)
        if now.size_bytes == shard.size_bytes:
            yield from _compare(index, shard, scanned)
            yield from check_parts(name, scanned, config)
        yield from check_archive(storage, now, scanned)
        yield from _check_tar_idx(storage, name, scanned)
        if sqlite_number is not None and not scanned.scattered:
            yield from check_sqlite_rows(storage, sqlite_number, name, scanned)
        if read_bytes:
            read_all(storage, name)
    except FormatError as error:
        yield Finding(code="E104", message=error.message, shard=name, offset=error.offset)
    except StorageError as error:
        yield Finding(code="E109", message=error.message, shard=name)


def _compare(index: DatasetIndex, shard: ShardEntry, scanned: ShardIndex) -> Iterator[Finding]:
    """Compare the index of a shard with its headers; report the first difference."""
    try:
        known = index.shard_index(shard)
        yield from _compare_key_table(index, shard, known)
    except (FormatError, IndexError, OverflowError) as error:
        yield Finding(code="E005", message=f"{error}: {_SCAN_AGAIN}".replace("\n", " "), shard=shard.name)
        return
    if len(known) != len(scanned):
        message = f"the index has {len(known)} samples, the shard {len(scanned)}: {_SCAN_AGAIN}"
        yield Finding(code="E105", message=message, shard=shard.name)
        return
    known_names = np.array(known.part_names, dtype=object)[known.part_name]
    scanned_names = np.array(scanned.part_names, dtype=object)[scanned.part_name]
    for column, in_index, in_shard in (
        ("part", known_names, scanned_names),
        ("offset", known.part_offset, scanned.part_offset),
        ("size", known.part_size, scanned.part_size),
    ):
        both = min(len(in_index), len(in_shard))
        differs = np.flatnonzero(in_index[:both] != in_shard[:both])
        if len(differs):
            row = int(differs[0])
            # If one of them lacks a part, this row of it belongs to a later sample.
            sample = min(int(np.searchsorted(each.part_ends, row, side="right")) for each in (known, scanned))
            message = f"the index has {column} {in_index[row]}, the shard {in_shard[row]}: {_SCAN_AGAIN}"
            yield Finding(
                code="E105",
                message=message,
                shard=shard.name,
                key=scanned.keys()[sample],
                part=str(scanned_names[row]),
                offset=int(scanned.part_offset[row]),
            )
            return
    if (known.part_ends != scanned.part_ends).any():
        sample = int(np.flatnonzero(known.part_ends != scanned.part_ends)[0])
        message = f"the index assigns other parts to this sample than the shard: {_SCAN_AGAIN}"
        yield Finding(code="E105", message=message, shard=shard.name, key=scanned.keys()[sample])
        return
    if known.key_bytes.tobytes() != scanned.key_bytes.tobytes() or (known.key_ends != scanned.key_ends).any():
        pairs = zip(known.keys(), scanned.keys(), strict=True)
        indexed_key, key = next(pair for pair in pairs if pair[0] != pair[1])
        message = f"the index has key {indexed_key!r}, the shard {key!r}: {_SCAN_AGAIN}"
        yield Finding(code="E105", message=message, shard=shard.name, key=key)


def _compare_key_table(index: DatasetIndex, shard: ShardEntry, known: ShardIndex) -> Iterator[Finding]:
    """Check that look-up by key finds each sample; report the first that it does not find."""
    if not shard.samples:
        return
    samples = shard.first_sample + known.key_order
    missed = samples[~_in_key_table(index, known.key_hash, samples.astype(np.uint64))]
    if len(missed):
        sample = int(missed.min())
        message = f"look-up by this key does not find the sample: {_SCAN_AGAIN}"
        yield Finding(code="E005", message=message, shard=shard.name, key=index.key(sample))


def _in_key_table(
    index: DatasetIndex, hashes: npt.NDArray[np.uint64], samples: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """Return which of n pairs of hash and sample are in the key table; shape (n,).

    Bisects by hash, and among equal hashes by sample.
    """
    low = np.searchsorted(index.key_hash, hashes, "left")
    ends = np.searchsorted(index.key_hash, hashes, "right")
    high = ends.copy()
    while (open_rows := np.flatnonzero(low < high)).size:
        middle = (low[open_rows] + high[open_rows]) // 2
        is_before = index.key_sample[middle] < samples[open_rows]
        low[open_rows[is_before]] = middle[is_before] + 1
        high[open_rows[~is_before]] = middle[~is_before]
    found = low < ends
    found[found] = index.key_sample[low[found]] == samples[found]
    return found


def check_parts(shard: str, scanned: ShardIndex, config: DatasetConfig | None) -> Iterator[Finding]:
    """Find empty, repeated, scattered and missing parts of samples by the headers of a shard.

    Args:
        shard: Name of the shard.
        scanned: Index of its headers.
        config: Dataset config with the parts that each sample must have; None requires no parts.
    """
    counts = np.diff(scanned.part_ends, prepend=0)
    sample_of = np.repeat(np.arange(len(scanned)), counts)  # (p,)
    keys = scanned.keys()

    def at(row: int, code: str, message: str) -> Finding:
        part = scanned.part_names[int(scanned.part_name[row])]
        offset = int(scanned.part_offset[row])
        return Finding(code=code, message=message, shard=shard, key=keys[sample_of[row]], part=part, offset=offset)

    for row in np.flatnonzero(scanned.part_size == 0).tolist():
        is_text = kind_of_name(scanned.part_names[int(scanned.part_name[row])]) == "text"
        yield at(row, "W308" if is_text else "E303", "the part is empty (0 bytes)")

    by_name = np.lexsort((scanned.part_name, sample_of))
    same = (np.diff(sample_of[by_name]) == 0) & (np.diff(scanned.part_name[by_name].astype(np.int64)) == 0)
    for row in by_name[1:][same].tolist():
        yield at(row, "E306", "the sample has this part twice; readers disagree on which one wins")

    for sample in _scattered(scanned, sample_of):
        yield Finding(
            code="W304",
            message="other samples are between its parts, so reading it takes longer",
            shard=shard,
            key=keys[sample],
        )

    for field, alternatives in required_parts(config).items():
        names = [number for number, name in enumerate(scanned.part_names) if name in alternatives]
        has = np.zeros(len(scanned), np.bool_)
        has[sample_of[np.isin(scanned.part_name, names)]] = True
        for sample in np.flatnonzero(~has).tolist():
            rows = slice(int(scanned.part_ends[sample] - counts[sample]), int(scanned.part_ends[sample]))
            parts = ", ".join(scanned.part_names[name] for name in scanned.part_name[rows].tolist())
            yield Finding(
                code="E301",
                message=f"field {field!r} needs part {' or '.join(alternatives)}; the sample has {parts}",
                shard=shard,
                key=keys[sample],
                part=alternatives[0],
                offset=int(scanned.sample_offsets[sample]),
            )


def _scattered(scanned: ShardIndex, sample_of: npt.NDArray[np.int64]) -> list[int]:
    """Return the samples that have other parts between theirs; ``sample_of`` maps p parts to samples, shape (p,)."""
    if not scanned.scattered:
        return []
    place = np.empty(len(sample_of), np.int64)
    place[np.argsort(scanned.part_offset)] = np.arange(len(sample_of))
    gaps = (np.diff(sample_of) == 0) & (np.diff(place) != 1)
    return [int(sample) for sample in np.unique(sample_of[1:][gaps])]


def required_parts(config: DatasetConfig | None) -> dict[str, list[str]]:
    """Return the required fields of samples, each with the alternative parts that fill it."""
    if config is None or config.field_map is None or config.spec is None:
        return {}
    optional = config.spec.optional
    return {
        name: list(dict.fromkeys(access.part for access in accesses))
        for name, accesses in config.field_map.fields.items()
        if name not in optional
    }


def check_archive(storage: Storage, info: FileInfo, scanned: ShardIndex) -> Iterator[Finding]:
    """Report oddities of a tar file: its warnings, an archive without samples, bytes after its end."""
    shard = info.name
    for warning in scanned.warnings:
        yield Finding(code="W106", message=warning, shard=shard)
    for entry in scanned.left_out:
        meaning = REASONS[entry.reason]
        message = f"{entry.count:,} members belong to no sample, first {entry.example}: {meaning} ({entry.reason})"
        yield Finding(code="W106", message=message, shard=shard)
    if not len(scanned):
        yield Finding(code="W108", message="no member is named key.part", shard=shard)
    with storage.open(shard, info) as file:
        for offset in range(int(scanned.sample_offsets[-1]), file.size_bytes, _CHUNK):
            data = file.read_at(offset, _CHUNK)
            if data.strip(b"\0"):
                found = offset + len(data) - len(data.lstrip(b"\0"))
                message = "no tool reads these bytes; two tar files joined by cat look like this"
                yield Finding(code="W107", message=message, shard=shard, offset=found)
                break


def _check_tar_idx(storage: Storage, shard: str, scanned: ShardIndex) -> Iterator[Finding]:
    """Compare the ``.tar.idx`` file with the shard; scattered samples cannot have one."""
    if scanned.scattered:
        return
    if has_tar_idx(storage, shard, len(scanned)):
        if storage.read(f"{shard}.idx") != tar_idx_bytes(scanned.sample_offsets):
            yield Finding(code="E007", message=f"its offsets differ from the shard's: {_SCAN_AGAIN}", shard=shard)
    elif storage.exists(f"{shard}.idx"):
        yield Finding(code="E007", message="its length does not fit the shard: run energon prepare again", shard=shard)
    elif storage.exists(INDEX_SQLITE):
        yield Finding(code="W008", message="run energon prepare again", shard=shard)


def read_all(storage: Storage, shard: str) -> None:
    """Read every byte of a shard.

    Raises:
        StorageError: The disk cannot read some of them.
    """
    with storage.open(shard) as file:
        for offset in range(0, file.size_bytes, _CHUNK):
            data = file.read_at(offset, _CHUNK)
            if len(data) < min(_CHUNK, file.size_bytes - offset):
                raise StorageError(f"the file ended at byte {offset + len(data)} while it was read", path=shard)
