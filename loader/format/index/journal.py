"""Store scans of shards on disk until their prepare is committed, so that an interrupted prepare resumes.

A file holds the scans of a group of shards, one after another: for many small shards, a file per shard would take
longer to create and remove than the scan. Each scan follows the digest of its shard's name, size and time, its length
and its checksum.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ...errors import FormatError, StorageError
from ...storage import FileInfo, ReadableFile, Storage
from ..nv_meta import WORK_FOLDER
from .shard_index import ShardIndex, decode_shard_index, encode_shard_index

_FOLDER = f"{WORK_FOLDER}/scans"
_SUFFIX = ".scans"
_DOWNLOADS_AT_ONCE = 16
_DIGEST_BYTES = 16
_PREFIX = struct.Struct(f"<{_DIGEST_BYTES}sQI")  # digest of the shard, length of the scan in bytes, its CRC-32


class ScanPlace(NamedTuple):
    """The bytes of one scan in the journal."""

    file: str
    start: int
    stop: int
    checksum: int
    is_new: bool  # True if this run has stored it


class ScanFolders(NamedTuple):
    """The folders of the scans of a prepare in parts; each part reads and writes only its own folder."""

    division: str  # name of the folder of all parts of one division of the shards
    own: str  # name of the folder of a part in it

    @property
    def folder(self) -> str:
        """The folder in which the part stores scans."""
        return f"{_FOLDER}/{self.division}/{self.own}"

    def are_others(self, name: str) -> bool:
        """Return True for a file of another part."""
        return name.startswith(f"{_FOLDER}/{self.division}/") and not name.startswith(f"{self.folder}/")


class StoredScans:
    """The scans of shards on disk.

    Args:
        part: Skip the scans of the other parts; None reads all.
    """

    def __init__(self, storage: Storage, part: ScanFolders | None = None) -> None:
        self._storage = storage
        self._places: dict[bytes, ScanPlace] = {}
        self._file: tuple[str, ReadableFile] | None = None  # the file that was read last
        for file in _scan_files(storage, part) if storage.exists(_FOLDER) else ():
            self._read_places(file)
        self.is_new = not self._places  # True if no earlier prepare has stored scans

    def __getstate__(self) -> tuple[Storage, dict[bytes, ScanPlace]]:
        return self._storage, self._places

    def __setstate__(self, state: tuple[Storage, dict[bytes, ScanPlace]]) -> None:
        self._storage, self._places = state
        self.is_new = False
        self._file = None

    def _read_places(self, file: FileInfo) -> None:
        """Add the scans of one file, up to the first one that is cut short."""
        with self._storage.open(file.name) as opened:
            start = 0
            while start + _PREFIX.size <= file.size_bytes:
                digest, length, checksum = _PREFIX.unpack(opened.read_at(start, _PREFIX.size))
                start += _PREFIX.size
                if start + length > file.size_bytes:
                    return
                self._places[digest] = ScanPlace(file.name, start, start + length, checksum, is_new=False)
                start += length

    def has(self, shard: FileInfo) -> bool:
        """Return True if there is a scan of a shard as it is now."""
        return shard_digest(shard) in self._places

    def add(self, shard: FileInfo, scan: ScanPlace) -> None:
        """Add a scan that :func:`save_scans` stored in another process."""
        self._places[shard_digest(shard)] = scan

    def load(self, shard: FileInfo) -> ShardIndex | None:
        """Return the scan of a shard as it is now; None if it is missing or damaged."""
        scan = self._places.get(shard_digest(shard))
        if scan is None:
            return None
        data = self._read(scan)
        if zlib.crc32(data) != scan.checksum:
            return None
        try:
            return decode_shard_index(data, name=scan.file, shard_size=shard.size_bytes, is_trusted=scan.is_new)
        except FormatError:
            return None

    def _read(self, scan: ScanPlace) -> bytes:
        if self._file is None or self._file[0] != scan.file:
            self.close()
            try:
                self._file = scan.file, self._storage.open(scan.file)
            except StorageError as error:
                if error.is_missing:
                    return b""
                raise
        return self._file[1].read_at(scan.start, scan.stop - scan.start)

    def close(self) -> None:
        if self._file is not None:
            self._file[1].close()
            self._file = None


def _scan_files(storage: Storage, part: ScanFolders | None) -> Iterator[FileInfo]:
    for file in storage.list(_FOLDER):
        if file.name.endswith(_SUFFIX) and not (part is not None and part.are_others(file.name)):
            yield file


def save_scans(
    storage: Storage, scans: Sequence[tuple[FileInfo, ShardIndex]], part: ScanFolders | None = None
) -> list[ScanPlace]:
    """Store the scans of a group of shards in one file.

    A power cut may damage the file; :meth:`StoredScans.load` then ignores the damaged scans.

    Args:
        scans: Pairs (shard, its index); not empty.

    Returns:
        The place of each scan, for :meth:`StoredScans.add`.
    """
    # Runs that divide the shards into other groups must not replace each other's files.
    group = hashlib.sha256(b"".join(shard_digest(shard) for shard, _ in scans)).hexdigest()[: 2 * _DIGEST_BYTES]
    name = f"{_FOLDER if part is None else part.folder}/{group}{_SUFFIX}"
    places, start = [], 0
    with storage.create(name, durable=False) as file:
        for shard, index in scans:
            scan = encode_shard_index(index)
            checksum = zlib.crc32(scan)
            file.write(_PREFIX.pack(shard_digest(shard), len(scan), checksum))
            file.write(scan)
            start += _PREFIX.size
            places.append(ScanPlace(name, start, start + len(scan), checksum, is_new=True))
            start += len(scan)
    return places


def upload_scans(work: Storage, storage: Storage, places: Sequence[ScanPlace]) -> None:
    """Store a file of scans, which :func:`save_scans` has stored on this machine, in the dataset's object store."""
    storage.write(places[0].file, work.read(places[0].file))


def download_scans(storage: Storage, work: Storage, part: ScanFolders | None = None) -> None:
    """Download the scans of an interrupted prepare to a folder of this machine, a request a file.

    Args:
        part: Skip the scans of the other parts; None downloads all.
    """

    def download(file: FileInfo) -> None:
        work.write(file.name, storage.read(file.name), durable=False)

    with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as threads:
        for _ in threads.map(download, _scan_files(storage, part)):
            pass


def download_scan(storage: Storage, work: Storage, scan: ScanPlace) -> None:
    """Download the file of a scan, which another machine has stored, unless it is there."""
    if not work.exists(scan.file):
        work.write(scan.file, storage.read(scan.file), durable=False)


def shard_digest(shard: FileInfo) -> bytes:
    """Return a digest of a shard's name, size and version, or its time of change if it has none."""
    # Some stores list times in another precision than they tell them of a single object.
    changed = shard.etag or shard.mtime_ns
    version = f"{shard.name}\0{shard.size_bytes}\0{changed}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(version).digest()[:_DIGEST_BYTES]
