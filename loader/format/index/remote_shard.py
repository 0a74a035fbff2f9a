"""Index shards in an object store by few requests.

*Hop*: a small request for each header, past the contents. *Stream*: large requests for all bytes; the contents are
dropped. Hopping is better for large members: from the mean bytes between headers on for which a round trip takes
less time than the transfer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import closing
from typing import Literal

from ...errors import StorageError
from ...storage import ClosesOnExit, FileInfo, PendingRead, RemoteStorage, is_hub_url
from ..nv_meta import outdated
from ..tar.scan import TarScan
from .shard_index import ShardIndex, shard_requests

# How shards in an object store are scanned; ``auto`` measures the first ones.
ScanMode = Literal["auto", "hop", "stream"]

_STREAM_BYTES = 16 << 20  # of a request
_STREAMED_AHEAD = 4  # requests of a shard
_MAX_BUFFERED = 128 << 20  # bytes of all shards that a process streams
_BYTES_PER_S = 1e9  # of a machine
_BYTES_PER_S_OF_HUB = 2e7  # a third of what a machine may get: the first request, which is timed, waits for an address
_BYTES_PER_S_OF_SHARD = 4e8
_MAX_REQUESTS_PER_S = 5500  # to a prefix of S3


class RemoteIndexer:
    """Indexes shards, each in a thread of its own.

    Attributes:
        heads: Shard → its first bytes, as the scan has fetched them.
    """

    def __init__(self, storage: RemoteStorage, mode: ScanMode, *, at_once: int) -> None:
        self._storage = storage
        self._mode = mode
        self._at_once = at_once
        self._bytes_per_s = _BYTES_PER_S_OF_HUB if is_hub_url(storage.url) else _BYTES_PER_S
        self._buffered = _Budget(_MAX_BUFFERED)
        self._lock = threading.Lock()
        self._jumps: list[int] = []  # bytes between the first two headers of shards that are not neighbours
        self._latency_s = float("inf")
        self._is_stopped = False
        self.heads: dict[str, bytes] = {}

    def stop(self) -> None:
        """End the scans that run in other threads, at their next request."""
        self._is_stopped = True

    def index(self, shard: FileInfo) -> ShardIndex:
        """Index one shard; each answer is checked for the size and version of the shard."""
        steps = shard_requests(TarScan(shard.size_bytes, self._storage.path(shard.name), is_far=True))
        try:
            with closing(_Stream(self._storage, shard, self._buffered)) as stream:
                streams = self._mode == "stream"
                offset, size_bytes = next(steps)
                # Measure the latency with the first request, and choose by it how to read on.
                if not streams:
                    started = time.monotonic()
                    data = self._fetch(shard, offset, size_bytes).result()
                    self._latency_s = min(self._latency_s, time.monotonic() - started)
                    self.heads[shard.name] = data
                    offset, size_bytes = steps.send(data)
                    streams = self._mode == "auto" and self._is_better_streamed(offset)
                # Answer the requests of the scan, until it ends with the index.
                while not self._is_stopped:
                    if streams:
                        data = stream.read_at(offset, size_bytes)
                    else:
                        data = self._fetch(shard, offset, size_bytes).result()
                    if not offset:
                        self.heads[shard.name] = data
                    offset, size_bytes = steps.send(data)
        except StopIteration as end:
            index: ShardIndex = end.value
            return index
        raise StorageError("the scan was interrupted", path=self._storage.path(shard.name))

    def _fetch(self, shard: FileInfo, offset: int, size_bytes: int) -> PendingRead:
        return self._storage.fetch_range(shard, offset, min(offset + size_bytes, shard.size_bytes), is_sparse=True)

    def _is_better_streamed(self, jump: int) -> bool:
        """Choose by the mean of the first jumps of all shards so far."""
        with self._lock:
            self._jumps.append(jump)
            mean_bytes = sum(self._jumps) / len(self._jumps)
        hop_s = max(self._latency_s / self._at_once, 1 / _MAX_REQUESTS_PER_S)
        return mean_bytes < min(self._bytes_per_s, self._at_once * _BYTES_PER_S_OF_SHARD) * hop_s


class _Stream(ClosesOnExit):
    """A shard that is read from front to back, ahead of its reader.

    Args:
        budget: Bounds the bytes of all streams that are fetched and not yet dropped.
    """

    def __init__(self, storage: RemoteStorage, shard: FileInfo, budget: _Budget) -> None:
        self._storage = storage
        self._shard = shard
        self._budget = budget
        self._ahead: deque[tuple[int, int, PendingRead]] = deque()  # start and stop of the bytes being fetched
        self._start = 0  # of the bytes in memory
        self._data = b""

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """Return bytes; offsets ascend, but for few."""
        stop = min(offset + size_bytes, self._shard.size_bytes)
        if offset < self._start:
            return self._storage.fetch_range(self._shard, offset, stop).result()
        pieces = []
        while offset < stop:
            if offset >= self._start + len(self._data):
                self._next(offset)
            piece = self._data[offset - self._start : stop - self._start]
            pieces.append(piece)
            offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _next(self, offset: int) -> None:
        """Replace the bytes in memory by those from ``offset`` on, or from before it."""
        self._drop()
        while self._ahead and self._ahead[0][1] <= offset:  # inside the contents of a large member
            start, stop, _ = self._ahead.popleft()
            self._budget.give_back(stop - start)
        if not self._ahead:
            self._fetch_more(offset, must=True)
        while len(self._ahead) < _STREAMED_AHEAD and self._fetch_more(self._ahead[-1][1]):
            pass
        self._start, stop, pending = self._ahead.popleft()
        try:
            self._data = self._checked(pending.result(), stop - self._start)
        except BaseException:
            self._data = b""
            self._budget.give_back(stop - self._start)
            raise

    def _checked(self, data: bytes, size_bytes: int) -> bytes:
        if len(data) != size_bytes:  # of a store without versions
            fault = f"expected {size_bytes} bytes, found {len(data)}: this object was replaced"
            raise outdated(fault, self._storage.path(self._shard.name))
        return data

    def _fetch_more(self, start: int, *, must: bool = False) -> bool:
        stop = min(start + _STREAM_BYTES, self._shard.size_bytes)
        if stop <= start or not self._budget.take(stop - start, wait=must):
            return False
        self._ahead.append((start, stop, self._storage.fetch_range(self._shard, start, stop)))
        return True

    def _drop(self) -> None:
        self._budget.give_back(len(self._data))
        self._start, self._data = self._start + len(self._data), b""

    def close(self) -> None:
        self._drop()
        while self._ahead:
            start, stop, _ = self._ahead.popleft()
            self._budget.give_back(stop - start)


class _Budget:
    """A number of bytes that threads share. Each waits only for its first ones, so that none waits for itself."""

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes
        self._changed = threading.Condition()

    def take(self, size_bytes: int, *, wait: bool) -> bool:
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._left >= size_bytes)
            if self._left < size_bytes:
                return False
            self._left -= size_bytes
            return True

    def give_back(self, size_bytes: int) -> None:
        with self._changed:
            self._left += size_bytes
            self._changed.notify_all()
