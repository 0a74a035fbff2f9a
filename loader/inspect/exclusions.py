"""Exclude samples of datasets that a query chooses or a lint finds broken, and list and undo exclusions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import uuid4

import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.exclusions import (
    Exclusion,
    ExclusionFiles,
    ExclusionPlan,
    exclude_samples,
    included_samples,
    plan_exclusion,
    undo_exclusion,
)
from ..dataset.opening import dataset_at
from ..dataset.query import SampleQuery
from ..dataset.records import SingleFile
from ..dataset.split_parts import excluded_samples, open_filter
from ..engine.run import RunsOnEngine, ShareEnds
from ..errors import ConfigError, StorageError, plural
from ..format.dataset_ref import DatasetRef
from ..format.nv_meta import FOLDER
from ..metadataset.datasets import ChosenSamples, OpenDataset, choose_samples, named_datasets
from ..similarity import NearDuplicates, near_duplicates_of
from ..storage import is_writable
from .lint import LintRequest, run_lint
from .stats import StatsRequest, collect_stats

_MAX_SHOWN = 10  # samples or shards that a report names
_MAX_SHARE = 0.2  # of samples that are near-duplicates: more are often alike by their kind, such as pages of text
_MAX_GROUP = 100  # samples: copies of one content are rarely so many


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeRequest(RunsOnEngine):
    """The samples to exclude, and how.

    Attributes:
        ref: A prepared dataset, a single file of samples, or a metadataset, which represents the datasets that it
            reads; with ``trust_code``, the lint may run code of the dataset.
        lint: Exclude the samples that a lint finds broken or incomplete, within the query.
        duplicates: Exclude all but the first of the samples with the same part of this name, within the query;
            ``""`` compares all pictures, audio and video, or else all parts. Excluded samples are in no group.
        near_duplicates: Exclude all but the first of the samples whose vectors in this column are similar, within the
            query. Excluded samples are in no group.
        threshold: Least similarity of near-duplicates; None for the one of the column's metric.
        max_share: Largest share of near-duplicates to exclude, in groups of any size; None for 0.2 and groups of 100.
        confirm: Asked, with what was found, whether to exceed these limits: raises if not. None always refuses.
        filter: Change this named filter instead of the split file.
        engine: Where the lint or the search runs; None for processes. Only one of them runs in shares.
    """

    ref: DatasetRef
    query: SampleQuery = field(default_factory=SampleQuery)
    lint: bool = False
    duplicates: str | None = None
    near_duplicates: str | None = None
    threshold: float | None = None
    max_share: float | None = None
    confirm: Callable[[str], None] | None = None
    filter: str | None = None
    reason: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeReport:
    """The result of an exclusion.

    Attributes:
        samples: Number of samples that were excluded, or would be.
        already: Number of the chosen samples that were excluded before.
        remaining: Number of the samples that are not excluded afterwards.
        examples: The first of the excluded samples, ``<shard>/<key>``, or the excluded shards.
        lacks: What the condition names and the dataset does not have, so that none of its samples is chosen.
    """

    path: str
    samples: int
    already: int
    remaining: int
    examples: tuple[str, ...]
    file: str
    lacks: str = ""
    dry_run: bool


def exclude(request: ExcludeRequest, on_progress: Callable[[int, int], None] | None = None) -> list[ExcludeReport]:
    """Exclude samples of a dataset, or of each dataset of a metadataset; return a report for each one.

    All datasets are examined before the first one is changed, and each one is changed whole or not at all. After a
    merge, :meth:`.Engine.discard_merged` removes the results of the shares.

    Raises:
        ConfigError: No sample is chosen, or the exclusion cannot be written; or shares are missing that a merge needs.
        ShareDone: The engine runs one share, which is done.
    """
    if request.runs_on.is_partial and request.lint == (request.duplicates is not None):
        raise ConfigError("expected a lint or a search for duplicates to run in shares, and not both")
    # Choose the samples of each dataset.
    path = request.ref.path
    opened = _open_prepared(request.ref, split_parts=request.query.split_parts)
    chosen = _with_part(choose_samples(opened, request.query, at=path), request.duplicates)
    ends = ShareEnds(request.runs_on)
    narrowed = [_narrowed(selection, request, on_progress, ends) for selection in chosen]
    ends.finish()
    searches = request.lint or request.duplicates is not None or request.near_duplicates is not None
    if not searches and not any(len(numbers) for numbers in narrowed):
        raise ConfigError("no sample is chosen", at=path, hint="check the conditions and keys")
    # Plan every exclusion, and check that it can be written, before the first one is carried out.
    plans = [
        _plan(selection.opened.folder, numbers, request.filter)
        for selection, numbers in zip(chosen, narrowed, strict=True)
    ]
    for selection, plan in zip(chosen, plans, strict=True):
        if len(plan.numbers) and not request.dry_run:
            _check_writable(selection.opened.folder)
    # Exclude the samples, dataset by dataset.
    group = uuid4().hex if len(chosen) > 1 and not request.dry_run else ""
    reports: list[ExcludeReport] = []
    for selection, numbers, plan in zip(chosen, narrowed, plans, strict=True):
        shards = _whole_shards(selection, request) if len(numbers) else []
        if not request.dry_run:
            try:
                exclude_samples(selection.opened.folder, plan, reason=request.reason, shards=shards, group=group)
            except StorageError as error:
                raise _with_progress(error, reports) from error
        reports.append(_report(selection, plan, shards, request))
    return reports


def _plan(folder: Dataset, numbers: IntArray, filter_name: str | None) -> ExclusionPlan:
    if len(numbers):
        return plan_exclusion(folder, numbers, filter_name=filter_name)
    remaining = len(included_samples(folder, filter_name))
    return ExclusionPlan(numbers=numbers, already=0, remaining=remaining, filter=filter_name)


def _report(
    selection: ChosenSamples, plan: ExclusionPlan, shards: Sequence[str], request: ExcludeRequest
) -> ExcludeReport:
    folder = selection.opened.folder
    examples = [*shards, *(folder.index.full_key(sample) for sample in plan.numbers[:_MAX_SHOWN].tolist())]
    return ExcludeReport(
        path=selection.opened.dataset.path,
        samples=len(plan.numbers),
        already=plan.already,
        remaining=plan.remaining,
        examples=tuple(examples[:_MAX_SHOWN]),
        file=folder.documents.split_file or "" if request.filter is None else request.filter,
        dry_run=request.dry_run,
        lacks=selection.lacks,
    )


def _narrowed(
    selection: ChosenSamples,
    request: ExcludeRequest,
    on_progress: Callable[[int, int], None] | None,
    ends: ShareEnds,
) -> IntArray:
    # The searches take long, so they run only on samples that the query chose.
    numbers = selection.numbers
    if request.lint and len(numbers):
        numbers = np.intersect1d(numbers, _broken(selection.opened, request, on_progress, ends))
    if request.duplicates is not None and len(numbers):
        numbers = _copies(selection.opened, request, numbers, on_progress, ends)
    if request.near_duplicates is not None and len(numbers):
        folder = selection.opened.folder
        compared = np.intersect1d(numbers, included_samples(folder, request.filter))
        result = near_duplicates_of(
            folder, request.near_duplicates, request.threshold, chosen=compared, on_progress=on_progress
        )
        _check_extent(result, request, at=folder.path)
        numbers = result.copies
    return numbers


def _check_extent(result: NearDuplicates, request: ExcludeRequest, *, at: str) -> None:
    """Ask before very many samples are excluded as near-duplicates, or refuse it."""
    copies, largest = len(result.copies), max(map(len, result.groups), default=0)
    max_share, max_group = (_MAX_SHARE, _MAX_GROUP) if request.max_share is None else (request.max_share, largest)
    if request.dry_run or (copies <= max_share * result.samples and largest <= max_group):
        return
    share = f"{copies:,} of {plural(result.samples, 'sample')}"
    message = f"near-duplicates of others: {share}; the largest group has {largest:,}"
    if request.confirm is not None:
        request.confirm(f"{at}: {message}.")
        return
    raise ConfigError(
        message,
        at=at,
        hint=f"look at them with energon stats --near-duplicates {request.near_duplicates}; to exclude them, pass"
        f" --max-share {np.ceil(100 * copies / result.samples) / 100:g}, or a higher --threshold for fewer",
    )


def _with_part(chosen: list[ChosenSamples], part: str | None) -> list[ChosenSamples]:
    """Choose no samples of datasets without the part to compare; one of the datasets must have it."""
    without = [bool(part) and part not in selection.opened.folder.index.part_names for selection in chosen]
    if all(without):
        return chosen  # the search raises the error
    empty = np.empty(0, np.int64)
    return [
        replace(selection, numbers=empty, lacks=selection.lacks or f"no part {part!r}") if lacks else selection
        for selection, lacks in zip(chosen, without, strict=True)
    ]


def _with_progress(error: StorageError, reports: Sequence[ExcludeReport]) -> StorageError:
    """Return the error of one dataset with those that were changed before it."""
    done = [report.path for report in reports if report.samples]
    if not done:
        return error
    return StorageError(
        f"{error.message}; samples of these datasets are excluded already: {', '.join(done)}",
        path=error.at,
        hint="repeat the command when this is fixed, or undo it with --undo",
    )


def _whole_shards(selection: ChosenSamples, request: ExcludeRequest) -> list[str]:
    searches = request.lint or request.duplicates is not None or request.near_duplicates is not None
    if searches or replace(request.query, keys=None, origins={}) != SampleQuery():
        return []
    # A whole shard is excluded by its name, if only keys choose samples: conditions may leave some of it.
    names = {shard.name for shard in selection.opened.folder.index.shards}
    return [key for key in dict.fromkeys(selection.keys or ()) if key in names]


def _broken(
    opened: OpenDataset,
    request: ExcludeRequest,
    on_progress: Callable[[int, int], None] | None,
    ends: ShareEnds,
) -> IntArray:
    broken: list[int] = []
    # Splits of a metadataset may read one dataset by several dataset files: a sample that one of them cannot build is
    # broken.
    for config in opened.dataset.dataset_configs:
        ref = replace(opened.dataset.ref, dataset_config=config)
        lint = LintRequest(ref=ref, engine=request.runs_on, command="exclude")
        progress = None if on_progress is None else lambda now: on_progress(now.done, now.total)
        report = ends.call(partial(run_lint, lint, progress))
        for finding in () if report is None else report.findings:
            if finding.is_sample:
                broken += opened.folder.index.find(f"{finding.shard}/{finding.key}")
    return np.unique(np.array(broken, np.int64))


def _copies(
    opened: OpenDataset,
    request: ExcludeRequest,
    chosen: IntArray,
    on_progress: Callable[[int, int], None] | None,
    ends: ShareEnds,
) -> IntArray:
    """Return all but the first of each group of samples with the same content."""
    # Hash pictures, audio and video, or the named part, without values: no parts are described.
    stats = StatsRequest(
        ref=opened.dataset.ref,
        numbers=np.intersect1d(chosen, included_samples(opened.folder, request.filter)),
        parts=(),
        dedupe=request.duplicates,
        engine=request.runs_on,
        command="exclude",
    )
    report = ends.call(partial(collect_stats, stats, on_progress))
    groups = [] if report is None else report.duplicate_numbers
    return np.sort(np.array([sample for group in groups for sample in group[1:]], np.int64))


# Open the datasets whose samples are to be excluded, and check that they can be changed.


def _open_prepared(ref: DatasetRef | str, *, split_parts: Sequence[str] = ()) -> list[OpenDataset]:
    named = named_datasets([DatasetRef.of(ref)], split_parts=split_parts)
    return [OpenDataset(name=dataset.path, dataset=dataset, folder=dataset_at(dataset.ref)) for dataset in named]


def _check_writable(folder: Dataset) -> None:
    # A single file has no hidden folder: its filters are next to it.
    storage, target = folder.storage, "" if isinstance(folder, SingleFile) else FOLDER
    if not is_writable(storage, target):
        raise StorageError(
            "samples of this dataset cannot be excluded: it is read-only",
            path=storage.path(target),
            hint="no dataset was changed; make it writable, or copy it",
        )


# Earlier exclusions.


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedExclusions:
    """The exclusions of a dataset.

    Attributes:
        samples: Number of samples that the split file excludes, whole shards included.
        filters: Filter → number of samples that it keeps.
        exclusions: The entries of the journal, the oldest first.
        others: Entries of the split file that the journal does not have.
    """

    path: str
    samples: int
    shards: tuple[str, ...]
    filters: dict[str, int]
    exclusions: tuple[Exclusion, ...]
    others: tuple[str, ...]


def undo_last_exclusion(ref: DatasetRef | str) -> list[tuple[str, Exclusion]]:
    """Undo the last exclusion of a dataset, or of the datasets of a metadataset.

    Of a metadataset, that is the latest exclusion of any of its datasets; if it was made by one command for several
    datasets, it is undone in all of them in which nothing was excluded since.

    Returns:
        Each changed dataset with the exclusion that was undone; empty if there was nothing to undo.
    """
    # Split files of one folder share a journal, so the folder counts once.
    folders = {(target.folder.path, target.folder.storage.path(FOLDER)): target for target in _open_prepared(ref)}
    last = [(target, entry) for target in folders.values() if (entry := _last_of(target)) is not None]
    if not last:
        return []
    # A command that changed several datasets gave its entries one group, and is undone as a whole.
    latest, its_entry = max(last, key=lambda pair: pair[1].at)
    chosen = [target for target, entry in last if entry.group == its_entry.group] if its_entry.group else [latest]
    # Refuse before the first dataset is changed.
    for target in chosen:
        _check_writable(target.folder)
    undone: list[tuple[str, Exclusion]] = []
    for target in chosen:
        while (entry := undo_exclusion(target.folder)) is not None:
            undone.append((target.dataset.path, entry))
            following = _last_of(target)
            if following is None or not entry.group or following.group != entry.group:
                break
    return undone


def _last_of(opened: OpenDataset) -> Exclusion | None:
    journal = ExclusionFiles.of(opened.folder).read_journal()
    return journal[-1] if journal else None


def list_exclusions(ref: DatasetRef | str) -> list[ListedExclusions]:
    """List what is excluded from a dataset, or from each dataset of a metadataset."""
    return [_listed(opened) for opened in _open_prepared(ref)]


def _listed(opened: OpenDataset) -> ListedExclusions:
    folder, files = opened.folder, ExclusionFiles.of(opened.folder)
    journal = files.read_journal()
    split = folder.documents.split
    listed = split.exclude if split else ()
    # Entries that users wrote into the split file are not in the journal.
    known = {name for entry in journal for name in entry.names}
    return ListedExclusions(
        path=opened.dataset.path,
        exclusions=journal,
        shards=tuple(sorted(split.excluded_shards())) if split else (),
        samples=len(excluded_samples(folder)) if split else 0,
        others=tuple(name for name in listed if name not in known),
        filters={name: len(open_filter(folder, name)) for name in files.filter_names()},
    )
