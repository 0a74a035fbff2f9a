"""Write the first samples of an import to a temporary folder, so that all that inspects shards can show them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from ...errors import ConfigError, EnergonError
from ...storage import LocalStorage
from ...storage.remote import DownloadOptions
from ...storage.scratch_folder import scratch_folder
from ..rows.row import UrlRef
from ..writing.shard_file import ShardFile
from .contents import ContentReader
from .listing import ListedRows, open_downloads
from .pictures import PictureOptions
from .plan import FailedRow, check_failures, exceeds
from .sample_contents import StrayCoordinatesError, read_sample
from .write_shard import failed_row

_MAX_SAMPLES = 100
_MAX_TRIED = 10_000  # rows, until one can be read
_MAX_BYTES = 64 * 1024 * 1024
_WINDOW_ROWS = 64  # whose files are fetched ahead
_SHOWN_HOSTS = 30


class NoReadableRowsError(ConfigError):
    """None of the first rows can be read.

    Attributes:
        failures: The rows.
    """

    failures: Sequence[FailedRow] = ()


def contact_hosts(listed: ListedRows, options: DownloadOptions | None, max_failures: float, *, at: str) -> None:
    """Fetch the first files of each host at the same time, so that dead hosts are known before the rows are read.

    Raises:
        SampleError: More rows are on hosts that were given up than may fail.
    """
    downloads = open_downloads(listed.rows, options, keeps=True) if listed.hosts.urls else None
    if downloads is None:
        return
    with closing(downloads):
        given_up = downloads.contact(listed.hosts.to_contact())
    lost, rows = listed.hosts.rows_of(given_up), len(listed.rows)
    counted = {host: listed.hosts.rows_of([host]) for host in [*given_up][:_SHOWN_HOSTS]}
    shown = [f"{host}: {counted[host]:,} rows, {given_up[host]}" for host in counted]
    more = [f"and {len(given_up) - _SHOWN_HOSTS:,} more hosts"] * (len(given_up) > _SHOWN_HOSTS)
    example = "\n  ".join([f"{len(given_up):,} hosts were given up, and other rows of them not tried:", *shown, *more])
    check_failures(lost, rows, max_failures, at=at, example=example)


@contextmanager
def write_trial(
    listed: ListedRows,
    pictures: PictureOptions,
    *,
    downloads: DownloadOptions | None = None,
    max_failures: float = math.inf,
) -> Iterator[str]:
    """Write the first samples to a shard in a temporary folder, and return the folder; rows that fail are skipped.

    Args:
        listed: The samples.
        pictures: Settings for pictures.
        downloads: What may be downloaded; None for nothing. Downloads are kept for the import.
        max_failures: Most rows that may fail; below 1 their share.

    Raises:
        StrayCoordinatesError: Coordinates of one of the first rows would no longer fit their picture.
        NoReadableRowsError: None of the first rows can be read.
        SampleError: More rows failed than may, before one could be read. Later failures end the trial, and then the
            import, which keeps the shards that it has written.
    """
    failures: list[FailedRow] = []
    fault: EnergonError | None = None
    contact_hosts(listed, downloads, max_failures, at=listed.sources[0].path)
    with scratch_folder() as folder:
        storage = LocalStorage(folder)
        reader = ContentReader(listed.sources, open_downloads(listed.rows, downloads, keeps=True))
        with storage.create("first_samples.tar", durable=False) as file, closing(reader):
            shard = ShardFile(file)
            tried = min(len(listed.rows), _MAX_TRIED)
            for number in range(tried):
                if number >= _MAX_SAMPLES and shard.samples:
                    break
                if number % _WINDOW_ROWS == 0 and downloads is not None:
                    window = [listed.rows[row] for row in range(number, min(tried, number + _WINDOW_ROWS))]
                    reader.announce(part for row in window for part in row.parts.values() if isinstance(part, UrlRef))
                row = listed.rows[number]
                if shard.samples and max(0, row.size_bytes) + shard.size_bytes > _MAX_BYTES:
                    break
                key = listed.rows.key(number, row.key)
                try:
                    parts = read_sample(reader, row, pictures).parts
                except StrayCoordinatesError as error:
                    raise StrayCoordinatesError(error.message, at=row.origin, hint=error.hint) from error
                except EnergonError as error:
                    fault = fault or error
                    reader.release()
                    failures.append(failed_row(row, key, error))
                    if exceeds(len(failures), len(listed.rows), max_failures):
                        break
                    continue
                shard.write(key, parts)
                reader.release()
            if not shard.samples and fault is not None:
                at, example = listed.sources[0].path, failures[0].example
                check_failures(len(failures), len(listed.rows), max_failures, at=at, example=example)
                raise _no_readable_rows(failures, fault)
            shard.finish()
        yield folder


def _no_readable_rows(failures: Sequence[FailedRow], fault: EnergonError) -> NoReadableRowsError:
    error = NoReadableRowsError(
        f"none of the first {len(failures):,} samples can be read; {failures[0].origin}: {fault.message}",
        at=fault.at,
        hint=fault.hint,
    )
    error.failures, error.__cause__ = failures, fault
    return error
