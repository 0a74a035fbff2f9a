"""Records of the shards that writers have finished, so that a commit knows them, and a resumed run keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...format.unfinished import WRITING_FOLDER
from ...storage import FileInfo, Storage

_BEGUN = "begun.json"
_DONE = "done.json"


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A writer.

    Attributes:
        description: The ``dataset.yaml`` of its samples; None for none.
        samples: Number of samples that it has written; known at its end.
        resumed: Number of samples that earlier runs have written.
    """

    description: str | None = None
    samples: int = 0
    resumed: int = 0


class ShardRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that is written.

    Attributes:
        name: Its file.
        size_bytes: Its size.
        version: Its time of change or its version.
        samples: Number of its samples.
        split: Its split part; ``""`` for none.
    """

    name: str
    size_bytes: int
    version: str
    samples: int
    split: str

    def is_current(self, storage: Storage) -> bool:
        """Return True if the file is there, and has not changed."""
        return storage.exists(self.name) and version_of(storage.stat(self.name)) == (self.size_bytes, self.version)


def version_of(file: FileInfo) -> tuple[int, str]:
    """Return the size and the version of a file."""
    return file.size_bytes, file.etag or str(file.mtime_ns)


def part_name(part: int | None) -> str:
    """Return the name of a writer.

    >>> part_name(None), part_name(3)
    ('main', 'part_00003')
    """
    return "main" if part is None else f"part_{part:05d}"


class WrittenShards:
    """The records of one writer.

    Args:
        storage: The dataset.
        part: Number of the writer; None for the main one.
    """

    def __init__(self, storage: Storage, part: int | None) -> None:
        self._storage = storage
        self._folder = f"{WRITING_FOLDER}/{part_name(part)}"

    @property
    def lock(self) -> str:
        """Name of the lock of the writer."""
        return f"{WRITING_FOLDER}/{self._folder.rpartition('/')[2]}.lock"

    def exists(self) -> bool:
        """Return True if such a writer has begun."""
        return self._storage.exists(f"{self._folder}/{_BEGUN}")

    def begin(self) -> None:
        """Note that the writer has begun."""
        self._write(_BEGUN, PartRecord())

    def add(self, shard: ShardRecord) -> None:
        """Note a shard."""
        self._write(f"{shard.name.replace('/', '%2F')}.json", shard)

    def finish(self, record: PartRecord) -> None:
        """Note that the writer has ended."""
        self._write(_DONE, record)

    def finished(self) -> PartRecord | None:
        """Return the record of the writer; None if it has not ended."""
        name = f"{self._folder}/{_DONE}"
        return msgspec.json.decode(self._storage.read(name), type=PartRecord) if self._storage.exists(name) else None

    def shards(self) -> list[ShardRecord]:
        """Return the shards in the order of their names."""
        if not self._storage.exists(self._folder):
            return []
        names = (file.name for file in self._storage.list(self._folder))
        own = (name for name in names if not name.endswith((f"/{_BEGUN}", f"/{_DONE}")))
        found = (msgspec.json.decode(self._storage.read(name), type=ShardRecord) for name in own)
        return sorted(found, key=lambda shard: shard.name)

    def reopen(self) -> None:
        """Forget that the writer has ended."""
        self._storage.remove(f"{self._folder}/{_DONE}")

    def discard(self) -> None:
        """Remove the shards and the records of the writer."""
        for shard in self.shards():
            self._storage.remove(shard.name)
        self._storage.remove(self._folder)

    def _write(self, name: str, record: msgspec.Struct) -> None:
        with self._storage.create(f"{self._folder}/{name}", durable=False) as file:
            file.write(msgspec.json.encode(record))


def written_parts(storage: Storage) -> Iterator[tuple[int | None, WrittenShards]]:
    """Yield the writers that have begun: the main one, then the parts by number."""
    names = {file.name.split("/")[2] for file in storage.list(WRITING_FOLDER)} if storage.exists(WRITING_FOLDER) else ()
    if "main" in names:
        yield None, WrittenShards(storage, None)
    for name in sorted(names):
        _, separator, number = name.partition("part_")
        if separator and number.isdecimal():
            yield int(number), WrittenShards(storage, int(number))
