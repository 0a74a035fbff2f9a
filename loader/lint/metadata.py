"""Check the documents, filters and indexes of ``.nv-meta``, and compare those for other tools with the shards."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from itertools import zip_longest
from typing import Any

import numpy as np

from ..dataset.dataset import Dataset
from ..dataset.split_parts import open_filter, samples_of_part
from ..errors import ConfigError, EnergonError, StorageError, plural
from ..format.columns.column_files import read_column
from ..format.compat.sqlite_index import open_sqlite
from ..format.data_kind import SHARD_SUFFIXES
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.split_config import SplitConfig, split_sample_name
from ..format.documents.subset import do_overlap
from ..format.filters.rows import FilterFiles, filter_names
from ..format.index.layout import AbstractIndex
from ..format.nv_meta import INDEX_SQLITE
from ..format.tar.header import has_tar_idx, tar_idx_bytes
from ..format.unfinished import left_sentence
from ..prepare.shards import find_shards
from .rule import DATASETS, SHARDS, Finding, LintRule, LintRules, ScannedShard

# The split and the filters.


def _check_filters(dataset: Dataset) -> Iterator[Finding]:
    for name in filter_names(dataset.storage):
        try:
            open_filter(dataset, name).check()
        except EnergonError as error:
            yield Finding(Split.E206, error.message)


def _check_columns(dataset: Dataset) -> Iterator[Finding]:
    for name in dataset.documents.column_names():
        try:
            read_column(dataset.storage, dataset.index.shards, name).check()
        except EnergonError as error:
            yield Finding(DatasetFiles.E011, error.message, hint=error.hint)


def check_split(dataset: Dataset) -> Iterator[Finding]:
    """Check the split against the shards of the dataset and on disk."""
    # Read the split.
    try:
        split = dataset.documents.split
    except ConfigError as error:
        yield from faults_of_file(DatasetFiles.E002, error)
        return
    if split is None:
        yield Finding(DatasetFiles.E002, "split.yaml is missing: run energon prepare --split-ratio 8,1,1")
        return
    # Check the shards and ranges of each part.
    parts_of: dict[str, list[str]] = {}
    for part, shards in split.split_parts.items():
        if not shards:
            yield Finding(Split.W205, f"split part {part!r} has no shards")
        for shard in shards:
            for other in parts_of.setdefault(shard, []):
                if other != part and _do_parts_overlap(dataset, split, other, part):
                    yield Finding(Split.E203, f"the shard is in parts {other!r} and {part!r}", shard=shard)
            parts_of[shard].append(part)
            if shard not in dataset.shard_counts:
                yield Finding(Split.E202, f"split part {part!r} names this shard", shard=shard)
        try:
            samples_of_part(dataset, part)
        except ConfigError as error:
            yield Finding(DatasetFiles.E002, f"sample_ranges.{part}: {error.message}")
    # Check the filters, the exclusions and the other shards.
    for part, name in split.sample_filters.items():
        if not FilterFiles.of_dataset(dataset.storage, name).exist():
            yield Finding(Split.E206, f"part {part!r} of the split has the filter {name!r}, which is missing")
    yield from _unknown_excludes(dataset.index, split)
    yield from _unused_shards(dataset, parts_of)


def _do_parts_overlap(dataset: Dataset, split: SplitConfig, part: str, other: str) -> bool:
    ranges, filters = split.sample_ranges, split.sample_filters
    if part in filters and other in filters:
        try:
            return len(open_filter(dataset, filters[part]).intersect(open_filter(dataset, filters[other]))) > 0
        except EnergonError:
            return False  # reported with the filter
    return do_overlap([ranges[part]] if part in ranges else [], [ranges[other]] if other in ranges else [])


def _unknown_excludes(index: AbstractIndex, split: SplitConfig) -> Iterator[Finding]:
    # Keys may have slashes, so an entry is split by the names of shards.
    known = frozenset(shard.name for shard in index.shards)
    for name in split.exclude:
        shard, key = split_sample_name(name, known)
        if shard not in known and not (key is None and index.find(name)):
            yield Finding(Split.W204, f"excluded: {name!r}", shard=shard)
        elif shard in known and key is not None and not index.find(f"{shard}/{key}"):
            yield Finding(Split.W204, f"excluded: {name!r}", shard=shard, key=key)


def _unused_shards(dataset: Dataset, used: Collection[str]) -> Iterator[Finding]:
    unreadable: list[str] = []
    try:
        on_disk = find_shards(dataset.storage, skipped=unreadable).names
    except StorageError:
        on_disk = []  # every shard is missing, and reported one by one
    for name in unreadable:
        if name.endswith(SHARD_SUFFIXES) and name not in dataset.shard_counts:
            message = "a name that no reader opens: a pipe, device or socket, or one with '..'"
            yield Finding(Split.W201, message, shard=name, in_index=False)
    excluded = dataset.documents.excluded_shards
    for shard in on_disk:
        if shard not in dataset.shard_counts:
            message = "the shard is not in the index either: run energon prepare again"
            yield Finding(Split.W201, message, shard=shard, in_index=False)
        elif shard not in used and shard not in excluded:
            yield Finding(Split.W201, "training never reads this shard", shard=shard)


class Split(LintRules):
    """The rules of splits and filters."""

    title = "The split"
    kinds = DATASETS

    W201 = LintRule(
        "a shard is on disk, but in no split part",
        why="Its samples are never loaded.",
        action="add it to `split.yaml`, or list it under `exclude`",
        example="A shard was copied into the folder after the dataset was prepared.",
        of_dataset=check_split,
    )
    E202 = LintRule(
        "the split names a shard that is not in the dataset",
        why="The split part cannot be loaded as it is written.",
        action="correct the name; if the shard is new, prepare again",
        example="A shard was renamed, and `split.yaml` has its old name.",
        of_dataset=check_split,
    )
    E203 = LintRule(
        "a shard is in two split parts",
        why="The same samples are used for training and for validation, so that the validation loss is too low.",
        action="remove it from one of them; otherwise validation uses training data",
        example="Two patterns of `--split-parts` match the same shard.",
        of_dataset=check_split,
    )
    W204 = LintRule(
        "the split excludes something that does not exist",
        why="A sample that should be excluded may be used: its name is not the one in `exclude`.",
        action="correct the name",
        example="`exclude` has `shard_0.tar/000O12`, with the letter O.",
        of_dataset=check_split,
    )
    W205 = LintRule(
        "a split part is empty",
        why="A loader of that split part stops with an error.",
        action="see [Choose the split](../how-to/choose-the-split.md)",
        example="A ratio of 8,1,1 over three shards leaves none for `test`.",
        of_dataset=check_split,
    )
    E206 = LintRule(
        "a filter is damaged, or belongs to other shards",
        why="The positions in the filter belong to other samples. Loaders refuse it.",
        action="[build it again](../how-to/filter-samples.md)",
        example="Shards were added to the dataset after the filter was built.",
        of_dataset=_check_filters,
    )


# The documents, and files that an interrupted run has left.


def unreadable_dataset(error: EnergonError, rule: LintRule | None = None) -> Finding:
    """Return the finding for a dataset that cannot be opened; it is not prepared, unless a rule says more."""
    return Finding(rule or DatasetFiles.E001, error.message, at=error.at, hint=error.hint)


def readable_config(dataset: Dataset) -> DatasetConfig | None:
    """Return the content of ``dataset.yaml``; None if it is missing or, which is a finding, invalid."""
    try:
        return dataset.documents.config
    except ConfigError:
        return None


def faults_of_file(rule: LintRule, error: ConfigError) -> Iterator[Finding]:
    """Yield a finding for each fault of a file."""
    if error.faults:
        yield from (Finding(rule, f"{error.file}: {fault}") for fault in error.faults)
    else:
        yield Finding(rule, f"{error.at}: {error.message}" if error.at else error.message)


def _check_config(dataset: Dataset) -> Iterator[Finding]:
    try:
        if dataset.documents.config is None:
            message = (
                "there is no dataset.yaml, so samples are crude: use cookers in training, or run energon prepare "
                "--sample-type … --field-map …"
            )
            yield Finding(DatasetFiles.W004, message)
    except ConfigError as error:
        yield from faults_of_file(DatasetFiles.E003, error)


def _check_left_files(dataset: Dataset) -> Iterator[Finding]:
    sentence = left_sentence(dataset.storage)
    if sentence:
        yield Finding(DatasetFiles.W010, f"{sentence}: run energon prepare again, which removes them")


# Indexes for other tools: index.sqlite and .tar.idx.

SCAN_AGAIN = "run energon prepare --force-overwrite"  # a plain prepare compares size and modification time only
_REBUILD = "energon prepare --force-overwrite rebuilds it"


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
        yield Finding(DatasetFiles.E006, f"index.sqlite cannot be read ({error}): {_REBUILD}")
        return
    # Shard numbers out of range mean that the file is of other shards.
    shards = len(dataset.shard_counts)
    unknown = [shard_index for shard_index in numbers if shard_index not in range(shards)]
    if unknown:
        names = plural(shards, "shard")
        message = f"index.sqlite holds samples of shard number {unknown[-1]}, and .info.json has {names}: {_REBUILD}"
        yield Finding(DatasetFiles.E006, message)


def _check_sqlite_rows(scan: ScannedShard) -> Iterator[Finding]:
    shard_index, shard, scanned = scan.sqlite_number, scan.name, scan.headers
    if shard_index is None or scanned.scattered:
        return  # index.sqlite cannot express scattered samples
    # Arrange the headers as the rows of both tables, in the order of the queries.
    offsets, names = scanned.sample_offsets, scanned.part_names
    columns = (scanned.keys(), range(len(scanned)), offsets[:-1].tolist(), np.diff(offsets).tolist())
    samples = zip(*columns, strict=True)
    sample_of = np.repeat(np.arange(len(scanned)), np.diff(scanned.part_ends, prepend=0)).tolist()
    part_names = (names[name] for name in scanned.part_name.tolist())
    parts = zip(sample_of, part_names, scanned.part_offset.tolist(), scanned.part_size.tolist(), strict=True)
    # The table of parts is optional, and compared if it is there.
    try:
        with closing(open_sqlite(scan.storage.local_path(INDEX_SQLITE))) as database:
            yield from _compare(scan, _SAMPLES, database.execute(_SAMPLES, (shard_index,)), samples)
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'sample_parts'").fetchone():
                yield from _compare(scan, _PARTS, database.execute(_PARTS, (shard_index,)), parts)
    except sqlite3.Error as error:
        yield Finding(DatasetFiles.E006, f"index.sqlite cannot be read ({error}): {_REBUILD}", shard=shard)


_SAMPLES = (
    "SELECT sample_key, sample_index, byte_offset, byte_size FROM samples WHERE tar_file_id = ? ORDER BY sample_index"
)
_PARTS = (
    "SELECT sample_index, part_name, content_byte_offset, content_byte_size FROM sample_parts WHERE tar_file_id = ? "
    "ORDER BY sample_index, content_byte_offset"
)


def _compare(
    scan: ScannedShard, table: str, rows: sqlite3.Cursor, expected: Iterable[tuple[Any, ...]]
) -> Iterator[Finding]:
    # The first difference is enough: one added row moves all later ones.
    noun = "part" if table == _PARTS else "sample"
    for index, (right, row) in enumerate(zip_longest(expected, rows)):
        if row == right:
            continue
        if right is None:
            message = f"index.sqlite has more {noun}s than the shard's {index}: {_REBUILD}"
            yield Finding(DatasetFiles.E006, message, shard=scan.name)
        else:
            sample, part = (right[0], right[1]) if table == _PARTS else (index, None)
            message = f"index.sqlite has {row}, the shard has {noun} {right}: {_REBUILD}"
            key = scan.headers.keys()[sample]
            yield Finding(DatasetFiles.E006, message, shard=scan.name, key=key, part=part, offset=right[2])
        return


def _check_tar_idx(scan: ScannedShard) -> Iterator[Finding]:
    storage, shard, scanned = scan.storage, scan.name, scan.headers
    if scanned.scattered:
        return
    # A file of the right length may have offsets of an earlier shard.
    if has_tar_idx(storage, shard, len(scanned)):
        if storage.read(f"{shard}.idx") != tar_idx_bytes(scanned.sample_offsets):
            yield Finding(DatasetFiles.E007, f"its offsets differ from the shard's: {SCAN_AGAIN}", shard=shard)
    elif storage.exists(f"{shard}.idx"):
        yield Finding(DatasetFiles.E007, "its length does not fit the shard: run energon prepare again", shard=shard)
    # Prepare writes both files or none, so only a dataset with index.sqlite lacks one.
    elif storage.exists(INDEX_SQLITE):
        yield Finding(DatasetFiles.W008, "run energon prepare again", shard=shard)


class DatasetFiles(LintRules):
    """The rules of the documents and indexes of a dataset."""

    title = "The dataset's own files"
    kinds = DATASETS

    E001 = LintRule(
        "the dataset is not prepared, or .info.json is damaged",
        why="Loaders read only prepared datasets: without the index they know neither the samples nor their bytes.",
        action="`energon prepare`; tar files in the folder are checked without an index",
        example="A folder of shards was copied without its hidden folder `.nv-meta`.",
        kinds=SHARDS,
        is_outdated=True,
    )
    E002 = LintRule(
        "split.yaml is missing or invalid",
        why="No split part can be loaded.",
        action="edit the file; the message lists every error with its place",
        example="`split_parts` was edited by hand, and a list lost its indentation.",
        is_outdated=True,
    )
    E003 = LintRule(
        "dataset.yaml is invalid",
        why="Samples cannot be built, so that no loader opens the dataset.",
        action="edit the file; the message lists every error with its place",
        example="`field_map` names a field that the sample type lacks, such as `captoin`.",
        is_outdated=True,
        of_dataset=_check_config,
    )
    W004 = LintRule(
        "dataset.yaml is missing: samples are crude",
        why="Loaders give dicts of parts, and the training code must build samples from them with a cooker.",
        action="none, if the training code builds samples from the parts; otherwise prepare with `--sample-type`",
        example="The dataset was prepared with `--non-interactive` and without `--sample-type`.",
        of_dataset=_check_config,
    )
    E005 = LintRule(
        "the index is missing or damaged",
        why="The positions of the samples are unknown, so that nothing can be read.",
        action="prepare again with `--force-overwrite`",
        example="A copy of `.nv-meta` stopped halfway, and a column of the index is truncated.",
        kinds=("tar shards",),
        is_outdated=True,
        hides_samples=True,
    )
    E006 = LintRule(
        "index.sqlite disagrees with the dataset: other tools will fail or read wrong bytes",
        why="megatron-energon finds samples by that file. It would read wrong bytes, or miss samples.",
        action="prepare again with `--force-overwrite`; this library does not read that file",
        example="Shards were added by a tool that does not update `index.sqlite`.",
        kinds=("tar shards",),
        is_outdated=True,
        of_dataset=check_sqlite,
        of_shard=_check_sqlite_rows,
    )
    E007 = LintRule(
        "a .tar.idx file disagrees with its shard: other tools will fail or read wrong bytes",
        why="megatron-energon and webdataset find samples by that file. They would read wrong bytes, or miss samples.",
        action="prepare again with `--force-overwrite`; this library does not read that file",
        example="A shard was rewritten, and its old `.tar.idx` file remained.",
        kinds=("tar shards",),
        is_outdated=True,
        of_shard=_check_tar_idx,
    )
    W008 = LintRule(
        "a .tar.idx file is missing: other tools need it",
        why="megatron-energon cannot read the shard. This library does not need the file.",
        action="prepare again with `--compat`, if other tools read the dataset",
        example="The dataset was prepared with `--no-compat`.",
        kinds=("tar shards",),
        is_outdated=True,
        of_shard=_check_tar_idx,
    )
    W009 = LintRule(
        "samples are not built: that needs code of the dataset, which runs only with --trust-code",
        why="Faults in the code of the dataset, and samples that it cannot build, are not found by this check.",
        action="pass that flag, if you trust the dataset",
        example="`dataset.yaml` names a `sample_loader.py`, and lint ran without `--trust-code`.",
    )
    W010 = LintRule(
        "an interrupted run has left unfinished files",
        why="The files take space, and nothing reads them.",
        action="`energon prepare`, which removes the files of processes that no longer run",
        example="A `prepare` was killed while it wrote `.shard_0.tar.idx.4711-0123456789ab.partial`.",
        of_dataset=_check_left_files,
    )
    E011 = LintRule(
        "a column is damaged, or belongs to other shards",
        why="Conditions, sorting and blends by the column are refused, and vectors cannot be searched.",
        action="write it again; the message names the program that wrote it",
        example="A copy of `.nv-meta/columns` stopped halfway, and `clip.npy` is truncated.",
        of_dataset=_check_columns,
    )
