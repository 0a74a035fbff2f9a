"""Plan, progress and report of an import, as plain data, and the record of the shards that are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ...accounting import Account
from ...arrays import IntArray
from ...errors import SampleError
from ...format.prepare.plan import PrepareReport
from ...format.unfinished import IMPORT_FOLDER
from ...storage import FileInfo, Storage
from ...storage.remote import DownloadOptions
from ..rows.row_file import ShardLayout
from ..sources.source import Source
from .pictures import PictureOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """An import of sources into a new dataset.

    Attributes:
        sources: The sources, in the order of their samples.
        output: Path or URL of the dataset: a new or empty folder, or the folder of an interrupted import.
        layout: How samples are divided into shards and split parts.
        pictures: What is done with pictures.
        workers: Number of worker processes; at least 1.
        max_failures: Most rows that may fail before the import stops: a number, or a share of all rows below 1.
        files: Further files of ``.nv-meta`` to write, name → text (``dataset.yaml``).
        compat: As for :class:`PreparePlan`.
        strict: Publish nothing if any part of the sources is left out or fails.
        downloads: What may be downloaded of the URLs that the sources name; None fails such rows.
    """

    sources: tuple[Source, ...]
    output: str
    layout: ShardLayout = field(default_factory=ShardLayout)
    pictures: PictureOptions = field(default_factory=PictureOptions)
    workers: int = 1
    max_failures: float = 0.01
    files: Mapping[str, str] = field(default_factory=dict)
    compat: bool | None = None
    strict: bool = False
    downloads: DownloadOptions | None = None


def exceeds(failed: int, rows: int, limit: float) -> bool:
    """Return True if more rows failed than may; a limit below 1 is a share."""
    return failed > (round(limit * rows, 3) if limit < 1 else limit)  # 100 % is a little less than 1


def check_failures(failed: int, rows: int, limit: float, *, at: str, example: str) -> None:
    """Raise a ``SampleError`` if more rows failed than may.

    Args:
        limit: Most failed rows; below 1 their share.
    """
    if exceeds(failed, rows, limit):
        more = ", or allow more with --max-failures" if limit else ""  # reshard and add-parts allow none
        allowed = f"{100 * limit:.3g}%" if limit < 1 else f"{limit:g}"
        raise SampleError(
            f"{failed:,} of {rows:,} samples failed, more than {allowed} allow; {example}",
            at=at,
            hint=f"fix them{more}; the next run keeps the shards that are written",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """Progress of an import: it lists the samples of the sources, and then writes shards."""

    phase: Literal["list", "write"]
    samples: int
    samples_total: int | None = None  # known in the second phase
    size_bytes: int = 0
    shards_done: int = 0
    shards_total: int = 0
    resumed: int = 0  # number of shards that an interrupted import has written


ProgressCallback = Callable[[ImportProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenRows:
    """The shards of a dataset that is not committed yet.

    Attributes:
        order: The row of each sample, shape (samples,).
        files: Name, size, version and number of samples of each shard, in order.
    """

    storage: Storage
    order: IntArray
    files: tuple[tuple[str, int, str, int], ...]


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
            ``sizes_kept``).
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
        """Return the row as JSON; its keys are stable."""
        return {"origin": self.origin, "key": self.key, "reason": self.reason, "code": self.code}

    @property
    def example(self) -> str:
        return f"one of them: {self.origin}: {self.reason}"


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
    files: tuple[tuple[str, int, str], ...]
    samples: tuple[int, ...]
    read_bytes: int
    failures: tuple[FailedRow, ...] = ()
    changed: dict[str, int] = {}
    first_changed: dict[str, str] = {}

    def is_valid(self, digest: str, storage: Storage) -> bool:
        """Return True if the files hold the same rows, and have not changed since."""
        if self.digest != digest:
            return False
        return all(
            storage.exists(name) and version_of(storage.stat(name)) == (name, *rest) for name, *rest in self.files
        )


def version_of(file: FileInfo) -> tuple[str, int, str]:
    """Return name, size and version of a file."""
    return file.name, file.size_bytes, file.version


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
