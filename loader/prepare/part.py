"""Scan one share of a dataset's shards, which code calls a part, into the journal, for a merge to commit."""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote, unquote

from ..engine.journal import JOB, SHARDS, Job, Journal
from ..engine.run import Engine
from ..engine.share import BYTES_PER_SHARD, Share, divide, incomplete_shares, items_of
from ..errors import ConfigError, StorageError, plural
from ..format.dataset_ref import DatasetRef
from ..format.index.current import PreviousIndex
from ..format.index.journal import ScanFolders, StoredScans, download_scans
from ..format.nv_meta import WORK_FOLDER
from ..storage import FileInfo, RemoteStorage, Storage
from .destination import check_destination
from .plan import PreparePlan, ProgressCallback, ScanHow
from .scans import ShardScans
from .shards import find_shards, parse_exclude
from .staging import unchanged_shards
from .workspace import open_part_workspace

SHARES = f"{WORK_FOLDER}/{JOB}"
"""The list of shards of all shares of a prepare, so that they agree even if shards arrive meanwhile."""

_TIME = "time in UTC"  # part of the description of a job
_STATUS_THREADS = 32  # of a network file system or an object store


def shares_journal(storage: Storage) -> Journal[None]:
    """Return the journal of the shares, which has no results: scans are stored by versions of shards."""
    return Journal(storage, WORK_FOLDER, type(None))


def divide_shards(shards: Sequence[FileInfo], shares: int) -> Job:
    """Describe the scan of shards by shares: runs of neighbours of about the same size in bytes.

    >>> shards = [FileInfo(name=name, size_bytes=1 << 30, mtime_ns=0) for name in "abc"]
    >>> job = divide_shards(shards, 2)
    >>> shards_of(job, Share(1, 2)), shards_of(job, Share(2, 2))
    (['a'], ['b', 'c'])
    """
    return Job(
        command="prepare",
        request={
            SHARDS: "\n".join(quote(shard.name, errors="surrogateescape") for shard in shards),
            _TIME: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
        tasks=len(shards),
        starts=divide([shard.size_bytes + BYTES_PER_SHARD for shard in shards], shares),
        results=secrets.token_hex(8),  # scans of an earlier division have another folder, which all shares read
    )


def shards_of(job: Job, share: Share | None = None) -> list[str]:
    """Return the names of the shards of a share, or of all, in the order of the dataset."""
    names = [unquote(name, errors="surrogateescape") for name in job.request.get(SHARDS, "").split("\n")]
    items = range(job.tasks) if share is None else items_of(share, job.starts, job.tasks)
    return names[items.start : items.stop]


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
        shards = _present(storage, plan, shards_of(_shares_job(storage, plan, part, write=False), part))
    else:
        with open_part_workspace(storage) as work:
            job = _shares_job(storage, plan, part, write=True)
            folders = ScanFolders(job.results, str(part.number))
            if isinstance(storage, RemoteStorage):
                download_scans(storage, work, folders)
            shards = _present(storage, plan, shards_of(job, part))
            scanned = _scan(storage, work, plan, shards, folders=folders, on_progress=on_progress)
    return PartReport(
        part=part,
        shards=len(shards),
        size_bytes=sum(shard.size_bytes for shard in shards),
        scanned=scanned,
        seconds=time.perf_counter() - started,
    )


def _shares_job(storage: Storage, plan: PreparePlan, part: Share, *, write: bool) -> Job:
    """Return the job of all shares; describe it, unless another share has done so or there is nothing to scan."""
    journal = shares_journal(storage)
    job = journal.job()
    if job is None:
        search = find_shards(storage, exclude=plan.exclude)
        if search.kind.is_file:
            raise ConfigError(
                "these are no tar shards, and only the headers of tar shards are scanned in shares",
                at=storage.path(""),
                hint="prepare this folder without --share",
            )
        check_destination(storage, plan.ref, shards=search.names, force=plan.force)
        # Only shards that need a scan are divided.
        reused = unchanged_shards(plan, search.shards, PreviousIndex(storage))
        to_scan = [shard for position, shard in enumerate(search.shards) if position not in reused]
        job = divide_shards(to_scan, part.count)
        if write and to_scan:
            job = journal.describe(job)
    if len(job.starts) != part.count:
        raise ConfigError(
            f"{_being_prepared(job)}; found {part}",
            at=storage.path(""),
            hint=f"divide it into {plural(len(job.starts), 'share')}, too; for another number, first remove"
            f" {storage.path(SHARES)}, which keeps what is scanned",
        )
    return job


def _being_prepared(job: Job) -> str:
    return f"this dataset is being prepared in {plural(len(job.starts), 'share')}, since {job.request.get(_TIME, '?')}"


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
    with closing(StoredScans(work, folders)) as journal:
        to_scan = [shard for shard in shards if not journal.has(shard)]
        how = ScanHow(engine=Engine(workers=plan.workers), on_progress=on_progress, mode=plan.scan, part=folders)
        resumed = len(shards) - len(to_scan)
        scans = ShardScans(storage, work, journal, to_scan, how, total=len(shards), resumed=resumed)
        with closing(scans):
            for shard in to_scan:
                scans.wait_for(shard)
    return len(to_scan)


def check_not_planned(storage: Storage, *, is_known: bool = True) -> None:
    """Check that no share of a prepare was started.

    Args:
        is_known: Answer from a listing of the folder, if there is one; False looks for shares that began since.
    """
    job = None if is_known and not storage.exists(SHARES) else shares_journal(storage).job()
    if job is not None:
        raise ConfigError(
            _being_prepared(job),
            at=storage.path(""),
            hint="commit the shares with --merge, which names those that are missing; or give them up: remove"
            f" {storage.path(SHARES)}",
        )


_MAX_SHARDS = 5  # in a message


def check_complete(storage: Storage, ref: DatasetRef, unscanned: Sequence[str]) -> None:
    """Check that each shard of the shares was scanned.

    Args:
        unscanned: Shards without a scan; those that arrived after the division are no fault.
    """
    job = shares_journal(storage).job()
    # A share takes fewer options than the merge.
    command = shlex.join(["energon", "prepare", ref.path, *ref.folder_flags])
    if job is None:
        if not unscanned:
            return
        raise ConfigError(
            f"there are no shares to merge: {plural(len(unscanned), 'shard is', 'shards are')} not scanned,"
            " and no share was started",
            at=storage.path(""),
            hint=f"run the shares first: {command} --share 1/64, and so on",
        )
    # Name the shares with shards that are not scanned, and the command that runs the first one.
    remaining = frozenset(unscanned)
    missing = {position: name for position, name in enumerate(shards_of(job)) if name in remaining}
    if not missing:
        return
    shown = ", ".join([*missing.values()][:_MAX_SHARDS]) + (", …" if len(missing) > _MAX_SHARDS else "")
    what = f"{len(missing):,} of {plural(job.tasks, 'shard is', 'shards are')} not scanned: {shown}"
    error = incomplete_shares(
        missing, job.starts, what=what, command=lambda share: f"{command} {share}", at=storage.path("")
    )
    error.hint = f"{error.hint}; a share names shards that are damaged"
    raise error
