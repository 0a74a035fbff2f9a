"""Media metadata of a dataset's parts: the step of a prepare between the index and the commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from ..errors import FormatError
from ..storage import FileInfo, ReadableFile, Storage
from .file_region import FileRegion
from .index_layout import ShardEntry
from .journal import Journal
from .media_extraction import may_be_media
from .media_filter import MediaFilter
from .media_tables import MediaTables, copied_rows, entry_keys_of_shards, read_media_filter
from .media_work import MediaProgress, MediaReport, MediaRows, fill_media_tables
from .nv_meta import INDEX_SQLITE
from .previous_index import PreviousIndex
from .shard_index import ShardIndex, index_shard
from .sqlite_file import open_sqlite

__all__ = ["ShardMedia"]

_SAMPLES_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """Some samples of one shard."""

    shard: FileInfo
    kept: ShardEntry | None  # how the previous index calls it, if it has not changed
    samples: range

    @property
    def name(self) -> str:
        return self.shard.name

    @property
    def entries(self) -> int:
        return len(self.samples)


class ShardMedia:
    """What a prepare does about media metadata: nothing, unless it was asked for now or earlier.

    Args:
        storage: The dataset.
        wanted: What the user asked for now; None goes on with what was asked for earlier.
    """

    def __init__(self, storage: Storage, wanted: MediaFilter | None) -> None:
        self._storage = storage
        self._recorded = read_media_filter(storage)
        self.filter = wanted or self._recorded
        """What is looked into; None: nothing."""

    @property
    def is_up_to_date(self) -> bool:
        """Whether the tables that are there were made by this filter."""
        return self.filter == self._recorded

    def collect(
        self,
        staged: str,
        shards: Sequence[FileInfo],
        *,
        samples: Sequence[int],
        kept: Mapping[int, ShardEntry],
        previous: PreviousIndex,
        workers: int,
        on_progress: MediaProgress | None = None,
    ) -> MediaReport | None:
        """Fill the media tables of an ``index.sqlite`` that is not in place yet.

        Args:
            staged: Its name.
            shards: All shards in order.
            samples: How many samples each has.
            kept: Those that have not changed since the previous index, by their number; their rows are kept.
            previous: That index.
            workers: Processes.
            on_progress: Called with numbers of samples.

        Returns:
            None where there is nothing to do.

        Raises:
            ConfigError: A package is missing.
            StorageError: A shard cannot be read, or the disk is full.
        """
        if self.filter is None:
            return None
        path = self._storage.local_path(staged)
        keeps = bool(kept) and self.is_up_to_date and self._can_keep_rows()
        chunks = [
            _Chunk(shard=shard, kept=kept.get(number), samples=range(start, min(start + _SAMPLES_AT_ONCE, count)))
            for number, (shard, count) in enumerate(zip(shards, samples, strict=True))
            if not (keeps and number in kept)
            for start in range(0, count, _SAMPLES_AT_ONCE)
        ]
        read_chunk = _ReadChunk(self._storage, self.filter)
        with MediaTables(path, self.filter, keep=keeps) as tables:
            if keeps:
                names = frozenset(entry.name for entry in kept.values())
                self._keep_rows(tables, names, previous)
            added, broken, warnings = fill_media_tables(
                tables, read_chunk, chunks, workers=workers, on_progress=on_progress
            )
            entries = tables.count()
        return MediaReport(media_filter=self.filter, entries=entries, collected=added, broken=broken, warnings=warnings)

    def _can_keep_rows(self) -> bool:
        try:
            with closing(open_sqlite(self._storage.local_path(INDEX_SQLITE))) as database:
                next(entry_keys_of_shards(database, [0]), None)
        except sqlite3.Error:
            return False
        return True

    def _keep_rows(self, tables: MediaTables, kept: frozenset[str], previous: PreviousIndex) -> None:
        """Have the rows of the ``index.sqlite`` in place, less those of shards that changed or are gone."""
        shards = previous.index.shards if previous.index else ()
        gone = [number for number, shard in enumerate(shards) if shard.name not in kept]
        try:
            with closing(open_sqlite(self._storage.local_path(INDEX_SQLITE))) as database:
                if not tables.has_rows:
                    tables.add(copied_rows(database))
                tables.remove(entry_keys_of_shards(database, gone))
        except sqlite3.Error as error:
            raise FormatError(
                f"index.sqlite cannot be read ({error})",
                shard=self._storage.path(INDEX_SQLITE),
                do="write it anew: energon prepare --force-overwrite",
            ) from error


class _ReadChunk:
    """Reads samples of shards in a worker; it stays with a shard while chunks are of it."""

    def __init__(self, storage: Storage, media_filter: MediaFilter) -> None:
        self._storage = storage
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
        if chunk.kept is not None:
            if self._previous is None:
                self._previous = PreviousIndex(self._storage)
            return self._previous.load(chunk.kept)
        return Journal(self._storage).load(chunk.shard) or index_shard(self._storage, chunk.shard.name)


class _ShardReader:
    def __init__(self, file: ReadableFile, index: ShardIndex, media_filter: MediaFilter) -> None:
        self._file = file
        self._index = index
        self._filter = media_filter
        self._keys = index.keys()

    def __call__(self, samples: range) -> MediaRows:
        index, found = self._index, MediaRows([], 0, [])
        for sample in samples:
            start = int(index.part_ends[sample - 1]) if sample else 0
            for row in range(start, int(index.part_ends[sample])):
                entry_key = f"{self._keys[sample]}.{index.part_names[index.part_name[row]]}"
                if may_be_media(entry_key, self._filter):
                    region = FileRegion(self._file, int(index.part_offset[row]), int(index.part_size[row]))
                    found.extract(region, entry_key, self._filter)
        return found
