"""The record of the shards that an import has written, so that it resumes after a kill without repeating them."""

from __future__ import annotations

from typing import Any

import msgspec

from ...format.unfinished import IMPORT_FOLDER
from ...storage import FileInfo, Storage


class FailedRow(msgspec.Struct, frozen=True, array_like=True):
    """A row that is not in the dataset.

    Attributes:
        origin: Its place in the source.
        key: The key that its sample would have.
        reason: The error, in one line.
        code: Code of the reason in the account.
        parts: Number of its parts.
        size_bytes: Their bytes, as far as they are known.
    """

    origin: str
    key: str
    reason: str
    code: str = "F101"
    parts: int = 0
    size_bytes: int = 0


class DoneShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that is written.

    Attributes:
        digest: Digest of its rows and of all settings.
        files: Names, sizes and versions of its files: none if all rows failed, several if the plan had taken the rows
            for smaller than they are.
        samples: Number of samples in each file.
        read_bytes: Bytes of the parts of these samples, as they were read.
        failures: The rows that failed.
        changed: What was changed or lost in pictures and their documents → number of those.
        first_changed: The same → place of the first row.
    """

    digest: str
    files: tuple[tuple[str, int, str], ...]
    samples: tuple[int, ...]
    read_bytes: int
    failures: tuple[FailedRow, ...] = ()
    changed: dict[str, int] = {}
    first_changed: dict[str, str] = {}

    def is_valid(self, digest: str, storage: Storage) -> bool:
        """Return True if the files are those of the same rows, and have not changed since."""
        if self.digest != digest:
            return False
        return all(
            storage.exists(name) and version_of(storage.stat(name)) == (name, *rest) for name, *rest in self.files
        )


def version_of(file: FileInfo) -> tuple[str, int, str]:
    """Return name, size and version of a file."""
    return file.name, file.size_bytes, file.etag or str(file.mtime_ns)


def _record(shard: str) -> str:
    return f"{IMPORT_FOLDER}/{shard}.json"


def read_done(storage: Storage, shard: str) -> DoneShard | None:
    """Return the record of a planned shard; None if it is missing or damaged."""
    name = _record(shard)
    if not storage.exists(name):
        return None
    try:
        return msgspec.json.decode(storage.read(name), type=DoneShard)
    except msgspec.DecodeError:
        return None


def write_done(storage: Storage, shard: str, done: DoneShard) -> None:
    """Store the record of a planned shard."""
    data: Any = msgspec.json.encode(done)
    with storage.create(_record(shard), durable=False) as file:
        file.write(data)
