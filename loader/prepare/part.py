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
from itertools import pairwise

import msgspec

from ..engine.run import Engine
from ..engine.share import BYTES_PER_SHARD, Share, divide, incomplete_shares
from ..errors import ConfigError, FormatError, StorageError, plural
from ..format.dataset_ref import DatasetRef
from ..format.index.current import PreviousIndex
from ..format.index.journal import ScanFolders, StoredScans, download_scans
from ..format.nv_meta import WORK_FOLDER
from ..storage import FileInfo, RemoteStorage, Storage, read_document
from .destination import check_destination
from .plan import PreparePlan, ProgressCallback, ScanHow
from .scans import ShardScans
from .shards import find_shards, parse_exclude
from .staging import unchanged_shards
from .workspace import open_part_workspace

PART_PLAN = f"{WORK_FOLDER}/parts.json"
"""The plan of the shares of a prepare, so that all agree even if shards arrive meanwhile; the commit removes it."""

_STATUS_THREADS = 32  # of a network file system or an object store


class SharePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of each share."""

    starts: tuple[int, ...]  # number of the first shard of each share
    shards: tuple[str, ...]  # names of the shards, in the order of the dataset
    planned_at: str  # time in UTC

    def shards_of(self, share: int) -> tuple[str, ...]:
        """Return the shards of a share; shares are numbered from 1."""
        stop = self.starts[share] if share < len(self.starts) else len(self.shards)
        return self.shards[self.starts[share - 1] : stop]


def divide_shards(shards: Sequence[FileInfo], shares: int) -> SharePlan:
    """Divide shards into runs of neighbours of about the same size in bytes.

    >>> shards = [FileInfo(name=name, size_bytes=1 << 30, mtime_ns=0) for name in "abc"]
    >>> plan = divide_shards(shards, 2)
    >>> plan.shards_of(1), plan.shards_of(2)
    (('a',), ('b', 'c'))
    """
    return SharePlan(
        starts=divide([shard.size_bytes + BYTES_PER_SHARD for shard in shards], shares),
        shards=tuple(shard.name for shard in shards),
        planned_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


def read_plan(storage: Storage) -> SharePlan | None:
    """Read the plan of a prepare in shares; return None without one."""
    try:
        plan = msgspec.convert(json.loads(read_document(storage, PART_PLAN)), SharePlan)
        if plan.starts[:1] != (0,) or any(start > stop for start, stop in pairwise([*plan.starts, len(plan.shards)])):
            raise ValueError("its shares do not divide its shards")  # noqa: TRY301 - as a damaged document
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise
    except (ValueError, msgspec.ValidationError) as error:
        raise FormatError(
            f"the plan of the shares is damaged: {error}",
            shard=storage.path(PART_PLAN),
            hint="remove this file and run all shares again; they keep what is done",
        ) from error
    return plan


def write_plan(storage: Storage, plan: SharePlan) -> SharePlan:
    """Write a plan; return the one that counts, which another share may have written before."""
    storage.create_once(PART_PLAN, json.dumps(msgspec.to_builtins(plan)).encode("ascii"))
    return read_plan(storage) or plan


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
    written = read_plan(storage)
    if written is None:
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
        written = divide_shards(to_scan, part.count)
        if write and to_scan:
            written = write_plan(storage, written)
    if len(written.starts) != part.count:
        shares = plural(len(written.starts), "share")
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
    with closing(StoredScans(work, folders)) as journal:
        to_scan = [shard for shard in shards if not journal.has(shard)]
        how = ScanHow(engine=Engine(workers=plan.workers), on_progress=on_progress, mode=plan.scan, part=folders)
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
    plan = None if is_known and not storage.exists(PART_PLAN) else read_plan(storage)
    if plan is not None:
        raise ConfigError(
            f"this dataset is being prepared in {plural(len(plan.starts), 'share')}, since {plan.planned_at}",
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
    plan = read_plan(storage)
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
        for position in range(1, len(plan.starts) + 1)
    }
    names = [name for shards in unscanned_of.values() for name in shards]
    if not names:
        return
    # Name them, and the command that runs the first one.
    numbers = [position for position, shards in unscanned_of.items() if shards]
    shown = ", ".join(names[:_MAX_SHARDS]) + (", …" if len(names) > _MAX_SHARDS else "")
    what = f"{len(names):,} of {plural(len(plan.shards), 'shard is', 'shards are')} not scanned: {shown}"
    error = incomplete_shares(
        numbers, len(plan.starts), what=what, command=lambda share: f"{command} {share}", at=storage.path("")
    )
    error.hint = f"{error.hint}; a share names shards that are damaged"
    raise error
