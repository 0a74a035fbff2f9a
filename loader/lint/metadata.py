"""Check the files of ``.nv-meta`` against each other, and against the shards on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from itertools import islice

import numpy as np

from ..dataset.dataset import Dataset
from ..dataset.split_parts import open_filter, samples_of_part
from ..dataset.unprepared.tar_index import TarIndex
from ..errors import ConfigError, EnergonError, StorageError
from ..format.compat.sqlite_index import open_sqlite
from ..format.documents.providers import SHARD_SUFFIXES
from ..format.documents.split_config import SplitConfig, split_sample_name
from ..format.documents.subset import do_overlap
from ..format.filters.files import FilterFiles, filter_names
from ..format.index.dataset_index import DatasetIndex
from ..format.index.keys import equal_neighbours
from ..format.index.layout import SampleIndex, once_warning
from ..format.index.shard_index import ShardIndex
from ..format.nv_meta import INDEX_SQLITE
from ..format.prepare.shards import find_shards
from ..format.unfinished import left_sentence
from ..storage import Storage
from .report import Finding


def unreadable_dataset(error: EnergonError, *, code: str = "E001") -> Finding:
    """Return the finding for a dataset that cannot be opened."""
    return Finding(code=code, message=error.message, at=error.at, hint=error.hint)


def _config_findings(code: str, error: ConfigError) -> Iterator[Finding]:
    """Yield a finding for each fault of a file."""
    if error.faults:
        yield from (Finding(code=code, message=f"{error.file}: {fault}") for fault in error.faults)
    else:
        yield Finding(code=code, message=f"{error.at}: {error.message}" if error.at else error.message)


def check_config(dataset: Dataset) -> Iterator[Finding]:
    """Check that ``dataset.yaml`` exists and is valid."""
    try:
        if dataset.documents.config is None:
            message = (
                "there is no dataset.yaml, so samples are crude: use cookers in training, or run energon prepare "
                "--sample-type … --field-map …"
            )
            yield Finding(code="W004", message=message)
    except ConfigError as error:
        yield from _config_findings("E003", error)


def check_left_files(dataset: Dataset) -> Iterator[Finding]:
    """Check that no interrupted run has left files in the folder."""
    sentence = left_sentence(dataset.storage)
    if sentence:
        yield Finding(code="W010", message=f"{sentence}: run energon prepare again, which removes them")


def check_filters(dataset: Dataset) -> Iterator[Finding]:
    """Check every filter of the dataset, row by row."""
    for name in filter_names(dataset.storage):
        try:
            open_filter(dataset, name).check()
        except EnergonError as error:
            yield Finding(code="E206", message=error.message)


# --------------------------------------------------------------------------------------------------------- the split


def check_split(dataset: Dataset) -> Iterator[Finding]:
    """Check the split against the shards of the dataset and those on disk."""
    try:
        split = dataset.documents.split
    except ConfigError as error:
        yield from _config_findings("E002", error)
        return
    if split is None:
        yield Finding(code="E002", message="split.yaml is missing: run energon prepare --split-ratio 8,1,1")
        return
    parts_of: dict[str, list[str]] = {}
    for part, shards in split.split_parts.items():
        if not shards:
            yield Finding(code="W205", message=f"split part {part!r} has no shards")
        for shard in shards:
            for other in parts_of.setdefault(shard, []):
                if other != part and _do_parts_overlap(dataset, split, other, part):
                    message = f"the shard is in parts {other!r} and {part!r}"
                    yield Finding(code="E203", message=message, shard=shard)
            parts_of[shard].append(part)
            if shard not in dataset.shard_counts:
                yield Finding(code="E202", message=f"split part {part!r} names this shard", shard=shard)
        try:
            samples_of_part(dataset, part)
        except ConfigError as error:
            yield Finding(code="E002", message=f"sample_ranges.{part}: {error.message}")
    for part, name in split.sample_filters.items():
        if not FilterFiles.of_dataset(dataset.storage, name).exist():
            yield Finding(code="E206", message=f"part {part!r} of the split has the filter {name!r}, which is missing")
    yield from _unknown_excludes(dataset.index, split)
    yield from _unused_shards(dataset, split, parts_of)


def _do_parts_overlap(dataset: Dataset, split: SplitConfig, one: str, other: str) -> bool:
    ranges, filters = split.sample_ranges, split.sample_filters
    if one in filters and other in filters:
        return _do_filters_overlap(dataset, filters[one], filters[other])
    return do_overlap([ranges[one]] if one in ranges else [], [ranges[other]] if other in ranges else [])


def _do_filters_overlap(dataset: Dataset, one: str, other: str) -> bool:
    try:
        return len(open_filter(dataset, one).intersect(open_filter(dataset, other))) > 0
    except EnergonError:
        return False  # reported with the filter


def _unknown_excludes(index: SampleIndex, split: SplitConfig) -> Iterator[Finding]:
    known = frozenset(shard.name for shard in index.shards)
    for name in split.exclude:
        shard, key = split_sample_name(name, known)
        if shard not in known and not (key is None and index.find(name)):
            yield Finding(code="W204", message=f"excluded: {name!r}", shard=shard)
        elif shard in known and key is not None and not index.find(f"{shard}/{key}"):
            yield Finding(code="W204", message=f"excluded: {name!r}", shard=shard, key=key)


def _unused_shards(dataset: Dataset, split: SplitConfig, used: Collection[str]) -> Iterator[Finding]:
    try:
        on_disk = find_shards(dataset.storage).names
    except StorageError:
        on_disk = []  # every shard is missing, and reported one by one
    for name in dataset.storage.unreadable_names:
        if name.endswith(SHARD_SUFFIXES) and name not in dataset.shard_counts:
            message = "a name that no reader opens: a pipe, device or socket, or one with '..'"
            yield Finding(code="W201", message=message, shard=name, in_index=False)
    excluded = split.excluded_shards()
    for shard in on_disk:
        if shard not in dataset.shard_counts:
            message = "the shard is not in the index either: run energon prepare again"
            yield Finding(code="W201", message=message, shard=shard, in_index=False)
        elif shard not in used and shard not in excluded:
            yield Finding(code="W201", message="training never reads this shard", shard=shard)


# ---------------------------------------------------------------------------------------------------- duplicate keys

_MAX_DUPLICATES = 100  # findings
_HASHES_AT_ONCE = 1 << 20


def check_duplicate_keys(index: DatasetIndex | TarIndex) -> Iterator[Finding]:
    """Find keys that occur in several shards: the first hundred, and then the number of all."""
    if index.layout.duplicate_keys:
        yield from islice(_duplicate_keys(index), _MAX_DUPLICATES)
        if index.layout.duplicate_keys > _MAX_DUPLICATES:
            total = index.layout.duplicate_keys
            yield Finding(
                code="W305", message=f"{total} samples in all (energon prepare --fix-duplicates renames them)"
            )


def check_part_names(index: SampleIndex) -> Iterator[Finding]:
    """Report part names that are the rest of base names with dots."""
    for message in once_warning(index.layout):
        yield Finding(code="W309", message=message)


def _duplicate_keys(index: DatasetIndex | TarIndex) -> Iterator[Finding]:
    start = 0
    while start < len(index):
        stop = min(start + _HASHES_AT_ONCE, len(index))
        while stop < len(index) and index.key_hash[stop] == index.key_hash[stop - 1]:
            stop += 1
        for low, high in equal_neighbours(np.array(index.key_hash[start:stop])):
            seen: dict[str, int] = {}
            for sample in index.key_sample[start + low : start + high].tolist():
                first = seen.setdefault(index.key(sample), sample)
                if first != sample:
                    message = f"sample {index.full_key(first)} has the same key: look-up by bare key finds both"
                    yield Finding(
                        code="W305", message=message, shard=index.shard_of(sample).name, key=index.key(sample)
                    )
        start = stop


# ------------------------------------------------------------------------------------------------------ index.sqlite

_REBUILD = "energon prepare --force-overwrite rebuilds it"
_ROWS_AT_ONCE = 20_000


def check_sqlite(dataset: Dataset) -> Iterator[Finding]:
    """Check that ``index.sqlite`` can be read, and that it holds only shards of the dataset."""
    if not dataset.storage.exists(INDEX_SQLITE):
        return
    try:
        with closing(open_sqlite(dataset.storage.local_path(INDEX_SQLITE))) as database:
            # The first and the last entry of the primary key, without a scan of all rows.
            ends = ("ORDER BY tar_file_id LIMIT 1", "ORDER BY tar_file_id DESC LIMIT 1")
            queries = (f"SELECT tar_file_id FROM samples {end}" for end in ends)  # noqa: S608 - constants
            numbers = [row[0] for query in queries for row in database.execute(query)]
    except sqlite3.Error as error:
        yield Finding(code="E006", message=f"index.sqlite cannot be read ({error}): {_REBUILD}")
        return
    shards = len(dataset.shard_counts)
    unknown = [number for number in numbers if number not in range(shards)]
    if unknown:
        message = (
            f"index.sqlite holds samples of shard number {unknown[-1]}, and .info.json has {shards} shards: {_REBUILD}"
        )
        yield Finding(code="E006", message=message)


def check_sqlite_rows(storage: Storage, number: int, shard: str, scanned: ShardIndex) -> Iterator[Finding]:
    """Compare the rows of one shard in ``index.sqlite`` with its headers; report the first that differs.

    Args:
        storage: The dataset.
        number: Number of the shard (``tar_file_id``).
        shard: Name of the shard.
        scanned: Index of the shard's headers, without scattered samples: ``index.sqlite`` cannot express those.
    """
    try:
        with closing(open_sqlite(storage.local_path(INDEX_SQLITE))) as database:
            yield from _compare_samples(database, number, shard, scanned)
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'sample_parts'").fetchone():
                yield from _compare_parts(database, number, shard, scanned)
    except sqlite3.Error as error:
        yield Finding(code="E006", message=f"index.sqlite cannot be read ({error}): {_REBUILD}", shard=shard)


def _compare_samples(database: sqlite3.Connection, number: int, shard: str, scanned: ShardIndex) -> Iterator[Finding]:
    keys, offsets, sizes = scanned.keys(), scanned.sample_offsets, np.diff(scanned.sample_offsets)
    cursor = database.execute(
        "SELECT sample_key, sample_index, byte_offset, byte_size FROM samples WHERE tar_file_id = ? "
        "ORDER BY sample_index",
        (number,),
    )
    for rows in _row_ranges(len(scanned)):
        expected = zip(
            keys[rows],
            range(rows.start, rows.stop),
            offsets[:-1][rows].tolist(),
            sizes[rows].tolist(),
            strict=True,
        )
        found = cursor.fetchmany(rows.stop - rows.start)
        for sample, (right, row) in enumerate(zip(expected, [*found, None], strict=False), start=rows.start):
            if row != right:
                message = f"index.sqlite has {row}, the shard has sample {right}: {_REBUILD}"
                yield Finding(code="E006", message=message, shard=shard, key=keys[sample], offset=int(offsets[sample]))
                return
    if cursor.fetchone() is not None:
        message = f"index.sqlite has more samples than the shard's {len(scanned)}: {_REBUILD}"
        yield Finding(code="E006", message=message, shard=shard)


def _compare_parts(database: sqlite3.Connection, number: int, shard: str, scanned: ShardIndex) -> Iterator[Finding]:
    sample_of = np.repeat(np.arange(len(scanned)), np.diff(scanned.part_ends, prepend=0))
    cursor = database.execute(
        "SELECT sample_index, part_name, content_byte_offset, content_byte_size FROM sample_parts "
        "WHERE tar_file_id = ? ORDER BY sample_index, content_byte_offset",
        (number,),
    )
    for rows in _row_ranges(len(sample_of)):
        expected = zip(
            sample_of[rows].tolist(),
            (scanned.part_names[name] for name in scanned.part_name[rows].tolist()),
            scanned.part_offset[rows].tolist(),
            scanned.part_size[rows].tolist(),
            strict=True,
        )
        found = cursor.fetchmany(rows.stop - rows.start)
        for right, row in zip(expected, [*found, None], strict=False):
            if row != right:
                sample, part, offset, _ = right
                message = f"index.sqlite has {row}, the shard has part {right}: {_REBUILD}"
                key = scanned.keys()[sample]
                yield Finding(code="E006", message=message, shard=shard, key=key, part=part, offset=offset)
                return
    if cursor.fetchone() is not None:
        message = f"index.sqlite has more parts than the shard's {len(sample_of)}: {_REBUILD}"
        yield Finding(code="E006", message=message, shard=shard)


def _row_ranges(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _ROWS_AT_ONCE):
        yield slice(start, min(start + _ROWS_AT_ONCE, rows))
