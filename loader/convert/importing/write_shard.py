"""Write one planned shard, in a worker; or the first samples of an import, which is tried out."""

from __future__ import annotations

import errno
import hashlib
import math
import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import msgspec

from ...arrays import IntArray
from ...errors import ConfigError, EnergonError, StorageError, plural
from ...storage import LocalStorage, Storage
from ...storage.remote import DownloadOptions
from ...storage.temporary_files import scratch_folder
from ..rows.row import Row, UrlRef
from ..rows.row_file import StoredRows
from ..rows.shard_layout import PlannedShard
from ..writing.shard_file import PartContents, ShardFile, sample_bytes
from ..writing.written_shards import FileVersion, indexed_shard, version_of
from .contents import ContentReader
from .failure_limit import FailureLimit
from .pictures import PictureOptions
from .plan import ImportPlan, ListedRows, open_downloads
from .report import DoneShard, FailedRow, read_done, write_done
from .sample_contents import StrayCoordinatesError, read_sample

_REPORT_SAMPLES = 200
_MIN_FAILURES = 100  # before the end of a shard, which the next run need not repeat then
_WINDOW_ROWS = 256  # that are announced together
_WINDOW_BYTES = 16 << 20

_Sample = tuple[str, dict[str, PartContents]]


@dataclass(frozen=True, slots=True)
class Written:
    """Progress within a shard, or its end.

    Attributes:
        samples: Rows of the shard so far, with those that failed.
        size_bytes: Bytes of its files so far.
        is_resumed: True if an earlier run has written it.
        is_missing: True if it is not written, and only a merge of shares was requested.
    """

    samples: int
    size_bytes: int
    done: DoneShard | None = None
    is_resumed: bool = False
    is_missing: bool = False

    @property
    def is_last(self) -> bool:
        """True for the end of the shard."""
        return self.done is not None or self.is_missing


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShard:
    """Write planned shards; runs in workers.

    Attributes:
        plan: The import. A shard whose rows take more than planned is continued in another file at the limit of bytes.
        only_checks: Write nothing: another share has written the shard, or it is missing.
    """

    storage: Storage
    plan: ImportPlan
    rows: StoredRows
    order: IntArray
    only_checks: bool = False

    def __call__(self, shard: PlannedShard) -> Generator[Written, None, None]:
        # Keep the shard of an earlier run if its rows and settings are the same.
        rows = self.order[shard.start : shard.stop].tolist()
        digest = self._digest(shard, rows)
        done = read_done(self.storage, shard.name)
        if done is not None and not done.is_valid(digest, self.storage):
            done = None
        if self.only_checks and done is None:
            yield Written(samples=0, size_bytes=0, is_missing=True)
            return
        if done is not None and (self.only_checks or not self._is_repaired(done, shard, rows)):
            size_bytes = sum(size for _, size, _ in done.files)
            yield Written(samples=len(rows), size_bytes=size_bytes, done=done, is_resumed=not self.only_checks)
            return
        # Else write it, and then its record.
        writer = _ShardWriter(self, shard, rows)
        with closing(writer.reader):
            yield from writer.write()
        done = DoneShard(
            digest=digest,
            files=tuple(writer.files),
            samples=tuple(writer.samples),
            read_bytes=writer.read_bytes,
            failures=tuple(writer.failures),
            changed=dict(writer.changed),
            first_changed=writer.first_changed,
        )
        write_done(self.storage, shard.name, done)
        yield Written(samples=len(rows), size_bytes=writer.size_bytes, done=done)

    def _is_repaired(self, done: DoneShard, shard: PlannedShard, rows: Sequence[int]) -> bool:
        """Return True if a row that failed can be read now: a permission was given, or a server is back."""
        if not done.failures:
            return False
        failed = {failure.key for failure in done.failures}
        writer = _ShardWriter(self, shard, [row for row in rows if self.rows.key(row, self.rows[row].key) in failed])
        with closing(writer.reader):
            return writer.read_next() is not None

    def _digest(self, shard: PlannedShard, rows: Sequence[int]) -> str:
        scratch = os.fsencode(os.path.dirname(self.rows.path))  # has another name in each run
        # The bytes of shards depend on these settings.
        settings = msgspec.json.encode(self.plan.pictures) + str(self.plan.layout.shard_bytes).encode()
        digest = hashlib.sha256(f"{hashlib.sha256(settings).hexdigest()}\0{shard.name}\0{shard.split}\0".encode())
        # The stored rows name contents with sizes and versions, so no file is read.
        for row in rows:
            data = self.rows.read(row).replace(scratch, b"")
            digest.update(f"{len(data)}\0{self.rows.renamed.get(row, '')}\0".encode())
            digest.update(data)
        return digest.hexdigest()


class _ShardWriter:
    """Writes the rows of one planned shard to a file, or to several if it grows too large."""

    def __init__(self, task: WriteShard, shard: PlannedShard, rows: Sequence[int]) -> None:
        self._task = task
        self._shard = shard
        self._rows = rows
        plan = task.plan
        self._limit = FailureLimit(len(task.rows), plan.max_failures, task.storage.path(""), plan.command)
        self._next = 0
        self._left = zip(rows, self._announced_rows(), strict=True)
        self.reader = ContentReader(task.plan.sources, open_downloads(task.rows, task.plan.downloads))
        self.samples: list[int] = []  # of each file
        self.files: list[FileVersion] = []
        self.read_bytes = self.size_bytes = 0
        self.failures: list[FailedRow] = []
        self.changed: Counter[str] = Counter()
        self.first_changed: dict[str, str] = {}

    def write(self) -> Generator[Written, None, None]:
        sample = self.read_next()
        while sample is not None:
            sample = yield from self._write_file(sample)

    def _write_file(self, sample: _Sample | None) -> Generator[Written, None, _Sample | None]:
        index = len(self.files)
        name = self._shard.name if not index else f"{self._shard.name.removesuffix('.tar')}_{index}.tar"
        storage = self._task.storage
        # Write until the next sample would exceed the limit.
        with indexed_shard(storage, name) as shard:
            while sample is not None:
                if shard.samples and shard.size_bytes + sample_bytes(*sample) > self._task.plan.layout.shard_bytes:
                    break
                shard.write(*sample)
                self.reader.release()
                if shard.samples % _REPORT_SAMPLES == 0:
                    yield Written(self._next, self.size_bytes + shard.size_bytes)
                sample = self.read_next()
        # The sample that is left begins the next file.
        self.files.append(version_of(shard.info))
        self.samples.append(shard.samples)
        self.size_bytes += shard.info.size_bytes
        yield Written(self._next - (sample is not None), self.size_bytes)
        return sample

    def read_next(self) -> _Sample | None:
        """Return the next sample that can be read; note the rows before it that cannot."""
        # Rows that fail are noted, and the next one is tried.
        for row_index, row in self._left:
            self._next += 1
            key = self._task.rows.key(row_index, row.key)
            try:
                sample = read_sample(self.reader, row, self._task.plan.pictures)
            except EnergonError as error:
                if _is_fatal(error):
                    raise
                self.reader.release()
                self.failures.append(failed_row(row, key, error))
                if len(self.failures) >= _MIN_FAILURES:
                    self._limit.check(len(self.failures), example=self.failures[0].example)
                continue
            # Note what conversions changed, with the first row of each change.
            self.read_bytes += sample.read_bytes
            self.changed += sample.changed
            for name, count in sample.changed.items():
                if count:
                    self.first_changed.setdefault(name, row.origin)
            return key, sample.parts
        return None

    def _announced_rows(self) -> Iterator[Row]:
        """Yield the rows; the parts of a window of them are announced before the rows of the last one are read."""
        last: list[Row] = []
        for window in self._windows():
            with suppress(EnergonError):  # reading the row reports it
                self.reader.announce(part for row in window for part in row.parts.values())
            yield from last
            last = window
        yield from last

    def _windows(self) -> Iterator[list[Row]]:
        # A window has some rows, or fewer large ones.
        window, size_bytes = list[Row](), 0
        for row_index in self._rows:
            window.append(self._task.rows[row_index])
            size_bytes += max(0, window[-1].size_bytes)
            if len(window) == _WINDOW_ROWS or size_bytes >= _WINDOW_BYTES:
                yield window
                window, size_bytes = [], 0
        yield window


def failed_row(row: Row, key: str, error: EnergonError) -> FailedRow:
    """Return the record of a row that failed."""
    at = f" ({error.at})" if error.at else ""
    code = "F102" if isinstance(error.__cause__, FileNotFoundError) else getattr(error, "code", "F101")
    reason = f"{error.message}{at}".replace("\n", " ")
    return FailedRow(row.origin, key, reason, code, len(row.parts), max(0, row.size_bytes))


def _is_fatal(error: EnergonError) -> bool:
    """Return True for an error that is no fault of a row: the machine has no more files, memory or disk."""
    cause = error.__cause__
    return isinstance(error, StorageError) and isinstance(cause, OSError) and cause.errno in _MACHINE_ERRORS


_MACHINE_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE}
)


_MAX_SAMPLES = 100
_MAX_TRIED = 10_000  # rows, until one can be read
_MAX_BYTES = 64 * 1024 * 1024
_TRIAL_ROWS = 64  # whose files are fetched ahead
_SHOWN_HOSTS = 30


class NoReadableRowsError(ConfigError):
    """None of the first rows can be read; the fault of the first one says why."""

    def __init__(self, failures: Sequence[FailedRow], fault: EnergonError) -> None:
        samples = plural(len(failures), "sample")
        message = f"none of the first {samples} can be read; {failures[0].origin}: {fault.message}"
        super().__init__(message, at=fault.at, hint=fault.hint)
        self.failures = failures


def contact_hosts(listed: ListedRows, options: DownloadOptions | None, limit: FailureLimit) -> None:
    """Fetch the first files of each host at the same time, so that dead hosts are known before the rows are read."""
    downloads = open_downloads(listed.rows, options, keeps=True) if listed.hosts.urls else None
    if downloads is None:
        return
    with closing(downloads):
        given_up = downloads.contact(listed.hosts.to_contact())
    # Rows of dead hosts count as failures before they are tried.
    counted = {host: listed.hosts.rows_of([host]) for host in [*given_up][:_SHOWN_HOSTS]}
    shown = [f"{host}: {plural(counted[host], 'row')}, {given_up[host]}" for host in counted]
    more = [f"and {plural(len(given_up) - _SHOWN_HOSTS, 'more host')}"] * (len(given_up) > _SHOWN_HOSTS)
    hosts = plural(len(given_up), "host was", "hosts were")
    example = "\n  ".join([f"{hosts} given up, and their other rows not tried:", *shown, *more])
    limit.check(listed.hosts.rows_of(given_up), example=example)


@contextmanager
def write_trial(
    listed: ListedRows,
    pictures: PictureOptions,
    *,
    downloads: DownloadOptions | None = None,
    max_failures: float | None = math.inf,
) -> Iterator[str]:
    """Write the first samples to a shard in a temporary folder, and return the folder; rows that fail are skipped.

    Args:
        downloads: What may be downloaded; None for nothing. Downloads are kept for the import.
        max_failures: Most rows that may fail, as for :class:`ImportPlan`.

    Raises:
        StrayCoordinatesError: Coordinates of one of the first rows would no longer fit their picture.
        NoReadableRowsError: None of the first rows can be read.
        SampleError: More rows failed than may, before one could be read. Later failures end the trial, and then the
            import, which keeps the shards that it has written.
    """
    failures: list[FailedRow] = []
    fault: EnergonError | None = None
    # Give dead hosts up before rows of them are tried.
    limit = FailureLimit(len(listed.rows), max_failures, listed.sources[0].path)
    contact_hosts(listed, downloads, limit)
    with scratch_folder() as folder:
        storage = LocalStorage(folder)
        reader = ContentReader(listed.sources, open_downloads(listed.rows, downloads, keeps=True))
        with storage.create("first_samples.tar", durable=False) as file, closing(reader):
            shard = ShardFile(file)
            tried = min(len(listed.rows), _MAX_TRIED)
            # Write rows until there are enough, and note those that fail.
            for row_index in range(tried):
                if row_index >= _MAX_SAMPLES and shard.samples:
                    break
                # Fetch the files of some rows at the same time.
                if row_index % _TRIAL_ROWS == 0 and downloads is not None:
                    window = [listed.rows[row] for row in range(row_index, min(tried, row_index + _TRIAL_ROWS))]
                    reader.announce(part for row in window for part in row.parts.values() if isinstance(part, UrlRef))
                row = listed.rows[row_index]
                if shard.samples and max(0, row.size_bytes) + shard.size_bytes > _MAX_BYTES:
                    break
                key = listed.rows.key(row_index, row.key)
                try:
                    parts = read_sample(reader, row, pictures).parts
                except StrayCoordinatesError as error:
                    raise StrayCoordinatesError(error.message, at=row.origin, hint=error.hint) from error
                except EnergonError as error:
                    fault = fault or error
                    reader.release()
                    failures.append(failed_row(row, key, error))
                    if limit.is_exceeded(len(failures)):
                        break
                    continue
                shard.write(key, parts)
                reader.release()
            # Without a sample, there is nothing to try out.
            if not shard.samples and fault is not None:
                limit.check(len(failures), example=failures[0].example)
                raise NoReadableRowsError(failures, fault) from fault
            shard.finish()
        yield folder
