"""Exclude samples of a dataset, list exclusions, and undo the last one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.documents.providers import data_path, is_metadataset, is_record_file
from ...format.exclusions.change import exclude_samples, included_samples, plan_exclusion, undo_exclusion
from ...format.exclusions.journal import Exclusion, read_journal
from ...format.filters.files import filter_names
from ...format.nv_meta import SPLIT_YAML
from ...format.query import SampleQuery, find_samples
from ..lint import LintRequest, run_lint
from ..stats import StatsRequest, collect_stats

__all__ = ["ExcludeReport", "ExcludeRequest", "ListedExclusions", "exclude", "list_exclusions", "undo"]

_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeRequest:
    """The samples to exclude, and how.

    Attributes:
        path: A prepared dataset.
        query: The samples.
        lint: Exclude the samples that a lint finds broken or incomplete, within the query.
        duplicates: Exclude all but the first of the samples with the same part of this name, within the query;
            ``""`` compares all pictures, audio and video, or else all parts. Excluded samples are in no group.
        filter: Change this named filter instead of the split file.
        reason: Why, for the journal.
        dry_run: Only report.
        workers: Processes of the lint, or of the search for duplicates.
        split_config: Name of the split file; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.
        trust_code: The lint may run code of the dataset.
    """

    path: str
    query: SampleQuery = field(default_factory=SampleQuery)
    lint: bool = False
    duplicates: str | None = None
    filter: str | None = None
    reason: str = ""
    dry_run: bool = False
    workers: int = 1
    split_config: str | None = None
    meta_folder: str | None = None
    trust_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeReport:
    """The result of an exclusion.

    Attributes:
        samples: Number of samples that were excluded, or would be.
        already: Number of the chosen samples that were excluded before.
        remaining: Number of the samples that are not excluded afterwards.
        examples: The first of the excluded samples, ``<shard>/<key>``, or the excluded shards.
        file: The split file, or the filter.
        dry_run: Nothing was changed.
    """

    samples: int
    already: int
    remaining: int
    examples: tuple[str, ...]
    file: str
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedExclusions:
    """The exclusions of a dataset.

    Attributes:
        exclusions: The entries of the journal, the oldest first.
        shards: Whole shards that the split file excludes.
        samples: Number of samples that the split file excludes, those of these shards included.
        others: Entries of the split file that the journal does not have.
        filters: Filter → number of samples that it keeps.
    """

    exclusions: tuple[Exclusion, ...]
    shards: tuple[str, ...]
    samples: int
    others: tuple[str, ...]
    filters: dict[str, int]


def exclude(request: ExcludeRequest, on_progress: Callable[[int, int], None] | None = None) -> ExcludeReport:
    """Exclude samples of a dataset.

    Args:
        request: The samples, and how to exclude them.
        on_progress: Called with the number of samples that are checked, and of all.

    Raises:
        ConfigError: The query is invalid, or no sample would remain.
        FormatError: A column or filter is damaged or stale.
        StorageError: The dataset is not prepared, or a file cannot be written.
    """
    folder = _open(request.path, request.split_config, request.meta_folder)
    chosen = find_samples(folder, request.query)
    if request.lint:
        chosen = np.intersect1d(chosen, _broken(folder, request, on_progress))
    if request.duplicates is not None:
        chosen = _copies(folder, request, chosen, on_progress)
    elif not len(chosen) and not request.lint:
        raise ConfigError("no sample is chosen", at=request.path, hint="check the conditions and keys")
    plan = plan_exclusion(folder, chosen, filter_name=request.filter)
    shards = _whole_shards(folder, request)
    examples = [*shards, *(folder.index.full_key(number) for number in plan.numbers[:_MAX_SHOWN].tolist())]
    if not request.dry_run:
        exclude_samples(folder, plan, reason=request.reason, shards=shards)
    return ExcludeReport(
        samples=len(plan.numbers),
        already=plan.already,
        remaining=plan.remaining,
        examples=tuple(examples[:_MAX_SHOWN]),
        file=folder.split_file or "" if request.filter is None else request.filter,
        dry_run=request.dry_run,
    )


def undo(path: str, *, split_config: str | None = None, meta_folder: str | None = None) -> Exclusion | None:
    """Undo the last exclusion of a dataset, and return it; None if there is none.

    Raises:
        ConfigError: The split file is invalid.
        FormatError: The journal is damaged.
        StorageError: The dataset is not prepared, or a file cannot be written.
    """
    return undo_exclusion(_open(path, split_config, meta_folder))


def list_exclusions(path: str, *, split_config: str | None = None, meta_folder: str | None = None) -> ListedExclusions:
    """List what is excluded from a dataset.

    Raises:
        ConfigError: The split file is invalid.
        FormatError: The journal or a filter is damaged.
        StorageError: The dataset is not prepared.
    """
    folder = _open(path, split_config, meta_folder)
    journal = read_journal(folder.storage)
    listed = folder.split.exclude if folder.split else ()
    known = {name for entry in journal for name in entry.names}
    return ListedExclusions(
        exclusions=journal,
        shards=tuple(sorted(folder.split.excluded_shards())) if folder.split else (),
        samples=len(folder.excluded_samples()) if folder.split else 0,
        others=tuple(name for name in listed if name not in known),
        filters={name: len(folder.open_filter(name)) for name in filter_names(folder.storage)},
    )


def _open(path: str, split_config: str | None, meta_folder: str | None) -> DatasetFolder:
    if is_metadataset(path) or is_record_file(data_path(path)):
        raise ConfigError(
            "samples are excluded from a prepared folder",
            at=path,
            hint="name the folder of a dataset; for a single file, use loader.build_filter_index",
        )
    return DatasetFolder(path, split_config=split_config or SPLIT_YAML, meta_folder=meta_folder)


def _whole_shards(folder: DatasetFolder, request: ExcludeRequest) -> list[str]:
    """Return the shards that are excluded by their names."""
    if request.lint or request.duplicates is not None or replace(request.query, keys=None) != SampleQuery():
        return []
    names = {shard.name for shard in folder.index.shards}
    return [key for key in dict.fromkeys(request.query.keys or ()) if key in names]


def _broken(folder: DatasetFolder, request: ExcludeRequest, on_progress: Callable[[int, int], None] | None) -> IntArray:
    """Return the samples that a lint finds broken or incomplete."""
    report = run_lint(
        LintRequest(
            path=request.path,
            workers=request.workers,
            split_config=request.split_config,
            meta_folder=request.meta_folder,
            trust_code=request.trust_code,
        ),
        None if on_progress is None else lambda now: on_progress(now.done, now.total),
    )
    found: list[int] = []
    for finding in report.findings:
        if finding.is_sample:
            found += folder.index.find(f"{finding.shard}/{finding.key}")
    return np.unique(np.array(found, np.int64))


def _copies(
    folder: DatasetFolder, request: ExcludeRequest, chosen: IntArray, on_progress: Callable[[int, int], None] | None
) -> IntArray:
    """Return all but the first of each group of samples with the same content."""
    stats = StatsRequest(
        path=request.path,
        numbers=np.intersect1d(chosen, included_samples(folder, request.filter)),
        parts=(),
        dedupe=request.duplicates,
        workers=request.workers,
        split_config=request.split_config,
        meta_folder=request.meta_folder,
    )
    groups = collect_stats(stats, on_progress).duplicate_numbers
    return np.sort(np.array([number for group in groups for number in group[1:]], np.int64))
