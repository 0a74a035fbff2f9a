"""What an interrupted prepare has done already: one file per scanned shard, named by the shard as it was then."""

from __future__ import annotations

import hashlib
import io
import zlib

from ..errors import FormatError, StorageError
from ..storage import FileInfo, Storage
from .nv_meta import WORK_FOLDER
from .shard_index import ShardIndex
from .shard_index_file import load_shard_index, save_shard_index

__all__ = ["Journal"]

_CHECKSUM_BYTES = 4  # behind each scan: a disk without power may have kept the size of a file and not its bytes


class Journal:
    """Scans of shards on disk, kept until the prepare they belong to is committed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def _name(self, shard: FileInfo) -> str:
        version = f"{shard.name}\0{shard.size_bytes}\0{shard.mtime_ns}".encode("utf-8", "surrogateescape")
        return f"{WORK_FOLDER}/shards/{hashlib.sha256(version).hexdigest()[:32]}.scan"

    def save(self, shard: FileInfo, index: ShardIndex) -> None:
        """Keep a scan; after a power cut it may be damaged, and then it is not :meth:`load`-ed."""
        scan = io.BytesIO()
        save_shard_index(index, scan)
        with self._storage.create(self._name(shard), durable=False) as file:
            file.write(scan.getbuffer())
            file.write(zlib.crc32(scan.getbuffer()).to_bytes(_CHECKSUM_BYTES, "little"))

    def has(self, shard: FileInfo) -> bool:
        return self._storage.exists(self._name(shard))

    def load(self, shard: FileInfo) -> ShardIndex | None:
        """Give a scan; None where there is none of the shard as it is now, or the file is damaged."""
        name = self._name(shard)
        try:
            data = self._storage.read(name)
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        scan, checksum = memoryview(data)[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
        if zlib.crc32(scan).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
            return None
        try:
            return load_shard_index(io.BytesIO(scan), name=name, shard_size=shard.size_bytes)
        except FormatError:
            return None
