"""Fetch files ahead into a scratch file, in background threads of one process."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from ..errors import EnergonError
from ..escaped_log import get_logger
from ..samples.source_info import SourceInfo
from .file_store import FileStore
from .scratch_file import Extent, ScratchFile

_log = get_logger(__name__)

_SPACE_POLL_S = 0.2
_JOIN_S = 5.0


@dataclass(slots=True)
class CacheLimits:
    """The largest size and number of the files in a cache."""

    max_bytes: int
    max_count: int


class CacheFetcher:
    """Fetches files in the order of requests, and caches each until its last lazy has taken it.

    If there is no space, the threads wait with the files that they have fetched, and hand a file over in memory when a
    lazy takes it. A file that is taken before its turn is fetched by the thread that takes it. So taking a file never
    waits for anything but the reading of that file. If it has further lazies, it waits in the queue again.

    Args:
        keeps_values: Cache decoded values, as pickles; else raw files.
    """

    def __init__(self, folder: Path, limits: CacheLimits, *, num_workers: int, keeps_values: bool) -> None:
        self.pid = os.getpid()
        self._scratch = ScratchFile(folder, max_bytes=limits.max_bytes)
        self._folder = folder
        self._num_workers = num_workers
        self._limits = limits
        self.count = 0
        self._keeps_values = keeps_values
        # Entries that a lazy will take; requests in their order; entries that the garbage collector dropped.
        self._entries: dict[tuple[FileStore[Any], str], CacheEntry] = {}
        self._queue: OrderedDict[CacheEntry, None] = OrderedDict()
        self._dropped: deque[CacheEntry] = deque()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._warned = False
        # One lock, and a condition for each thing that threads wait for.
        self._lock = threading.Lock()
        self._file_queued = threading.Condition(self._lock)
        self._space_freed = threading.Condition(self._lock)
        self._file_fetched = threading.Condition(self._lock)

    @property
    def size_bytes(self) -> int:
        return self._scratch.size_bytes

    # ----------------------------------------------------------------------------------------------- for the lazies

    def request(self, store: FileStore[Any], fname: str) -> CacheEntry | None:
        """Queue a file for one more lazy; return None if the fetcher is closed."""
        key = (store, fname)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                entry.lazies += 1
                return entry
            if self._closed:
                return None
            entry = self._entries[key] = CacheEntry(self, key, keeps_value=self._keeps_values)
            self._queue[entry] = None
            self._file_queued.notify()
            if len(self._threads) < self._num_workers:
                self._start_thread()
        self._release_dropped()
        return entry

    def take(self, entry: CacheEntry) -> Fetched:
        """Return the value of an entry, and its source.

        Raises:
            Exception: The error of the store.
            EnergonError: The entry is a value, and this process is a fork of the one that stored it.
        """
        # A fork has no threads: it reads the store itself.
        if self.pid != os.getpid():
            raw, source = entry.read_store()
            return entry.value_of(raw), source
        # Wait for a thread that fetches the file, or take it out of the queue.
        with self._lock:
            entry.waiters += 1
            self._space_freed.notify_all()  # its thread may wait for space
            try:
                while entry.state is EntryState.FETCHING:
                    self._file_fetched.wait()
            finally:
                entry.waiters -= 1
            is_queued = entry.state is EntryState.QUEUED and entry.fetched is None
            if is_queued:
                self._start_fetching(entry)
            fetched, extent, error = entry.fetched, entry.extent, entry.error
            entry.error = None  # the next lazy tries again; the traceback would keep objects of the thread alive
            if not entry.waiters:
                entry.fetched = None
                if fetched is not None:  # its thread gave up its place for those that waited
                    self._requeue(entry, lazies=entry.lazies - 1)
        # Fetch the file here, or read where the thread left it: in memory, in the scratch file or in the store.
        self._release_dropped()
        if is_queued:
            fetched = self._fetch(entry, ahead=False)
        elif fetched is None and extent is not None:
            fetched = entry.read_cache(extent)
        elif fetched is None:
            if error is not None:
                raise error
            fetched = entry.read_store()
        return entry.value_of(fetched[0]), fetched[1]

    def drop(self, entry: CacheEntry) -> None:
        """Release an entry for one lazy. Runs in any thread at any time, because the garbage collector calls it."""
        if self.pid == os.getpid():  # in a fork, a thread that does not exist there may hold the lock
            self._dropped.append(entry)
            self._release_dropped()

    def store_value(self, value: Any) -> CacheEntry | None:
        """Cache a value; return None if there is no space, or if it does not pickle."""
        entry = CacheEntry(self, None, keeps_value=True)
        data = self._serialize(entry, value)
        extent = None if data is None else self._write(entry, data, may_wait=False)
        self._release_dropped()
        if extent is None:
            return None
        entry.state, entry.extent = EntryState.CACHED, extent
        return entry

    def stop(self) -> None:
        # A forked process has the fetcher's lock, perhaps locked, and none of its threads.
        if self.pid != os.getpid():
            return
        # Lazies that remain read their files from the stores.
        with self._lock:
            self._closed = True
            for entry in self._entries.values():
                if entry.state in (EntryState.QUEUED, EntryState.CACHED):
                    entry.state = EntryState.DIRECT
                    self._free(entry)
            self._entries.clear()
            self._queue.clear()
            self._scratch.close()
            for condition in (self._file_queued, self._space_freed, self._file_fetched):
                condition.notify_all()
        # Wait for the threads, each at work on one file.
        deadline = time.monotonic() + _JOIN_S  # a thread may read from a disk that hangs
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    # ---------------------------------------------------------------------------------------------- for the threads

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"energon-cache-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the limit of threads; without threads, each file is fetched when it is taken
            self._num_workers = len(self._threads)
            self._warn_once(error)
            return
        self._threads.append(thread)

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._queue and not self._closed:
                    self._file_queued.wait()
                if self._closed:
                    return
                entry = next(iter(self._queue))
                self._start_fetching(entry)
            with suppress(BaseException):  # the entry has the error, for the lazy that takes it
                self._fetch(entry, ahead=True)
            del entry  # must not stay alive while this thread waits for the next one

    def _start_fetching(self, entry: CacheEntry) -> None:
        del self._queue[entry]
        entry.state = EntryState.FETCHING

    def _fetch(self, entry: CacheEntry, *, ahead: bool) -> Fetched:
        """Fetch an entry that this thread has started, and cache it if there is space."""
        fetched: Fetched | None = None
        extent: Extent | None = None
        entry.needs_space = False
        try:
            # Read without the lock: storage may be slow.
            fetched = entry.read_store()
            entry.source = fetched[1]
            data = self._serialize(entry, fetched[0])
            if data is not None:
                extent = self._write(entry, data, may_wait=ahead)
        except BaseException as error:
            if ahead:
                entry.error = error
            raise
        finally:
            with self._lock:
                # Publish the result, also of a failure, to the lazies that wait.
                self._finish(entry, fetched, extent)
                if not entry.waiters:  # otherwise the last of them queues it again
                    self._requeue(entry, lazies=entry.lazies - (not ahead))
            self._release_dropped()
        return fetched

    def _requeue(self, entry: CacheEntry, *, lazies: int) -> None:
        """Queue a file again that the limits kept out of the cache, if lazies will still take it."""
        if entry.needs_space and entry.state is EntryState.DIRECT and lazies > 0 and not self._closed:
            entry.state = EntryState.QUEUED
            self._queue[entry] = None
            self._file_queued.notify()

    def _finish(self, entry: CacheEntry, fetched: Fetched | None, extent: Extent | None) -> None:
        entry.extent = extent
        if self._closed:
            self._free(entry)
        if entry.extent is not None:
            entry.state = EntryState.CACHED
        else:
            entry.state = EntryState.DIRECT
            entry.fetched = fetched if entry.waiters else None
        if entry.waiters:
            self._file_fetched.notify_all()
        if not entry.lazies:
            self._forget(entry)

    # ---------------------------------------------------------------------------------------------------- the space

    def _serialize(self, entry: CacheEntry, value: Any) -> bytes | None:
        try:
            return entry.to_bytes(value)
        except Exception as error:  # noqa: BLE001 - pickling raises any error, and the file can be fetched again
            self._warn_once(error)
            return None

    def _write(self, entry: CacheEntry, data: bytes, *, may_wait: bool) -> Extent | None:
        """Write bytes to the scratch file; return None if there is no space and waiting for it is no use."""
        try:
            with self._lock:
                while self._is_full(len(data)) and not self._closed:
                    if not may_wait or entry.waiters or not entry.lazies or len(data) > self._limits.max_bytes:
                        entry.needs_space = len(data) <= self._limits.max_bytes
                        return None
                    # With a timeout: a lazy that is collected in this thread while it holds the lock wakes no thread.
                    self._space_freed.wait(_SPACE_POLL_S)
                    self._release_dropped_locked()
                if self._closed:
                    return None
                extent = self._scratch.reserve(len(data))
                self.count += 1
        except OSError as error:
            self._warn_once(error)
            return None
        try:
            extent.write(data)
        except OSError as error:  # the disk is full
            with self._lock:
                self._release(extent)
            self._warn_once(error)
            return None
        return extent

    def _is_full(self, size_bytes: int) -> bool:
        limits = self._limits
        return self.count >= limits.max_count or self.size_bytes + size_bytes > limits.max_bytes

    def _release(self, extent: Extent) -> None:
        self._scratch.release(extent)
        self.count -= 1
        self._space_freed.notify_all()

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("cannot cache all files in %s, so they are read when needed: %s", self._folder, error)

    def _release_dropped(self) -> None:
        """Free dropped entries, unless another thread holds the lock: it frees them when it releases the lock."""
        while self._dropped and self._lock.acquire(blocking=False):
            try:
                self._release_dropped_locked()
            finally:
                self._lock.release()

    def _release_dropped_locked(self) -> None:
        while self._dropped:
            entry = self._dropped.popleft()
            entry.lazies -= 1
            if not entry.lazies and entry.state is not EntryState.FETCHING:
                self._forget(entry)

    def _forget(self, entry: CacheEntry) -> None:
        self._queue.pop(entry, None)
        if entry.key is not None and self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
        self._free(entry)

    def _free(self, entry: CacheEntry) -> None:
        if entry.extent is not None:
            self._release(entry.extent)
            entry.extent = None


Fetched = tuple[Any, SourceInfo | None]
"""A file as its store returned it, raw or decoded, and its source."""


class EntryState(Enum):
    """Progress of a file into the cache."""

    QUEUED = auto()
    FETCHING = auto()
    CACHED = auto()  # its bytes are in the scratch file
    DIRECT = auto()  # not cached: each lazy fetches it


@dataclass(slots=True, eq=False)
class CacheEntry:
    """A file that lazies of this process refer to, or a stored value.

    Args:
        key: Store and key of the file; None for a value.
        keeps_value: Cache the decoded value, as a pickle; else the raw file.
    """

    fetcher: CacheFetcher
    key: tuple[FileStore[Any], str] | None
    keeps_value: bool
    lazies: int = 1  # lazies that refer to it and have not taken it yet
    waiters: int = 0  # threads that wait for it
    state: EntryState = EntryState.QUEUED
    extent: Extent | None = None
    is_pickle: bool = False
    source: SourceInfo | None = None
    error: BaseException | None = None  # raised by the fetching thread, for the first lazy that takes it
    needs_space: bool = False  # the limits kept it out of the cache
    fetched: Fetched | None = None  # set only if threads wait and the cache has no space

    def read_store(self) -> Fetched:
        if self.key is None:
            raise EnergonError(
                "a value of a cache pool was requested in a fork of the process that stored it",
                hint="get it before forking, or keep it in memory",
            )
        store, fname = self.key
        return store[fname] if self.keeps_value else store.read_raw(fname)

    def to_bytes(self, value: Any) -> bytes:
        """Serialize a raw file or a value for the cache.

        Raises:
            Exception: The value does not pickle.
        """
        if type(value) is bytes:
            return value
        self.is_pickle = True
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)

    def read_cache(self, extent: Extent) -> Fetched:
        data = extent.read()
        # Only this process can write to the file: it has no name.
        return pickle.loads(data) if self.is_pickle else data, self.source  # noqa: S301

    def value_of(self, raw: Any) -> Any:
        if self.keeps_value or self.key is None:
            return raw
        store, fname = self.key
        return store.decode_raw(fname, raw)
