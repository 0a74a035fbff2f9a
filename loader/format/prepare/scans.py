"""Scan shards into the journal, in worker processes; of those in an object store, many at a time in each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import EnergonError, FormatError, StorageError
from ...storage import FileInfo, RemoteStorage, SplitStorage, Storage
from ..cluster.executor import run_in_executor
from ..compat.files import stage_tar_idx
from ..index.journal import Journal, ScanPlace, save_scans, upload_scans
from ..index.remote_shard import RemoteIndexer, ScanMode
from ..index.shard_index import ShardIndex, index_shard
from ..index.small_shards import index_small_shards
from ..worker_pool import run_in_workers
from .plan import PrepareProgress, ProgressCallback

__all__ = ["ShardScans", "raise_scan_errors"]

_MAX_GROUP_SHARDS = 64
_MAX_GROUP_BYTES = 32 * 1024 * 1024  # an interrupted prepare scans at most this much again per worker
_GROUPS_PER_WORKER = 8  # at least, so that all workers are busy up to the end
_SCANS_AT_ONCE = 64  # in a process
_REQUESTS_AT_ONCE = 256  # in all processes
_MIN_SCANS = 4
_EXECUTOR_WORKERS = 64  # assumed: executors do not report their number


class _Group(list[FileInfo]):
    """Neighbouring shards that are scanned together."""

    @property
    def name(self) -> str:
        """The shards, for the error of a worker that was killed."""
        return self[0].name if len(self) == 1 else f"{len(self)} shards from {self[0].name} to {self[-1].name}"


class _Scanned(NamedTuple):
    """A shard that was scanned: the place of its scan, or its error."""

    place: ScanPlace | EnergonError
    samples: int = 0


def _groups(shards: Sequence[FileInfo], workers: int, max_bytes: float = _MAX_GROUP_BYTES) -> list[_Group]:
    """Divide shards into groups of neighbours: many small ones, or one large one."""
    count = max(1, min(_MAX_GROUP_SHARDS, len(shards) // (_GROUPS_PER_WORKER * max(1, workers))))
    groups: list[_Group] = []
    size_bytes = 0
    for shard in shards:
        size_bytes += shard.size_bytes
        if not groups or len(groups[-1]) == count or size_bytes > max_bytes:
            groups.append(_Group())
            size_bytes = shard.size_bytes
        groups[-1].append(shard)
    return groups


def _remote_groups(shards: Sequence[FileInfo], workers: int) -> list[_Group]:
    """Divide shards into groups of neighbours that a process scans at a time."""
    count = max(1, min(_SCANS_AT_ONCE, -(-len(shards) // max(1, workers))))
    return [_Group(shards[start : start + count]) for start in range(0, len(shards), count)]


@dataclass(frozen=True, slots=True)
class _Scan:
    """Scan a group of shards into the journal; runs in a worker."""

    storage: Storage
    stage_tar_idx: bool

    def __call__(self, shards: _Group) -> list[_Scanned]:
        small = index_small_shards(self.storage, shards)
        results = [self._index(shard, index) for shard, index in zip(shards, small, strict=True)]
        scans = [
            (shard, result)
            for shard, result in zip(shards, results, strict=True)
            if not isinstance(result, EnergonError)
        ]
        # An error from here on, such as a full disk, is not a fault of a shard: it ends the run.
        places = iter(save_scans(self.storage, scans) if scans else ())
        if self.stage_tar_idx:
            for shard, index in scans:
                stage_tar_idx(self.storage, shard, index)
        return [
            _Scanned(result) if isinstance(result, EnergonError) else _Scanned(next(places), len(result))
            for result in results
        ]

    def _index(self, shard: FileInfo, index: ShardIndex | None) -> EnergonError | ShardIndex:
        try:
            if index is None:
                index = index_shard(self.storage, shard.name, info=shard)
            if self.storage.checks_versions:
                return index  # each read has checked it
            now = self.storage.stat(shard.name)
        except (FormatError, StorageError) as error:
            return error
        if now == shard:
            return index
        return FormatError(
            f"the shard changed while it was read (now {now.size_bytes} bytes, before {shard.size_bytes})",
            shard=self.storage.path(shard.name),
            hint="wait until it is written, then prepare again",
        )


@dataclass(frozen=True, slots=True)
class _RemoteScan:
    """Scan a group of shards into the journal; runs in a worker, which may use threads.

    Attributes:
        storage: The dataset.
        work: The folder of staged files.
        mode: How shards are scanned.
        stage_tar_idx: Also write the ``.tar.idx`` files to the staging folder.
        workers: Number of such workers.
    """

    storage: RemoteStorage | SplitStorage
    work: Storage
    mode: ScanMode
    stage_tar_idx: bool
    workers: int

    def __call__(self, shards: _Group) -> list[_Scanned]:
        most = min(_SCANS_AT_ONCE, max(_MIN_SCANS, _REQUESTS_AT_ONCE // max(1, self.workers)))
        at_once = min(most, len(shards))
        indexer = RemoteIndexer(self.storage, self.mode, at_once=at_once)

        def scanned(shard: FileInfo) -> EnergonError | ShardIndex:
            try:
                return indexer.index(shard)
            except (FormatError, StorageError) as error:
                return error

        with ThreadPoolExecutor(at_once, thread_name_prefix="scan") as threads:
            results = list(threads.map(scanned, shards))
        scans = [
            (shard, result) for shard, result in zip(shards, results, strict=True) if isinstance(result, ShardIndex)
        ]
        places = save_scans(self.work, scans) if scans else []
        if scans and self.work is not self.storage:
            upload_scans(self.work, self.storage, places)
        # An outage is not a fault of a shard: it ends the run, and the next one resumes from the scans that are stored.
        for result in results:
            if isinstance(result, StorageError) and not isinstance(result.__cause__, FileNotFoundError):
                raise result
        if self.stage_tar_idx:
            for shard, index in scans:
                stage_tar_idx(self.work, shard, index)
        remaining = iter(places)
        return [
            _Scanned(next(remaining), len(result)) if isinstance(result, ShardIndex) else _Scanned(result)
            for result in results
        ]


class ShardScans:
    """Scans that workers do while a prepare writes.

    Args:
        storage: The dataset.
        work: Where staged files wait for the commit.
        journal: Gets the places of the scans.
        to_scan: The shards to scan.
        stage_tar_idx: Also write the ``.tar.idx`` files to the staging folder.
        total: Number of all shards, for progress; those not in ``to_scan`` count as done.
        workers: Number of worker processes.
        on_progress: Called at the start and after each scanned shard.
        mode: How shards in an object store are scanned.
        executor: Runs the scans instead of worker processes, in tasks of up to 64 shards.
    """

    def __init__(
        self,
        storage: Storage,
        work: Storage,
        journal: Journal,
        to_scan: Sequence[FileInfo],
        *,
        stage_tar_idx: bool,
        total: int,
        workers: int,
        on_progress: ProgressCallback | None,
        mode: ScanMode = "auto",
        executor: Executor | None = None,
    ) -> None:
        self._journal = journal
        is_remote = isinstance(storage, RemoteStorage | SplitStorage) and storage.checks_versions
        if executor is not None:
            self._groups = _groups(to_scan, _EXECUTOR_WORKERS, max_bytes=math.inf)
            stage_tar_idx = False  # a cluster may run a task twice
        else:
            self._groups = _remote_groups(to_scan, workers) if is_remote else _groups(to_scan, workers)
        self._total = total
        self._samples = 0
        self._on_progress = on_progress
        self._open = {shard.name for shard in to_scan}
        self._staged = frozenset(self._open) if stage_tar_idx else frozenset()
        self._errors: dict[str, EnergonError] = {}
        self._report()
        scan: Callable[[_Group], list[_Scanned]] = _Scan(storage, stage_tar_idx)
        if isinstance(storage, RemoteStorage | SplitStorage) and is_remote:
            scan = _RemoteScan(storage, work, mode, stage_tar_idx, workers)
        if executor is None:
            # Remote scans not in this process, which may fork later: its requests would go through a helper process.
            self._results = run_in_workers(scan, self._groups, workers=workers, apart=is_remote)
        else:
            self._results = run_in_executor(scan, self._groups, executor)

    def wait_for(self, shard: FileInfo) -> None:
        """Wait until a shard is in the journal.

        Raises:
            EnergonError: This shard, or another one scanned meanwhile, cannot be indexed. All scans are finished first,
                so that the error names every damaged shard.
        """
        while shard.name in self._open:
            self._take_group()
        if self._errors:
            while self._open:
                self._take_group()
            scanned = (shard.name for group in self._groups for shard in group)
            raise_scan_errors([self._errors[name] for name in scanned if name in self._errors])

    def has_staged(self, shard: FileInfo) -> bool:
        """Return True if a worker has written the ``.tar.idx`` of a shard."""
        return shard.name in self._staged

    def _take_group(self) -> None:
        number, results = next(self._results)
        for shard, result in zip(self._groups[number], results, strict=True):
            self._open.remove(shard.name)
            if isinstance(result.place, EnergonError):
                self._errors[shard.name] = result.place
            else:
                self._journal.add(shard, result.place)
                self._samples += result.samples
        if any(result.samples for result in results):
            self._report()

    def _report(self) -> None:
        if self._on_progress:
            done = self._total - len(self._open) - len(self._errors)
            self._on_progress(
                PrepareProgress(phase="scan", shards_done=done, shards_total=self._total, samples=self._samples)
            )

    def close(self) -> None:
        """End the workers."""
        self._results.close()


def raise_scan_errors(errors: Sequence[EnergonError], *, action: str = "indexed") -> None:
    """Raise the error of a shard, or one error about several shards, which cannot be indexed."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise FormatError(
            f"{len(errors)} shards cannot be {action}\n" + "\n".join(str(error) for error in errors),
            hint="fix them, or exclude them with --exclude REGEX",
        )
