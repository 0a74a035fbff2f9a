"""Collect media metadata of the parts of a dataset into its ``index.sqlite``."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ...errors import FormatError
from ...storage import FileInfo, ReadableFile, Storage
from ..compat.sqlite_index import open_sqlite
from ..index.current import PreviousIndex
from ..index.journal import Journal
from ..index.layout import ShardEntry
from ..index.shard_index import ShardIndex, index_shard
from ..media.extraction import FileRegion, may_be_media
from ..media.kind import MediaFilter
from ..media.tables import (
    MediaReport,
    MediaRows,
    MediaTables,
    copied_rows,
    entry_keys_of_shards,
    fill_media_tables,
    read_media_filter,
)
from ..nv_meta import INDEX_SQLITE
from .plan import PrepareProgress, ProgressCallback

_SAMPLES_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """A range of samples of one shard."""

    shard: FileInfo
    reused: ShardEntry | None  # its entry in the previous index, if the shard has not changed
    samples: range

    @property
    def name(self) -> str:
        return self.shard.name

    @property
    def entries(self) -> int:
        return len(self.samples)


class ShardMedia:
    """The media metadata of a dataset: none, unless this prepare or an earlier one asks for it.

    Args:
        storage: The dataset.
        wanted: Filter of this prepare; None keeps the filter of an earlier one.
    """

    def __init__(self, storage: Storage, wanted: MediaFilter | None) -> None:
        self._storage = storage
        self._recorded = read_media_filter(storage)
        self.filter = wanted or self._recorded
        """Parts to read; None reads none."""

    @property
    def is_up_to_date(self) -> bool:
        """True if the tables of ``index.sqlite`` were collected by this filter."""
        return self.filter == self._recorded

    def collect(
        self,
        staged: Path,
        shards: Sequence[FileInfo],
        journal: Journal,
        *,
        samples: Sequence[int],
        reused: Mapping[int, ShardEntry],
        previous: PreviousIndex,
        workers: int,
        on_progress: ProgressCallback | None = None,
    ) -> MediaReport | None:
        """Fill the media tables of a staged ``index.sqlite``.

        Args:
            staged: Path of the file.
            shards: All shards in order.
            journal: The scans of the shards that are not reused.
            samples: Number of samples of each shard.
            reused: Entries of unchanged shards in the previous index, by shard number; their rows are copied.
            previous: The previous index.
            workers: Number of worker processes.
            on_progress: Called after each chunk of samples.

        Returns:
            None if no media metadata is wanted.

        Raises:
            ConfigError: A package is missing.
            StorageError: A shard cannot be read, or the disk is full.
        """
        if self.filter is None:
            return None

        def report(done: int, total: int) -> None:
            if on_progress:
                count = len(shards)
                progress = PrepareProgress(
                    phase="media", shards_done=count, shards_total=count, samples=done, samples_total=total
                )
                on_progress(progress)

        keep = bool(reused) and self.is_up_to_date and self._can_copy_rows()
        chunks = [
            _Chunk(shard=shard, reused=reused.get(number), samples=range(start, min(start + _SAMPLES_AT_ONCE, count)))
            for number, (shard, count) in enumerate(zip(shards, samples, strict=True))
            if not (keep and number in reused)
            for start in range(0, count, _SAMPLES_AT_ONCE)
        ]
        read_chunk = _ReadChunk(self._storage, journal, self.filter)
        with MediaTables(staged, self.filter, keep=keep) as tables:
            if keep:
                self._copy_rows(tables, frozenset(entry.name for entry in reused.values()), previous)
            added, broken, warnings = fill_media_tables(tables, read_chunk, chunks, workers=workers, on_progress=report)
            entries = tables.count()
        return MediaReport(media_filter=self.filter, entries=entries, collected=added, broken=broken, warnings=warnings)

    def _can_copy_rows(self) -> bool:
        try:
            with closing(open_sqlite(self._storage.local_path(INDEX_SQLITE))) as database:
                next(entry_keys_of_shards(database, [0]), None)
        except sqlite3.Error:
            return False
        return True

    def _copy_rows(self, tables: MediaTables, names: frozenset[str], previous: PreviousIndex) -> None:
        """Copy the rows of the published ``index.sqlite``, except those of shards that changed or were removed."""
        shards = previous.index.shards if previous.index else ()
        gone = [number for number, shard in enumerate(shards) if shard.name not in names]
        try:
            with closing(open_sqlite(self._storage.local_path(INDEX_SQLITE))) as database:
                if not tables.has_rows:
                    tables.add(copied_rows(database))
                tables.remove(entry_keys_of_shards(database, gone))
        except sqlite3.Error as error:
            raise FormatError(
                f"index.sqlite cannot be read ({error})",
                shard=self._storage.path(INDEX_SQLITE),
                hint="rebuild it: energon prepare --force-overwrite",
            ) from error


class _ReadChunk:
    """Reads chunks of samples in a worker; the last shard stays open for the next chunk."""

    def __init__(self, storage: Storage, journal: Journal, media_filter: MediaFilter) -> None:
        self._storage = storage
        self._journal = journal
        self._filter = media_filter
        self._previous: PreviousIndex | None = None
        self._shard: FileInfo | None = None
        self._read: Callable[[range], MediaRows] | None = None

    def __call__(self, chunk: _Chunk) -> MediaRows:
        if self._read is None or self._shard != chunk.shard:
            file = self._storage.open(chunk.shard.name)
            self._read = _ShardReader(file, self._load(chunk), self._filter)
            self._shard = chunk.shard
        return self._read(chunk.samples)

    def _load(self, chunk: _Chunk) -> ShardIndex:
        if chunk.reused is not None:
            if self._previous is None:
                self._previous = PreviousIndex(self._storage)
            return self._previous.load(chunk.reused)
        return self._journal.load(chunk.shard) or index_shard(self._storage, chunk.shard.name)


class _ShardReader:
    """Reads the media of samples of one shard."""

    def __init__(self, file: ReadableFile, index: ShardIndex, media_filter: MediaFilter) -> None:
        self._file = file
        self._index = index
        self._filter = media_filter
        self._keys = index.keys()

    def __call__(self, samples: range) -> MediaRows:
        index, rows = self._index, MediaRows([], 0, [])
        for sample in samples:
            start = int(index.part_ends[sample - 1]) if sample else 0
            for row in range(start, int(index.part_ends[sample])):
                entry_key = f"{self._keys[sample]}.{index.part_names[index.part_name[row]]}"
                if may_be_media(entry_key, self._filter):
                    region = FileRegion(self._file, int(index.part_offset[row]), int(index.part_size[row]))
                    rows.extract(region, entry_key, self._filter)
        return rows
