"""Prepare a folder of JSONL or Parquet files: count the samples of each file, split, publish."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass

from ...accounting.part_sets import PartSets
from ...errors import ConfigError, EnergonError, FormatError, StorageError
from ...storage import FileInfo, Storage
from ...version import __version__
from ..cluster.executor import run_in_executor
from ..columns.carry import CarriedColumns, carry_columns
from ..documents.dataset_files import read_shard_info
from ..documents.providers import record_format
from ..filters.carry import carry_filters
from ..index.current import read_uuid, stale_indexes
from ..index.layout import (
    LAYOUT_VERSION,
    PART_SETS_FILE,
    Layout,
    PartStats,
    ShardEntry,
    encode_layout,
    encode_part_sets,
)
from ..index.publish import stage_files
from ..jsonl.index import prepare_jsonl
from ..nv_meta import INDEX_FOLDER, INDEX_SQLITE, INDEX_UUID, INFO_JSON
from ..records.folder_index import RecordIndex, open_record_index, part_sets_of_files
from ..records.record_file import open_record_file
from ..worker_pool import run_in_workers
from .inputs import is_written, planned_files
from .plan import PreparePlan, PrepareProgress, PrepareReport, ProgressCallback
from .scans import raise_scan_errors
from .shards import ShardSearch
from .split import PlannedSplit
from .workspace import Workspace

__all__ = ["prepare_record_folder"]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Samples of a file, and the bytes of its parts by name."""

    samples: int
    part_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Count:
    """Index one file, and count its samples; runs in a worker.

    A JSONL file whose index fits is not read again unless it has changed since the prepare before.
    """

    storage: Storage

    def __call__(self, shard: FileInfo) -> EnergonError | _Counted:
        try:
            if shard.name.endswith(".jsonl"):
                prepare_jsonl(self.storage, shard.name)
            return _counted(self.storage, shard.name)
        except (FormatError, StorageError) as error:
            return error


def _counted(storage: Storage, name: str) -> _Counted:
    file = open_record_file(storage, name)
    return _Counted(len(file), file.part_bytes())


def prepare_record_folder(
    workspace: Workspace,
    plan: PreparePlan,
    search: ShardSearch,
    split: PlannedSplit,
    *,
    on_progress: ProgressCallback | None = None,
    executor: Executor | None = None,
) -> PrepareReport:
    """Prepare a locked folder of files of numbered samples. Only files that have changed are read.

    Args:
        workspace: The dataset, and the folder of its staged files.
        plan: The plan of the prepare.
        search: The files.
        split: The split that the dataset will have.
        on_progress: Called after each file.
        executor: Reads the files instead of worker processes.

    Raises:
        ConfigError: The plan has a choice that only tar shards have.
        FormatError: Files are damaged; the message names all of them.
        StorageError: No permission, or a full disk.
    """
    _check_plan(plan)
    started, storage = time.perf_counter(), workspace.storage
    previous = _previous_index(storage)
    known = {} if plan.force or previous is None else _unchanged(storage, previous, search)
    to_scan = [shard for shard in search.shards if shard.name not in known]
    counted = known | _scan(
        storage, to_scan, plan, total=len(search.shards), on_progress=on_progress, executor=executor
    )
    layout = _layout(search, counted)
    if not layout.samples:
        raise FormatError("the files hold no samples", shard=storage.path(""), hint="check the path of the folder")
    split_counts = split.counts(layout.shards, storage=storage)
    files = planned_files(plan, split)
    changed = previous is None or bool(to_scan) or previous.shards != layout.shards or not is_written(storage, files)
    earlier = previous.shards if previous else ()
    columns = carry_columns(storage, workspace.work, earlier=earlier, now=layout.shards)
    columns += carry_filters(storage, workspace.work, earlier=earlier, now=layout.shards)
    part_sets = part_sets_of_files(layout.shards, [counted[shard.name].part_bytes for shard in layout.shards])
    identity = previous.uuid if previous is not None else ""
    if changed or previous is None:
        identity = _publish(workspace, layout, part_sets, files, previous, columns)
    return PrepareReport(
        changed=changed,
        uuid=identity,
        samples=layout.samples,
        parts=layout.parts,
        shards=len(layout.shards),
        size_bytes=sum(shard.size_bytes for shard in layout.shards),
        scanned=len(to_scan),
        resumed=0,
        reused=len(known),
        duplicate_keys=0,
        compat=False,
        split=split_counts,
        warnings=(*split.warnings, *columns.warnings),
        seconds=time.perf_counter() - started,
    )


def _check_plan(plan: PreparePlan) -> None:
    reason = "these are no tar shards"
    if plan.merge:
        raise ConfigError(f"--merge: {reason}, which have no parts to merge", at=plan.path)
    if plan.compat:
        raise ConfigError(f"--compat: {reason}, so there are no .tar.idx and index.sqlite files to write", at=plan.path)
    if plan.media is not None:
        raise ConfigError(f"{plan.media.flag}: {reason}, and media metadata is collected from tar shards", at=plan.path)
    if plan.fix_duplicates:
        raise ConfigError(f"--fix-duplicates: {reason}; samples are numbered, and numbers are unique", at=plan.path)


def _previous_index(storage: Storage) -> RecordIndex | None:
    """Return the index of the prepare before, if it was of such files and wrote an index."""
    try:
        counts = read_shard_info(storage)
        if counts is None or record_format(next(iter(counts), "")) is None:
            return None
        index = open_record_index(storage, counts)
    except EnergonError:
        return None
    is_ours = index.uuid == read_uuid(storage) and storage.exists(f"{INDEX_FOLDER}/{index.uuid}")
    return index if is_ours else None


def _unchanged(storage: Storage, previous: RecordIndex, search: ShardSearch) -> dict[str, _Counted]:
    """Return the counts of files that have the size and time of change that they had, and a readable index."""
    entries = {entry.name: entry for entry in previous.shards}
    unchanged = {}
    for shard in search.shards:
        entry = entries.get(shard.name)
        version = shard.size_bytes, shard.mtime_ns, shard.etag
        if entry is None or (entry.size_bytes, entry.mtime_ns, entry.etag) != version:
            continue
        try:
            counted = _counted(storage, shard.name)
        except EnergonError:
            continue
        if counted.samples == entry.samples:
            unchanged[shard.name] = counted
    return unchanged


def _scan(
    storage: Storage,
    shards: list[FileInfo],
    plan: PreparePlan,
    *,
    total: int,
    on_progress: ProgressCallback | None,
    executor: Executor | None,
) -> dict[str, _Counted]:
    counted: dict[str, _Counted] = {}
    errors: dict[int, EnergonError] = {}
    count = _Count(storage)
    counts = (
        run_in_executor(count, shards, executor) if executor else run_in_workers(count, shards, workers=plan.workers)
    )
    with closing(counts) as results:
        for number, result in results:
            if isinstance(result, EnergonError):
                errors[number] = result
                continue
            counted[shards[number].name] = result
            if on_progress is not None:
                samples = sum(one.samples for one in counted.values())
                done = total - len(shards) + len(counted)
                on_progress(PrepareProgress(phase="scan", shards_done=done, shards_total=total, samples=samples))
    raise_scan_errors([errors[number] for number in sorted(errors)])
    return counted


def _layout(search: ShardSearch, counted: Mapping[str, _Counted]) -> Layout:
    entries, stats = [], dict[str, tuple[int, int]]()
    total = 0
    for shard in search.shards:
        one = counted[shard.name]
        entries.append(
            ShardEntry(
                name=shard.name,
                size_bytes=shard.size_bytes,
                mtime_ns=shard.mtime_ns,
                etag=shard.etag,
                samples=one.samples,
                first_sample=total,
                end_offset=shard.size_bytes,
                plain=True,
            )
        )
        total += one.samples
        for name, size_bytes in one.part_bytes.items():
            parts, bytes_before = stats.get(name, (0, 0))
            stats[name] = parts + one.samples, bytes_before + size_bytes
    return Layout(
        version=LAYOUT_VERSION,
        samples=total,
        parts=sum(parts for parts, _ in stats.values()),
        shards=tuple(entries),
        part_stats=tuple(
            PartStats(name=name, parts=parts, total_bytes=size, median_bytes=size // max(1, parts))
            for name, (parts, size) in stats.items()
        ),
        duplicate_keys=0,
        prepared_by=f"energon-toolkit {__version__}",
        prepared_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def _publish(
    workspace: Workspace,
    layout: Layout,
    part_sets: PartSets,
    files: Mapping[str, bytes],
    previous: RecordIndex | None,
    columns: CarriedColumns,
) -> str:
    """Commit the index and the files; return the uuid of the index."""
    storage, identity = workspace.storage, uuid.uuid4()
    contents = {
        f"{INDEX_FOLDER}/{identity}/{PART_SETS_FILE}": encode_part_sets(part_sets),
        f"{INDEX_FOLDER}/{identity}/layout.json": encode_layout(layout),
        **files,
        INDEX_UUID: str(identity).encode(),
        INFO_JSON: workspace.shard_info({shard.name: shard.samples for shard in layout.shards}, identity),
    }
    kept = None if previous is None else previous.uuid  # running jobs may still read it
    removals = [*stale_indexes(storage, kept=kept), *columns.removals]
    if storage.exists(INDEX_SQLITE):  # of tar shards that the folder had before
        removals.append(INDEX_SQLITE)
    workspace.commit([*columns.renames, *stage_files(workspace.work, contents)], removals, None)
    return str(identity)
