"""Reads of objects through blocks on the disk of this node."""

from __future__ import annotations

import hashlib
import os
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import NamedTuple

from ...escaped_log import get_logger
from ..local import pread_all
from ..protocol import FAULTS_OF_PROCESS
from ..range_locks import RangeLocks
from .private_folder import PARTIAL, NewFile, PrivateFolder

BLOCK_BYTES = 8 << 20
BLOCK_NAME = r"[0-9a-f]{40}-[0-9]{1,8}(-[0-9a-f]{12}\.partial)?"
_FETCHED_AT_ONCE = 8  # blocks of 8 MiB: 64 MiB in memory
_WAIT_S = 20.0  # for another process that fetches the same block
_PAUSE_S = 60.0  # after the disk refused a block
_TOUCHED_EVERY_S = 60.0
_USED_UP = 0.9  # share of a block's bytes, the rest of which are headers
_SPARSE_SHARE = 1 / 8  # of a block, which sparse reads fetch around the cache before all of it
_MAX_NOTED = 1 << 17  # blocks

_log = get_logger(__name__)

Fetch = Callable[[int, int], bytes]
"""Fetches the bytes [start, stop) of an object."""


class RemoteObject(NamedTuple):
    """An object that does not change."""

    identity: str  # its service and URL, without secrets
    version: str  # its version; another one is another object
    size_bytes: int  # its bytes


class _Block(NamedTuple):
    name: str  # of its file
    digest: bytes  # 32 bytes
    start: int  # in the object
    size_bytes: int


class BlockCache:
    """Blocks of objects, shared by processes; a block is fetched once.

    Threads of one process wait for each other, and processes for the lock of the block, for some seconds: then they
    read around the cache. So they do if the disk refuses a block, and for a block that left the cache before this
    process had used it up, because it would leave again.
    """

    def __init__(self, folder: PrivateFolder, locks: RangeLocks, space: Space) -> None:
        self._folder = folder
        self._locks = locks
        self._space = space
        self._lock = threading.Lock()
        self._permits = threading.Semaphore(_FETCHED_AT_ONCE)
        self._fetching: dict[str, Future[bytes | None]] = {}
        self._used: dict[str, int] = {}  # bytes that this process read of a block
        self._sparse: dict[str, int] = {}  # bytes that sparse reads of this process fetched around the cache
        self._unusable: set[str] = set()  # names that something else has
        self._paused_until_s = 0.0
        self._warned: set[str] = set()

    def read(self, source: RemoteObject, start: int, stop: int, fetch: Fetch, *, is_sparse: bool = False) -> bytes:
        """Read the bytes [start, stop) of an object.

        Args:
            fetch: Fetches what is not in the cache.
            is_sparse: Few bytes of the object are read: a block is fetched as a whole only after an eighth of it.
        """
        # An empty or wrong range is the store's to answer, with its own error.
        if not 0 <= start < stop <= source.size_bytes:
            return fetch(start, stop)
        pieces = []
        # Read the blocks that the range touches, each from the disk if it is there.
        for block_index in range(start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES + 1):
            block = _block_of(source, block_index)
            first, last = max(start, block.start), min(stop, block.start + block.size_bytes)
            pieces.append(self._read(block, first - block.start, last - block.start, fetch, is_sparse=is_sparse))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read(self, block: _Block, start: int, stop: int, fetch: Fetch, *, is_sparse: bool) -> bytes:
        # A stored block costs no request, so it is looked for first.
        data = self._stored(block, start, stop)
        # Fetch the whole block for later reads, unless too little of it is likely to be read.
        if data is None and self._is_wanted(block.name) and not (is_sparse and self._is_rare(block, stop - start)):
            whole = self._fetched_once(block, fetch)
            data = None if whole is None else whole[start:stop]
        if data is None:  # another thread or process may have fetched it meanwhile
            data = self._stored(block, start, stop)
        is_stored = data is not None
        if data is None:
            data = fetch(block.start + start, block.start + stop)
        # Count what was read of it, which decides when it leaves.
        self._note_use(block, stop - start, is_stored=is_stored)
        return data

    # ---------------------------------------------------------------------------------------------------- on the disk

    def _stored(self, block: _Block, start: int, stop: int) -> bytes | None:
        """Return bytes of a block; None if it is not in the cache. A broken one is removed."""
        try:
            fd = self._folder.open(block.name)
            if fd is None:
                return None
            try:
                data, mtime_ns = read_part(fd, block.digest, block.size_bytes, start, stop)
            finally:
                os.close(fd)
        except (OSError, BrokenBlock) as error:
            # Too many open files or too little memory say nothing about the block: pause, and keep it.
            if isinstance(error, OSError) and error.errno in FAULTS_OF_PROCESS:
                self._pause(error.strerror or str(error))
                return None
            self._warn("a block in the cache %s is damaged, and is fetched again: %s", self._folder.path, error)
            # Forget its uses, so that it is fetched and stored again.
            self._used.pop(block.name, None)
            if not self._folder.remove(block.name):
                self._unusable.add(block.name)
            return None
        # Blocks leave by the time of their last use, which is written once a minute at most.
        if time.time() - mtime_ns / 1e9 > _TOUCHED_EVERY_S and not self._is_used_up(block):
            self._folder.touch(block.name)
        return data

    def _fetched_once(self, block: _Block, fetch: Fetch) -> bytes | None:
        """Return a block that this thread or another one fetched; None if this process did not fetch it."""
        fetching: Future[bytes | None] = Future()
        # The first thread that asks fetches, and the others wait for its result.
        with self._lock:
            first = self._fetching.setdefault(block.name, fetching)
        if first is not fetching:
            return first.result()
        whole = None
        try:
            with self._permits:
                whole = self._fetched(block, fetch)
        except Exception as error:
            fetching.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._fetching[block.name]
            # After an interrupt, waiting threads have to continue, too: they read around the cache.
            if not fetching.done():
                fetching.set_result(whole)
        return whole

    def _fetched(self, block: _Block, fetch: Fetch) -> bytes | None:
        # Of several processes, one fetches the block; the others find it, or give up waiting.
        with self._locks.hold(int.from_bytes(block.digest[:7], "little"), wait_s=_WAIT_S) as is_held:
            if not is_held or self._folder.status(block.name) is not None:
                return None
            file_bytes = HEADER_BYTES + block.size_bytes
            # Make room before the bytes are fetched, so that a full disk costs no request.
            if not self._space.reserve(file_bytes):
                self._pause("there is no room")
                return None
            # A disk that fails does not lose the fetched bytes: they are returned all the same.
            whole, is_written = None, False
            try:
                with closing(NewFile(self._folder, block.name, file_bytes)) as file:
                    whole = fetch(block.start, block.start + block.size_bytes)
                    file.write((header_of(block.digest, whole), whole))
                    file.publish()
                is_written = True
            except OSError as error:
                self._pause(error.strerror or str(error))
            finally:
                (self._space.written if is_written else self._space.cancel)(file_bytes)
            return whole

    def _pause(self, cause: str) -> None:
        self._paused_until_s = time.monotonic() + _PAUSE_S
        self._warn("cannot use the cache %s, so bytes are read from the store: %s", self._folder.path, cause)

    def _warn(self, message: str, *arguments: object) -> None:
        if message not in self._warned:
            self._warned.add(message)
            _log.warning(message, *arguments)

    # ----------------------------------------------------------------------------------------------------------- uses

    def _is_wanted(self, name: str) -> bool:
        if time.monotonic() < self._paused_until_s or name in self._unusable:
            return False
        return name not in self._used  # else it left the cache before all of it was read, and would again

    def _is_rare(self, block: _Block, size_bytes: int) -> bool:
        """Count the bytes of a sparse read; return False if so much of the block was read that all of it pays."""
        with self._lock:
            read = self._sparse.pop(block.name, 0) + size_bytes
            if read >= _SPARSE_SHARE * block.size_bytes:
                return False
            self._sparse[block.name] = read  # at the end
            if len(self._sparse) > _MAX_NOTED:
                del self._sparse[next(iter(self._sparse))]
        return True

    def _is_used_up(self, block: _Block) -> bool:
        return self._used.get(block.name, 0) >= _USED_UP * block.size_bytes

    def _note_use(self, block: _Block, size_bytes: int, *, is_stored: bool) -> None:
        """Count the bytes that were used of a block: one that is used up is the first to leave."""
        with self._lock:
            if block.name not in self._used and not is_stored:
                return
            was_used_up = self._is_used_up(block)
            used = self._used.pop(block.name, 0) + size_bytes
            if used < block.size_bytes:
                self._used[block.name] = used  # at the end
                if len(self._used) > _MAX_NOTED:
                    del self._used[next(iter(self._used))]
        # In an epoch each byte is used once, so a used block is not needed before the next epoch. The last one leaves
        # first, since earlier ones may be of the epoch before: its time is negative.
        if not was_used_up and used >= _USED_UP * block.size_bytes:
            self._folder.touch(block.name, -time.time())


def _block_of(source: RemoteObject, block_index: int) -> _Block:
    start = block_index * BLOCK_BYTES
    digest = hashlib.sha256()
    # Each text ends with a zero byte, so that no two sources have the same digest.
    for text in (source.identity, source.version, f"{source.size_bytes} {block_index}"):
        digest.update(text.encode("utf-8", "surrogateescape") + b"\0")
    size_bytes = min(BLOCK_BYTES, source.size_bytes - start)
    name = f"{digest.hexdigest()[:40]}-{HEADER_BYTES + size_bytes}"
    return _Block(name, digest.digest(), start, size_bytes)


# One page; the checksums of the 512 pieces of a block fill half of it.
HEADER_BYTES = 4096
_FIXED = struct.Struct("<8s32sQ")
_CHECKSUM = struct.Struct("<I")
_TABLE = _FIXED.size + _CHECKSUM.size
_MAGIC = b"energon1"
# Bytes of a checksum: a small read checks the pieces that it touches, not the whole block.
_PIECE_BYTES = 16 << 10


class BrokenBlock(Exception):  # noqa: N818 - it is no error of the caller
    """A file is not the block that its name says."""


def header_of(digest: bytes, data: bytes) -> bytes:
    """Return the header of a block, whose bytes are at most 8 MiB."""
    view = memoryview(data)
    pieces = (zlib.crc32(view[start : start + _PIECE_BYTES]) for start in range(0, len(data), _PIECE_BYTES))
    table = b"".join(map(_CHECKSUM.pack, pieces))
    fixed = _FIXED.pack(_MAGIC, digest, len(data))
    return (fixed + _CHECKSUM.pack(zlib.crc32(fixed + table)) + table).ljust(HEADER_BYTES, b"\0")


def read_part(fd: int, digest: bytes, size_bytes: int, start: int, stop: int) -> tuple[bytes, int]:
    """Read the bytes [start, stop) of a block; return them and the time of the file, in ns.

    Raises:
        BrokenBlock: The file is another one, is cut, or was changed.
        OSError: The disk fails.
    """
    # Compare the size first: a file that was cut needs no other check.
    status = os.fstat(fd)
    if status.st_size != HEADER_BYTES + size_bytes:
        raise BrokenBlock(f"it has {status.st_size} bytes")
    # Check the header, which protects the table of checksums as well.
    header = os.pread(fd, HEADER_BYTES, 0)
    table = header[_TABLE : _TABLE + _CHECKSUM.size * -(-size_bytes // _PIECE_BYTES)]
    fixed = header[: _FIXED.size]
    known = (*_FIXED.unpack(fixed), *_CHECKSUM.unpack(header[_FIXED.size : _TABLE]))
    if known != (_MAGIC, digest, size_bytes, zlib.crc32(fixed + table)):
        raise BrokenBlock("its header is damaged")
    # Read whole pieces around the range, and check each one.
    first = start - start % _PIECE_BYTES
    end = min(size_bytes, stop + -stop % _PIECE_BYTES)
    data = pread_all(fd, HEADER_BYTES + first, end - first)
    if len(data) < end - first:
        raise BrokenBlock("it is cut")
    view = memoryview(data)
    for at in range(first, end, _PIECE_BYTES):
        expected = _CHECKSUM.unpack_from(table, _CHECKSUM.size * (at // _PIECE_BYTES))[0]
        if zlib.crc32(view[at - first : at - first + _PIECE_BYTES]) != expected:
            raise BrokenBlock(f"its bytes {at}–{min(at + _PIECE_BYTES, size_bytes)} are damaged")
    return data[start - first : stop - first], status.st_mtime_ns


_UNSEEN_BYTES = 64 << 20  # that a process adds before it counts again what others added
_EVICTED_SHARE = 32  # of the limit: evicting a little at a time would count the files each time
_COPY_AGE_S = 24 * 3600  # unused copies of whole files leave after blocks, and not before this time
_ROUNDS = 3  # of eviction: others may remove the same files
_PARTIAL_AGE_S = 600
_MOST_FREE_BYTES = 20 << 30


def size_of(name: str) -> int | None:
    """Return the bytes of a file whose name ends with them; counting does not read the status of each file."""
    _, dash, size = name.partition("-")
    return int(size) if dash and size.isdecimal() else None


class Space:
    """The bytes of a cache, counted from its files. Each process may add 64 MiB that the others do not know of.

    Args:
        files: The folder of whole files, which are counted, and evicted only if they are old.
        limit_bytes: Most bytes; None for half of the disk.
        free_bytes: Bytes of the disk to leave free; None for 20 GiB, or a tenth of a smaller disk.
    """

    def __init__(
        self,
        blocks: PrivateFolder,
        files: PrivateFolder,
        *,
        limit_bytes: int | None = None,
        free_bytes: int | None = None,
    ) -> None:
        disk = os.fstatvfs(blocks.fd)
        disk_bytes = disk.f_blocks * disk.f_frsize
        self.limit_bytes = disk_bytes // 2 if limit_bytes is None else limit_bytes
        self._free_bytes = min(_MOST_FREE_BYTES, disk_bytes // 10) if free_bytes is None else free_bytes
        self._blocks = blocks
        self._files = files
        self._lock = threading.Lock()
        self._counted: int | None = None  # bytes of all files when they were counted
        self._added = 0  # bytes that this process reserved since then
        self._pending = 0  # reserved bytes that are not in a file with a name

    def reserve(self, size_bytes: int) -> bool:
        """Reserve bytes before they are written; evict other files if needed. Return False without room."""
        with self._lock:
            if size_bytes > self.limit_bytes:
                return False
            if not self._has_room(size_bytes):
                return False
            self._added += size_bytes
            self._pending += size_bytes
            return True

    def written(self, size_bytes: int) -> None:
        with self._lock:
            self._pending -= size_bytes

    def cancel(self, size_bytes: int) -> None:
        with self._lock:
            self._pending -= size_bytes
            self._added -= size_bytes

    def _has_room(self, size_bytes: int) -> bool:
        # Count only when it may matter: others add to the cache, too, but counting lists all files.
        if self._counted is None or self._lacking(size_bytes) > 0 or self._added + size_bytes > _UNSEEN_BYTES:
            self._count()
        # Evict until the bytes fit.
        for _ in range(_ROUNDS):
            lacking = self._lacking(size_bytes)
            if lacking <= 0:
                return True
            evicted = self._evict(lacking + self.limit_bytes // _EVICTED_SHARE)
            self._count()
            if evicted >= lacking:  # others may have filled the room, but evicted others for it
                return True
        return False

    def _lacking(self, size_bytes: int) -> int:
        disk = os.fstatvfs(self._blocks.fd)
        # Two limits hold: the bytes of the cache, and the bytes that the disk keeps free for others.
        of_limit = (self._counted or 0) + self._added + size_bytes - self.limit_bytes
        of_disk = self._free_bytes + size_bytes - disk.f_bavail * disk.f_frsize
        return max(of_limit, of_disk)

    def _count(self) -> None:
        remove_old_partials(self._blocks)
        remove_old_partials(self._files)
        total = 0
        for folder in (self._blocks, self._files):
            for name in folder.names():
                size = size_of(name)
                if size is None:
                    status = folder.status(name)
                    size = 0 if status is None else status.st_size
                total += size
        self._counted, self._added = total, self._pending

    def _evict(self, wanted_bytes: int) -> int:
        evicted = 0
        for folder, name, size_bytes in self._oldest_first():
            if evicted >= wanted_bytes:
                break
            if folder.remove(name):
                evicted += size_bytes
        return evicted

    def _oldest_first(self) -> Iterator[tuple[PrivateFolder, str, int]]:
        # Blocks leave before copies of whole files, which stay for a day at least.
        for folder, max_time_s in ((self._blocks, None), (self._files, time.time() - _COPY_AGE_S)):
            files = []
            for name in folder.names():
                status = folder.status(name)
                if status is not None and not name.endswith(PARTIAL):
                    files.append((status.st_mtime_ns, name, status.st_size))
            for mtime_ns, name, size_bytes in sorted(files):
                if max_time_s is None or mtime_ns < max_time_s * 1e9:
                    yield folder, name, size_bytes


def remove_old_partials(folder: PrivateFolder) -> None:
    """Remove what killed processes left on file systems where files need a name while they are written."""
    for name in list(folder.names()):
        if name.endswith(PARTIAL):
            status = folder.status(name)
            if status is not None and status.st_mtime < time.time() - _PARTIAL_AGE_S:
                folder.remove(name)
