"""Check that a shard is complete and that the index agrees with its headers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..engine import meanings
from ..errors import EnergonError, FormatError, MissingPackageError, StorageError, plural
from ..format.index.dataset_index import DatasetIndex
from ..format.index.layout import ShardEntry
from ..format.index.shard_index import ShardIndex
from ..storage import FileInfo, Storage
from .metadata import SCAN_AGAIN, DatasetFiles
from .rule import DATASETS, FILES, TARS, Finding, LintRule, LintRules, ScannedShard

_CHUNK = 4 * 1024 * 1024  # bytes of a read


def unreadable(error: EnergonError, shard: str, *, key: str | None = None, offset: int | None = None) -> Finding:
    """Return the finding about a shard that cannot be read; a package that is missing is no fault of the data."""
    if isinstance(error, MissingPackageError):
        raise error
    return Finding(Shards.E109, error.message, shard=shard, key=key, offset=offset)


def compare_file(storage: Storage, shard: ShardEntry) -> tuple[FileInfo | None, list[Finding]]:
    """Return the file of a shard, None if it is missing, and the findings about changes since it was indexed."""
    name = shard.name
    try:
        now = storage.stat(name)
    except StorageError as error:
        return None, [Finding(Shards.E101, error.message, shard=name) if error.is_missing else unreadable(error, name)]
    if shard.has_changed(now):
        is_version = now.size_bytes == shard.size_bytes
        expected = f"version {shard.etag}" if is_version else f"{shard.size_bytes} bytes"
        actual = now.etag if is_version else now.size_bytes
        message = f"expected {expected}, as indexed, found {actual}: run energon prepare again"
        return now, [Finding(Shards.E102, message, shard=name)]
    if shard.was_touched(now):
        return now, [Finding(Shards.W103, "the shard was changed or copied since it was indexed", shard=name)]
    return now, []


def _compare(scan: ScannedShard) -> Iterator[Finding]:
    # A stale index is a finding already.
    index, shard, scanned = scan.index, scan.entry, scan.headers
    if index is None or shard is None or scan.has_changed_size:
        return
    # Read the rows of the index.
    try:
        known = index.shard_index(shard)
        yield from _compare_key_table(index, shard, known)
    except (FormatError, IndexError, OverflowError) as error:
        yield Finding(DatasetFiles.E005, f"{error}: {SCAN_AGAIN}".replace("\n", " "), shard=shard.name)
        return
    # Compare the samples, their parts, and their keys.
    if len(known) != len(scanned):
        message = f"the index has {plural(len(known), 'sample')}, the shard {len(scanned)}: {SCAN_AGAIN}"
        yield Finding(Shards.E105, message, shard=shard.name)
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
            message = f"the index has {column} {in_index[row]}, the shard {in_shard[row]}: {SCAN_AGAIN}"
            yield Finding(
                Shards.E105,
                message,
                shard=shard.name,
                key=scanned.keys()[sample],
                part=str(scanned_names[row]),
                offset=int(scanned.part_offset[row]),
            )
            return
    # The parts are equal: now compare which samples they belong to, and the keys.
    if (known.part_ends != scanned.part_ends).any():
        sample = int(np.flatnonzero(known.part_ends != scanned.part_ends)[0])
        message = f"the index assigns other parts to this sample than the shard: {SCAN_AGAIN}"
        yield Finding(Shards.E105, message, shard=shard.name, key=scanned.keys()[sample])
        return
    if known.key_bytes.tobytes() != scanned.key_bytes.tobytes() or (known.key_ends != scanned.key_ends).any():
        pairs = zip(known.keys(), scanned.keys(), strict=True)
        indexed_key, key = next(pair for pair in pairs if pair[0] != pair[1])
        message = f"the index has key {indexed_key!r}, the shard {key!r}: {SCAN_AGAIN}"
        yield Finding(Shards.E105, message, shard=shard.name, key=key)


def _compare_key_table(index: DatasetIndex, shard: ShardEntry, known: ShardIndex) -> Iterator[Finding]:
    if not shard.samples:
        return
    # Look up each sample of the shard; one that is not found shows a damaged table.
    samples = shard.first_sample + known.key_order
    missed = samples[~_in_key_table(index, known.key_hash, samples.astype(np.uint64))]
    if len(missed):
        sample = int(missed.min())
        message = f"look-up by this key does not find the sample: {SCAN_AGAIN}"
        yield Finding(DatasetFiles.E005, message, shard=shard.name, key=index.key(sample))


def _in_key_table(
    index: DatasetIndex, hashes: npt.NDArray[np.uint64], samples: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """Return which of n pairs of hash and sample are in the key table; shape (n,)."""
    # Bisect by hash for all pairs at once, then among equal hashes by sample.
    low = np.searchsorted(index.key_hash, hashes, "left")
    ends = np.searchsorted(index.key_hash, hashes, "right")
    high = ends.copy()
    # Each round halves the ranges that are still open.
    while (open_rows := np.flatnonzero(low < high)).size:
        middle = (low[open_rows] + high[open_rows]) // 2
        is_before = index.key_sample[middle] < samples[open_rows]
        low[open_rows[is_before]] = middle[is_before] + 1
        high[open_rows[~is_before]] = middle[~is_before]
    is_known = low < ends
    is_known[is_known] = index.key_sample[low[is_known]] == samples[is_known]
    return is_known


def _check_members(scan: ScannedShard) -> Iterator[Finding]:
    for warning in scan.headers.warnings:
        yield Finding(Shards.W106, warning, shard=scan.name)
    for entry in scan.headers.left_out:
        meaning = meanings()[entry.reason]
        members = plural(entry.count, "member belongs", "members belong")
        message = f"{members} to no sample, first {entry.example}: {meaning} ({entry.reason})"
        yield Finding(Shards.W106, message, shard=scan.name)
    if not len(scan.headers):
        yield Finding(Shards.W108, "no member is named key.part", shard=scan.name)


def _check_end(scan: ScannedShard) -> Iterator[Finding]:
    with scan.storage.open(scan.name, scan.info) as file:
        # Archives end with zeros: other bytes after the last sample may be lost samples.
        for offset in range(int(scan.headers.sample_offsets[-1]), file.size_bytes, _CHUNK):
            data = file.read_at(offset, _CHUNK)
            if data.strip(b"\0"):
                start = offset + len(data) - len(data.lstrip(b"\0"))
                message = "no tool reads these bytes; two tar files joined by cat look like this"
                yield Finding(Shards.W107, message, shard=scan.name, offset=start)
                break


def read_all(storage: Storage, shard: str) -> None:
    """Read every byte of a shard."""
    with storage.open(shard) as file:
        for offset in range(0, file.size_bytes, _CHUNK):
            data = file.read_at(offset, _CHUNK)
            if len(data) < min(_CHUNK, file.size_bytes - offset):
                raise StorageError(f"the file ended at byte {offset + len(data)} while it was read", path=shard)


class Shards(LintRules):
    """The rules of shards, and of files that cannot be read."""

    title = "Shards"
    kinds = TARS

    E101 = LintRule(
        "a shard is missing",
        why="Every sample of the shard fails to load.",
        action="restore it, or prepare again without it",
        example="A shard was moved to another disk to free space.",
        kinds=DATASETS,
        hides_samples=True,
    )
    E102 = LintRule(
        "a shard has another size or, in an object store, version than when it was indexed: the index is stale",
        why="The index has the positions of other bytes. Loaders refuse the shard instead of reading wrong samples.",
        action="prepare again",
        example="A shard was written again with more samples after the dataset was prepared.",
        kinds=DATASETS,
        is_outdated=True,
        hides_samples=True,
    )
    W103 = LintRule(
        "a shard has another modification time than when it was indexed",
        why="The contents may differ from what was indexed, although the size is the same.",
        action="none, if it was copied; otherwise prepare again",
        example="The dataset was copied with `cp -r`, which sets new modification times.",
        kinds=DATASETS,
    )
    E104 = LintRule(
        "a shard is damaged or truncated",
        why="Samples after the damage are lost, and samples in it have wrong bytes.",
        action="copy it from its source again; see [Fix a broken dataset](../how-to/fix-a-broken-dataset.md)",
        example="A download stopped, and the last sample of the shard is cut.",
        hides_samples=True,
    )
    E105 = LintRule(
        "the index disagrees with the shard's headers",
        why="Loaders read bytes that do not belong to the sample.",
        action="prepare again with `--force-overwrite`",
        example="A part was replaced inside of the shard by one of another size, and the size of the shard is the "
        "same.",
        kinds=DATASETS,
        of_shard=_compare,
        is_outdated=True,
        hides_samples=True,
    )
    W106 = LintRule(
        "a shard is unusual in a harmless way",
        why="Samples are read as they should be, but other tools may read the shard in another way.",
        action="none; members without an extension, which belong to no sample, need other names if they are parts",
        example="The shard holds a file named `README`.",
        of_shard=_check_members,
    )
    W107 = LintRule(
        "there are bytes after the end of the archive",
        why="No tool reads these bytes. They may be samples that are lost.",
        action="none; if samples are missing, the shard was concatenated incorrectly from several",
        example="`cat a.tar b.tar > c.tar` joined two archives: readers stop at the end of the first one.",
        of_shard=_check_end,
    )
    W108 = LintRule(
        "a shard holds no samples",
        why="Nothing is lost, but an empty shard is most often the trace of a job that failed.",
        action="remove it, or find the cause",
        example="A worker of a job that writes shards had no input.",
        of_shard=_check_members,
    )
    E109 = LintRule(
        "a shard cannot be read",
        why="Every sample of the shard fails to load.",
        action="check permissions and the disk",
        example="The shard belongs to another user and is not readable.",
        kinds=FILES,
        hides_samples=True,
    )
