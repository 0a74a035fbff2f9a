"""The report of an import, and the messages of its workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ...engine import Account
from ...format.unfinished import IMPORT_FOLDER
from ...prepare.plan import PrepareReport
from ...storage import Storage
from ..writing.written_shards import FileVersion, version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The outcome of an import.

    Attributes:
        prepared: The report of the prepare that ended it.
        failures: The first rows that failed, at most a hundred.
        failed: Number of all rows that failed.
        failures_file: Path of the list of all failures; None without failures.
        renamed: Number of samples whose key another sample had.
        written: Number of shards that this run has written.
        resumed: Number of shards that an interrupted run had written.
        changed: What was changed or lost → number of pictures (``bits_scaled``, ``alpha_composed``, ``frames_dropped``,
            ``cmyk_converted``, ``frames_unread``) or documents (``geometry_moved``, ``geometry_ignored``,
            ``sizes_kept``, ``numbers_lost``), or segments of recordings (``segments_shortened``).
        first_changed: The same → place of the first row.
    """

    prepared: PrepareReport
    failures: tuple[FailedRow, ...]
    failed: int
    failures_file: str | None
    renamed: int
    written: int
    resumed: int
    size_bytes: int
    seconds: float
    account: Account
    changed: Mapping[str, int] = field(default_factory=dict)
    first_changed: Mapping[str, str] = field(default_factory=dict)


class FailedRow(msgspec.Struct, frozen=True, array_like=True):
    """A row that is not in the dataset.

    Attributes:
        key: The key that its sample would have.
        size_bytes: Their bytes, as far as they are known.
    """

    origin: str
    key: str
    reason: str
    code: str = "F101"
    parts: int = 0
    size_bytes: int = 0

    def to_document(self) -> dict[str, str]:
        return {"origin": self.origin, "key": self.key, "reason": self.reason, "code": self.code}

    @property
    def example(self) -> str:
        return f"One of them: {self.origin}: {self.reason}"


class DoneShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that is written.

    Attributes:
        digest: Digest of its rows and of all settings.
        files: Names, sizes and versions of its files: none if all rows failed, several if the plan had taken the rows
            for smaller than they are.
        read_bytes: Bytes of the parts of these samples, as they were read.
        changed: What was changed or lost in pictures and their documents → how often.
        first_changed: The same → place of the first row.
    """

    digest: str
    files: tuple[FileVersion, ...]
    samples: tuple[int, ...]
    read_bytes: int
    failures: tuple[FailedRow, ...] = ()
    changed: dict[str, int] = {}
    first_changed: dict[str, str] = {}

    def is_valid(self, digest: str, storage: Storage) -> bool:
        if self.digest != digest:
            return False
        return all(
            storage.exists(name) and version_of(storage.stat(name)) == (name, *rest) for name, *rest in self.files
        )


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
    storage.write(_record(shard), msgspec.json.encode(done), durable=False)
