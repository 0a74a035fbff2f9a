"""Scan shards into the journal, in worker processes; each scans many shards of an object store at a time."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ..engine.run import Engine
from ..engine.workers import StoppedError
from ..errors import EnergonError, FormatError, StorageError, plural
from ..format.compat.files import stage_tar_idx
from ..format.index.journal import ScanFolders, ScanPlace, StoredScans, download_scan, save_scans, upload_scans
from ..format.index.remote_shard import RemoteIndexer, ScanMode
from ..format.index.shard_index import ShardIndex, index_shard
from ..format.index.small_shards import index_small_shards
from ..storage import FileInfo, LocalStorage, RemoteStorage, SplitStorage, Storage, may_use_rust
from .contents.findings import Contents, ContentSampler
from .plan import PrepareProgress, ScanHow

_MAX_GROUP_SHARDS = 64
_MAX_GROUP_BYTES = 32 * 1024 * 1024  # an interrupted prepare scans at most this much again per worker
_GROUPS_PER_WORKER = 8  # at least, so that all workers are busy up to the end
_SCANS_AT_ONCE = 64  # in a process
_REQUESTS_AT_ONCE = 256  # in all processes
_MIN_SCANS = 4
_EXECUTOR_WORKERS = 64  # assumed: executors do not report their number
_MAX_BYTES_HERE = 1 << 30  # of shards that are scanned without a worker process, which takes longer to start


class _Group(list[FileInfo]):
    @property
    def name(self) -> str:
        """The shards, for the error of a worker that was killed."""
        ends = dict.fromkeys((self[0].name, self[-1].name))
        return " to ".join(ends) if len(self) == 1 else f"{plural(len(self), 'shard')} from {' to '.join(ends)}"


class _Scanned(NamedTuple):
    """A shard that was scanned: the place of its scan, or its error."""

    place: ScanPlace | EnergonError
    samples: int = 0
    contents: Contents | None = None  # of some samples, if a sampler inspects them


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


def _remote_groups(shards: Sequence[FileInfo], workers: int, *, is_here: bool) -> list[_Group]:
    """Divide shards into groups of neighbours that a process scans at a time."""
    if is_here:
        return [_Group(shards)]
    count = max(1, min(_SCANS_AT_ONCE, -(-len(shards) // max(1, workers))))
    return [_Group(shards[start : start + count]) for start in range(0, len(shards), count)]


def _store(
    work: Storage,
    shards: _Group,
    results: Sequence[EnergonError | ShardIndex],
    contents: Mapping[str, Contents],
    part: ScanFolders | None,
    *,
    stages_tar_idx: bool,
) -> list[_Scanned]:
    """Store the scans of a group in the journal."""
    scans = [(shard, result) for shard, result in zip(shards, results, strict=True) if isinstance(result, ShardIndex)]
    places = iter(save_scans(work, scans, part) if scans else ())
    for shard, index in scans if stages_tar_idx else ():
        stage_tar_idx(work, shard, index)
    return [
        _Scanned(next(places), len(result), contents.get(shard.name))
        if isinstance(result, ShardIndex)
        else _Scanned(result)
        for shard, result in zip(shards, results, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Scan:
    """Scan a group of shards into the journal; runs in a worker."""

    storage: Storage
    work: Storage
    stage_tar_idx: bool
    part: ScanFolders | None = None
    sampler: ContentSampler | None = None

    def __call__(self, shards: _Group) -> Generator[int | list[_Scanned], None, None]:
        small = index_small_shards(self.storage, shards)
        results = [self._index(shard, index) for shard, index in zip(shards, small, strict=True)]
        contents: dict[str, Contents] = {}
        for shard, result in zip(shards, results, strict=True):
            if self.sampler is not None and isinstance(result, ShardIndex):
                contents[shard.name] = self.sampler.inspect(self.storage, shard, result)
        # An error of this, such as a full disk, is not a fault of a shard: it ends the run.
        yield _store(self.work, shards, results, contents, self.part, stages_tar_idx=self.stage_tar_idx)

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
    """Scan a group of shards into the journal; runs in a worker, which may use threads."""

    storage: RemoteStorage  # the folder of the shards
    # the folder of staged files; None on another machine, which then stores scans in the dataset alone
    work: Storage | None
    uploads: bool  # true if scans are also stored there, and not only in the folder of staged files
    mode: ScanMode  # how shards are scanned
    stage_tar_idx: bool  # also write the ``.tar.idx`` files to the staging folder
    workers: int  # number of such workers
    part: ScanFolders | None = None  # the part of the prepare
    sampler: ContentSampler | None = None  # inspects samples of the shards

    def __call__(self, shards: _Group) -> Generator[int | list[_Scanned], None, None]:
        if self.work is not None:
            yield from self._scan(shards, self.work)
            return
        with tempfile.TemporaryDirectory(prefix="energon-prepare-") as folder:
            yield from self._scan(shards, LocalStorage(folder))

    def _scan(self, shards: _Group, work: Storage) -> Generator[int | list[_Scanned], None, None]:
        # Scan the shards in threads.
        most = min(_SCANS_AT_ONCE, max(_MIN_SCANS, _REQUESTS_AT_ONCE // max(1, self.workers)))
        at_once = min(most, len(shards))
        indexer = RemoteIndexer(self.storage, self.mode, at_once=at_once)

        contents: dict[str, Contents] = {}

        def scanned(shard: FileInfo) -> EnergonError | ShardIndex:
            try:
                index = indexer.index(shard)
            except (FormatError, StorageError) as error:
                return error
            if self.sampler is not None:
                # The first bytes are here already, so the sampler need not request them.
                head = indexer.heads.pop(shard.name, b"")
                contents[shard.name] = self.sampler.inspect(self.storage, shard, index, head=head)
            return index

        # Report each shard as soon as it is scanned, and store the scans of all.
        with ThreadPoolExecutor(at_once, thread_name_prefix="scan") as threads:
            futures = [threads.submit(scanned, shard) for shard in shards]
            try:
                for future in as_completed(futures):
                    result = future.result()
                    if isinstance(result, ShardIndex):
                        yield len(result)
            finally:
                # If the caller stops early, end the scans that still run.
                indexer.stop()
                threads.shutdown(wait=False, cancel_futures=True)
        yield from self._stored(shards, [future.result() for future in futures], work, contents)

    def _stored(
        self,
        shards: _Group,
        results: Sequence[EnergonError | ShardIndex],
        work: Storage,
        contents: Mapping[str, Contents],
    ) -> Iterator[list[_Scanned]]:
        """Store scans, and yield where; on this machine first, and meanwhile in the dataset."""
        scanned = _store(work, shards, results, contents, self.part, stages_tar_idx=self.stage_tar_idx)
        places = [each.place for each in scanned if isinstance(each.place, ScanPlace)]
        with ThreadPoolExecutor(1) as thread:
            is_stored = thread.submit(upload_scans, work, self.storage, places) if places and self.uploads else None
            # An outage is not a fault of a shard: it ends the run, and the next one resumes from the stored scans.
            for result in results:
                if isinstance(result, StorageError) and not result.is_missing:
                    raise result
            try:
                yield scanned
            finally:
                if is_stored is not None:
                    is_stored.result()


class ShardScans:
    """Scans that workers do while a prepare writes.

    Args:
        total: Number of all shards, for progress; those not in ``to_scan`` count as done.
        resumed: Number of shards that an interrupted run had scanned, for progress.
        how: How they are scanned; an executor gets tasks of up to 64 shards.
        stage_tar_idx: Also write the ``.tar.idx`` files to the staging folder.
        sampler: Inspects samples of the shards; None inspects none.

    Attributes:
        to_scan: Number of shards to scan.
        contents: Name of a shard that was scanned → what samples of it contain, until a caller takes it.
        staged: Names of the shards whose ``.tar.idx`` workers write.
    """

    def __init__(
        self,
        storage: Storage,
        work: Storage,
        journal: StoredScans,
        to_scan: Sequence[FileInfo],
        how: ScanHow,
        *,
        total: int,
        resumed: int = 0,
        stage_tar_idx: bool = False,
        sampler: ContentSampler | None = None,
    ) -> None:
        # Keep count of the shards.
        self.to_scan, self.resumed, self.sampler = len(to_scan), resumed, sampler
        self._journal = journal
        engine = how.engine
        stage_tar_idx = stage_tar_idx and engine.sees_this_disk and not engine.may_run_twice
        self._is_stopped = engine.is_stopped
        self.contents: dict[str, Contents | None] = {}
        self._total = total
        self._samples = 0
        self._on_progress = how.on_progress
        self._open = {shard.name for shard in to_scan}
        self.staged = frozenset(self._open) if stage_tar_idx else frozenset()
        self._errors: dict[str, EnergonError] = {}
        self._before, self._scanned = total - len(self._open), 0
        self._running = defaultdict[int, list[int]](list)  # group → samples of its shards, before all are stored
        self._written: Callable[[str], None] | None = None
        if resumed:
            self._report(resumed)
        self._report()
        # Let an executor scan many shards in a task, and processes of this machine a few.
        self._fetch_scans: Callable[[ScanPlace], None] | None = None
        self._results: Generator[tuple[int, int | list[_Scanned]], None, None]
        shards = storage.main if isinstance(storage, SplitStorage) else storage
        if isinstance(storage, RemoteStorage):
            self._written = storage.note_written  # by other processes
        workers, is_sent = engine.workers, engine.executor is not None
        if is_sent:
            workers = _EXECUTOR_WORKERS
            self._groups = _groups(to_scan, workers, max_bytes=math.inf)
        elif isinstance(shards, RemoteStorage):
            # Scan a few small shards in this process, and others in several.
            size_bytes = sum(shard.size_bytes for shard in to_scan)
            is_here = may_use_rust() and 0 < len(to_scan) <= _SCANS_AT_ONCE and size_bytes <= _MAX_BYTES_HERE
            # In a process that may fork later, requests would take the way through a helper process.
            engine = Engine() if is_here else replace(engine, apart=True, on_death=lambda *_: self._running.clear())
            workers = engine.workers
            self._groups = _remote_groups(to_scan, workers, is_here=is_here)
        else:
            self._groups = _groups(to_scan, workers)
        # Begin.
        scan: _Scan | _RemoteScan = _Scan(storage, work, stage_tar_idx, how.part, sampler)
        if isinstance(shards, RemoteStorage):
            uploads = shards is storage and not how.is_trial
            is_far = is_sent and uploads and not engine.sees_this_disk
            if is_far:
                self._fetch_scans = partial(download_scan, shards, work)
            folder = None if is_far else work
            scan = _RemoteScan(shards, folder, uploads, how.mode, stage_tar_idx, workers, how.part, sampler)
        self._results = engine.stream(scan, self._groups, is_last=lambda result: not isinstance(result, int))

    def wait_for(self, shard: FileInfo) -> None:
        """Wait until a shard is in the journal."""
        while shard.name in self._open:
            self._take_group()
        if self._errors:
            while self._open:
                self._take_group()
            scanned = (shard.name for group in self._groups for shard in group)
            raise_scan_errors([self._errors[name] for name in scanned if name in self._errors])

    def _take_group(self) -> None:
        group, results = next(self._results)
        if isinstance(results, int):  # the samples of one shard of a group, which is not stored yet
            self._running[group].append(results)
            self._report()
            return
        # Record the scans of the group, or the errors.
        was_reported = self._running.pop(group, None) is not None
        for shard, result in zip(self._groups[group], results, strict=True):
            self._open.remove(shard.name)
            if isinstance(result.place, EnergonError):
                self._errors[shard.name] = result.place
            else:
                self.contents[shard.name] = result.contents
                if self._fetch_scans is not None:
                    self._fetch_scans(result.place)
                self._journal.add(shard, result.place)
                if self._written is not None:
                    self._written(result.place.file)
                self._samples += result.samples
                self._scanned += 1
        # Report once for the group, unless each shard was reported.
        if not was_reported and any(result.samples for result in results):
            self._report()

    def _report(self, resumed: int = 0) -> None:
        if self._is_stopped is not None and self._is_stopped():
            raise StoppedError
        if self._on_progress:
            running = [samples for group in self._running.values() for samples in group]
            done, samples = self._before + self._scanned + len(running), self._samples + sum(running)
            self._on_progress(
                PrepareProgress(
                    phase="scan", shards_done=done, shards_total=self._total, samples=samples, resumed=resumed
                )
            )

    def close(self) -> None:
        """End the workers; scans that were taken are stored first."""
        if not self._open:
            for _ in self._results:
                pass
        self._results.close()


def raise_scan_errors(errors: Sequence[EnergonError], *, action: str = "indexed") -> None:
    """Raise the error of a shard, or one error about several shards, which cannot be indexed."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise FormatError(
            f"{plural(len(errors), 'shard')} cannot be {action}\n" + "\n".join(str(error) for error in errors),
            hint="fix them, or leave them out: energon prepare --exclude REGEX",
        )
