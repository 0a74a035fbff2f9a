"""Files fetched ahead by threads into a scratch file: what a cache pool has at work in one process."""

from __future__ import annotations

import logging
import os
import pickle
import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import EnergonError
from .cache_entry import CacheEntry, EntryState, Fetched
from .file_store import FileStore
from .scratch_file import Extent, ScratchFile, whole_blocks

__all__ = ["CacheFetcher"]

_log = logging.getLogger(__name__)

_ROOM_POLL_S = 0.2
_JOIN_S = 5.0


class CacheFetcher:
    """Fetch files ahead, in the order in which they were asked for, and keep them until their last lazy was got.

    Where there is no room, the threads wait with what they have fetched, and hand it over in memory when it is wanted;
    whoever wants a file whose turn has not come fetches it. So nobody waits for anything but a file being read.

    Args:
        folder: Where the scratch file is.
        num_workers: How many threads fetch.
        max_bytes: How much of the disk is taken at most.
        max_count: How many files are fetched ahead at most.
        keeps_values: Keep decoded values, as pickles; else what the store gives undecoded.

    Raises:
        StorageError: No file can be made in the folder.
    """

    def __init__(self, folder: Path, *, num_workers: int, max_bytes: int, max_count: int, keeps_values: bool) -> None:
        self.pid = os.getpid()
        self._scratch = ScratchFile(folder, max_bytes=max_bytes)
        self._folder = folder
        self._num_workers = num_workers
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._keeps_values = keeps_values
        self._entries: dict[tuple[FileStore[Any], str], CacheEntry] = {}
        self._queue: OrderedDict[CacheEntry, None] = OrderedDict()
        self._dropped: deque[CacheEntry] = deque()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._warned = False
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)

    @property
    def size_bytes(self) -> int:
        """How much of the disk is taken."""
        return self._scratch.size_bytes

    @property
    def count(self) -> int:
        """How many files are kept, being fetched, or to be."""
        return len(self._entries)

    # -------------------------------------------------------------------------------------- for those who ask

    def want(self, store: FileStore[Any], fname: str) -> CacheEntry | None:
        """Have a file fetched for one more lazy; None where the count is reached."""
        key = (store, fname)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                entry.lazies += 1
                return entry
            if self._closed or len(self._entries) >= self._max_count:
                return None
            entry = self._entries[key] = CacheEntry(self, key)
            self._queue[entry] = None
            self._work.notify()
            if len(self._threads) < self._num_workers:
                self._start_thread()
        self._settle()
        return entry

    def take(self, entry: CacheEntry) -> Fetched:
        """Get what an entry stands for: its value, and where it was found.

        Raises:
            Exception: What the store raised.
            EnergonError: It stands for a value, and this process is a fork of the one that has it.
        """
        if self.pid != os.getpid():
            raw, source = self._from_store(entry)
            return self._value(entry, raw), source
        with self._lock:
            entry.takers += 1
            self._room.notify_all()  # its thread may wait for room
            try:
                while entry.state is EntryState.FETCHING:
                    self._done.wait()
            finally:
                entry.takers -= 1
            mine = entry.state is EntryState.QUEUED
            if mine:
                self._start(entry)
            fetched, extent, error = entry.fetched, entry.extent, entry.error
            entry.error = None  # others try again; kept here, it would keep all that this thread has at hand
            if not entry.takers:
                entry.fetched = None
        self._settle()
        if mine:
            fetched = self._fetch(entry, ahead=False)
        elif fetched is None and extent is not None:
            data = extent.read()
            # Only this process can write there: the file has no name.
            fetched = pickle.loads(data) if entry.is_pickle else data, entry.source  # noqa: S301
        elif fetched is None:
            if error is not None:
                raise error
            fetched = self._from_store(entry)
        return self._value(entry, fetched[0]), fetched[1]

    def drop(self, entry: CacheEntry) -> None:
        """Say that a lazy is gone, or was got. Runs at any place of any thread, wherever garbage is collected."""
        if self.pid == os.getpid():  # else it is a copy of a forked process, whose locks nobody may release
            self._dropped.append(entry)
            self._settle()

    def keep(self, value: Any) -> CacheEntry | None:
        """Put a value away; None where there is no room, or it does not pickle."""
        entry = CacheEntry(self, None)
        data = self._to_bytes(entry, value)
        extent = None if data is None else self._write(entry, data, may_wait=False)
        self._settle()
        if extent is None:
            return None
        entry.state, entry.extent = EntryState.CACHED, extent
        return entry

    def stop(self) -> None:
        """Stop the threads and give all room back; who takes an entry later fetches it."""
        if self.pid != os.getpid():
            return
        with self._lock:
            self._closed = True
            for entry in self._entries.values():
                if entry.state in (EntryState.QUEUED, EntryState.CACHED):
                    entry.state = EntryState.DIRECT
                    self._free(entry)
            self._entries.clear()
            self._queue.clear()
            self._scratch.close()
            for condition in (self._work, self._room, self._done):
                condition.notify_all()
        deadline = time.monotonic() + _JOIN_S  # they may be reading from a disk that hangs
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    # ---------------------------------------------------------------------------------------- for the threads

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"energon-cache-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system allows no more; whoever wants a file then fetches it
            self._num_workers = len(self._threads)
            self._warn(error)
            return
        self._threads.append(thread)

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._queue and not self._closed:
                    self._work.wait()
                if self._closed:
                    return
                entry = next(iter(self._queue))
                self._start(entry)
            with suppress(BaseException):  # the entry has it, for whoever takes it
                self._fetch(entry, ahead=True)
            del entry  # not to be kept while waiting for the next

    def _start(self, entry: CacheEntry) -> None:
        del self._queue[entry]
        entry.state = EntryState.FETCHING

    def _fetch(self, entry: CacheEntry, *, ahead: bool) -> Fetched:
        """Fetch an entry that this thread has started, and keep it if there is room."""
        fetched: Fetched | None = None
        extent: Extent | None = None
        try:
            fetched = self._from_store(entry)
            entry.source = fetched[1]
            data = self._to_bytes(entry, fetched[0])
            if data is not None:
                extent = self._write(entry, data, may_wait=ahead)
        except BaseException as error:
            if ahead:
                entry.error = error
            raise
        finally:
            with self._lock:
                self._finish(entry, fetched, extent)
            self._settle()
        return fetched

    def _finish(self, entry: CacheEntry, fetched: Fetched | None, extent: Extent | None) -> None:
        entry.extent = extent
        if self._closed:
            self._free(entry)
        if entry.extent is not None:
            entry.state = EntryState.CACHED
        else:
            entry.state = EntryState.DIRECT
            entry.fetched = fetched if entry.takers else None
        if entry.takers:
            self._done.notify_all()
        if not entry.lazies:
            self._forget(entry)

    def _from_store(self, entry: CacheEntry) -> Fetched:
        if entry.key is None:
            raise EnergonError(
                "a value that was put into a cache pool is asked for in a fork of the process that put it there",
                do="get it before forking, or keep it in memory",
            )
        store, fname = entry.key
        return store[fname] if self._keeps_values else store.read_raw(fname)

    def _value(self, entry: CacheEntry, raw: Any) -> Any:
        if self._keeps_values or entry.key is None:
            return raw
        store, fname = entry.key
        return store.decode_raw(fname, raw)

    def _to_bytes(self, entry: CacheEntry, value: Any) -> bytes | None:
        if type(value) is bytes:
            return value
        try:
            entry.is_pickle = True
            return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001 - objects raise whatever they like, and can be fetched again
            self._warn(error)
            return None

    # ----------------------------------------------------------------------------------------------- the room

    def _write(self, entry: CacheEntry, data: bytes, *, may_wait: bool) -> Extent | None:
        """Write bytes to the scratch file; None where there is no room and no time to wait for it."""
        needed = whole_blocks(len(data))
        try:
            with self._lock:
                while self._scratch.size_bytes + needed > self._max_bytes and not self._closed:
                    if not may_wait or entry.takers or not entry.lazies or needed > self._max_bytes:
                        return None
                    # Not for ever: a lazy may be collected in this very thread, while it holds the lock.
                    self._room.wait(_ROOM_POLL_S)
                    self._drain()
                if self._closed:
                    return None
                extent = self._scratch.reserve(len(data))
        except OSError as error:
            self._warn(error)
            return None
        try:
            extent.write(data)
        except OSError as error:  # the disk is full
            with self._lock:
                self._scratch.release(extent)
            self._warn(error)
            return None
        return extent

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "cannot keep all files in the cache in %s, so they are read when needed: %s", self._folder, error
            )

    def _settle(self) -> None:
        """Free what was dropped, in this thread or, where it is at work, in the one that holds the lock."""
        while self._dropped and self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    def _drain(self) -> None:
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
            self._scratch.release(entry.extent)
            entry.extent = None
            self._room.notify_all()
