"""Scan one share of a dataset's shards, which code calls a part, into the journal, for a merge to commit."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from ...engine.share import Share, incomplete_shares
from ...engine.share_plan import SharePlan, divide_shards, read_plan, write_plan
from ...errors import ConfigError, StorageError, plural
from ...storage import FileInfo, RemoteStorage, Storage
from ..dataset_ref import DatasetRef
from ..index.current import PreviousIndex
from ..index.journal import Journal, ScanFolders, download_scans
from ..nv_meta import WORK_FOLDER
from .destination import check_destination
from .plan import PreparePlan, ProgressCallback, ScanHow
from .scans import ShardScans
from .shards import find_shards, parse_exclude
from .staging import unchanged_shards
from .workspace import open_part_workspace

PART_PLAN = f"{WORK_FOLDER}/parts.json"
"""The plan of the shares of a prepare."""

_STATUS_THREADS = 32  # of a network file system or an object store


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """The outcome of one part of a prepare."""

    part: Share
    shards: int
    size_bytes: int
    scanned: int  # number of shards
    seconds: float


def run_part(
    plan: PreparePlan, part: Share, *, dry_run: bool = False, on_progress: ProgressCallback | None = None
) -> PartReport:
    """Scan one part of a dataset's shards.

    Parts run at the same time, in any order, on any number of machines, and again after they were killed. Shards that
    the dataset has already, or that were scanned before, are not scanned again. A prepare with ``merge`` commits them.

    Args:
        plan: The prepare; a part uses its path, workers, meta folder, ``scan``, ``exclude`` and ``force``.
    """
    started = time.perf_counter()
    storage = plan.ref.storage()
    if dry_run:
        scanned = 0
        shards = _present(storage, plan, _part_plan(storage, plan, part, write=False).shards_of(part.number))
    else:
        with open_part_workspace(storage) as work:
            part_plan = _part_plan(storage, plan, part, write=True)
            folders = scan_folders(part_plan, part.number)
            if isinstance(storage, RemoteStorage):
                download_scans(storage, work, folders)
            shards = _present(storage, plan, part_plan.shards_of(part.number))
            scanned = _scan(storage, work, plan, shards, folders=folders, on_progress=on_progress)
    return PartReport(
        part=part,
        shards=len(shards),
        size_bytes=sum(shard.size_bytes for shard in shards),
        scanned=scanned,
        seconds=time.perf_counter() - started,
    )


def _part_plan(storage: Storage, plan: PreparePlan, part: Share, *, write: bool) -> SharePlan:
    """Return the plan of all parts; write it, unless another part has done so or there is nothing to scan."""
    written = read_plan(storage, PART_PLAN)
    if written is None:
        search = find_shards(storage, exclude=plan.exclude)
        if search.format is not None:
            raise ConfigError(
                "these are no tar shards, and only the headers of tar shards are scanned in shares",
                at=storage.path(""),
                hint="prepare this folder without --share",
            )
        check_destination(storage, plan.ref, shards=search.names, force=plan.force)
        # Only shards that need a scan are divided.
        reused = {} if plan.force else unchanged_shards(plan, search.shards, PreviousIndex(storage))
        to_scan = [shard for position, shard in enumerate(search.shards) if position not in reused]
        written = divide_shards(to_scan, part.count)
        if write and to_scan:
            written = write_plan(storage, PART_PLAN, written)
    if written.count != part.count:
        shares = plural(written.count, "share")
        raise ConfigError(
            f"this dataset is being prepared in {shares}, since {written.planned_at}; found {part}",
            at=storage.path(""),
            hint=f"divide it into {shares}, too; for another number, first remove"
            f" {storage.path(PART_PLAN)}, which keeps what is scanned",
        )
    return written


def _present(storage: Storage, plan: PreparePlan, names: Sequence[str]) -> list[FileInfo]:
    """Return the shards as they are now, without those that are excluded or gone."""
    exclude = parse_exclude(plan.exclude)

    def status(name: str) -> FileInfo | None:
        try:
            return storage.stat(name)
        except StorageError as error:
            if error.is_missing:
                return None
            raise

    with ThreadPoolExecutor(_STATUS_THREADS) as threads:
        stats = threads.map(status, [name for name in names if not (exclude and exclude.search(name))])
        return [shard for shard in stats if shard is not None]


def _scan(
    storage: Storage,
    work: Storage,
    plan: PreparePlan,
    shards: Sequence[FileInfo],
    *,
    folders: ScanFolders,
    on_progress: ProgressCallback | None,
) -> int:
    """Scan the shards that are not in the journal; return their number."""
    with closing(Journal(work, folders)) as journal:
        to_scan = [shard for shard in shards if not journal.has(shard)]
        how = ScanHow(workers=plan.workers, on_progress=on_progress, mode=plan.scan, part=folders)
        resumed = len(shards) - len(to_scan)
        scans = ShardScans(storage, work, journal, to_scan, how, total=len(shards), resumed=resumed)
        with closing(scans):
            for shard in to_scan:
                scans.wait_for(shard)
    return len(to_scan)


def scan_folders(plan: SharePlan, position: int) -> ScanFolders:
    """Return the folders of the scans of a part."""
    division = json.dumps([plan.starts, plan.shards]).encode("ascii")
    return ScanFolders(hashlib.sha256(division).hexdigest()[:16], str(position))


def check_not_planned(storage: Storage, *, is_known: bool = True) -> None:
    """Check that no part of a prepare was started.

    Args:
        is_known: Answer from a listing of it, if there is one; False looks for a plan that was written since.
    """
    plan = None if is_known and not storage.exists(PART_PLAN) else read_plan(storage, PART_PLAN)
    if plan is not None:
        raise ConfigError(
            f"this dataset is being prepared in {plural(plan.count, 'share')}, since {plan.planned_at}",
            at=storage.path(""),
            hint="commit the shares with --merge, which names those that are missing; or give them up: remove"
            f" {storage.path(PART_PLAN)}",
        )


_MAX_SHARDS = 5  # in a message


def check_complete(storage: Storage, ref: DatasetRef, unscanned: Sequence[str]) -> None:
    """Check that each shard of the plan was scanned.

    Args:
        unscanned: Shards without a scan; those that arrived after the plan are no fault.
    """
    plan = read_plan(storage, PART_PLAN)
    # A share takes fewer options than the merge.
    command = shlex.join(["energon", "prepare", ref.path, *ref.folder_flags])
    if plan is None:
        if not unscanned:
            return
        raise ConfigError(
            f"there are no shares to merge: {plural(len(unscanned), 'shard is', 'shards are')} not scanned,"
            " and no share was started",
            at=storage.path(""),
            hint=f"run the shares first: {command} --share 1/64, and so on",
        )
    # Find the shares with shards that are not scanned.
    missing = frozenset(unscanned)
    unscanned_of = {
        position: [name for name in plan.shards_of(position) if name in missing]
        for position in range(1, plan.count + 1)
    }
    names = [name for shards in unscanned_of.values() for name in shards]
    if not names:
        return
    # Name them, and the command that runs the first one.
    numbers = [position for position, shards in unscanned_of.items() if shards]
    shown = ", ".join(names[:_MAX_SHARDS]) + (", …" if len(names) > _MAX_SHARDS else "")
    what = f"{len(names):,} of {plural(len(plan.shards), 'shard is', 'shards are')} not scanned: {shown}"
    error = incomplete_shares(
        numbers, plan.count, what=what, command=lambda share: f"{command} {share}", at=storage.path("")
    )
    error.hint = f"{error.hint}; a share names shards that are damaged"
    raise error
