"""Collect the sizes and durations of media in tar shards."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ..errors import FormatError
from ..format.compat.sqlite_index import open_sqlite
from ..format.index.current import PreviousIndex
from ..format.index.journal import StoredScans
from ..format.index.layout import ShardEntry
from ..format.index.shard_index import ShardIndex, index_shard
from ..format.media.extraction import FileRegion, may_be_media
from ..format.media.metadata import MediaFilter, media_query
from ..format.media.tables import (
    MediaChunk,
    MediaReport,
    MediaRows,
    MediaTables,
    entry_keys_of_shards,
    fill_media_tables,
)
from ..format.nv_meta import INDEX_SQLITE
from ..storage import FileInfo, ReadableFile, Storage
from .plan import PrepareProgress, ProgressCallback
from .staging import PrepareInputs

_SAMPLES_AT_ONCE = 256


def collect_media(
    inputs: PrepareInputs,
    media: MediaFilter,
    staged: Path,
    samples: Sequence[int],
    on_progress: ProgressCallback | None,
) -> MediaReport:
    """Fill the media tables of a staged ``index.sqlite``.

    Args:
        inputs: The shards; the rows of reused shards are copied from the present tables.
        media: Filter of the media to collect.
        staged: Path of the file.
        samples: Number of samples of each shard.
        on_progress: Called after each chunk of samples.
    """
    storage, shards = inputs.storage, inputs.shards

    def report(done: int, total: int) -> None:
        if on_progress:
            count = len(shards)
            progress = PrepareProgress(
                phase="media", shards_done=count, shards_total=count, samples=done, samples_total=total
            )
            on_progress(progress)

    # Divide the samples of the shards whose rows are not copied into chunks.
    keep = bool(inputs.reused) and media == inputs.recorded_media and _can_copy_rows(storage)
    chunks = [
        MediaChunk(shard.name, min(_SAMPLES_AT_ONCE, count - start), (shard, inputs.reused.get(position), start))
        for position, (shard, count) in enumerate(zip(shards, samples, strict=True))
        if not (keep and position in inputs.reused)
        for start in range(0, count, _SAMPLES_AT_ONCE)
    ]
    # Copy the rows of unchanged shards, and read the media of the others.
    with MediaTables(staged, media, keep=keep) as tables:
        if keep:
            _copy_rows(inputs, tables)
        read_chunk = _ShardReader(storage, inputs.journal, media)
        added, broken, warnings = fill_media_tables(
            tables, read_chunk, chunks, workers=inputs.plan.workers, on_progress=report
        )
        entries = tables.count()
    return MediaReport(media_filter=media, entries=entries, collected=added, broken=broken, warnings=warnings)


def _can_copy_rows(storage: Storage) -> bool:
    try:
        with closing(open_sqlite(storage.local_path(INDEX_SQLITE))) as database:
            next(entry_keys_of_shards(database, [0]), None)
    except sqlite3.Error:
        return False
    return True


def _copy_rows(inputs: PrepareInputs, tables: MediaTables) -> None:
    """Copy the rows of the published ``index.sqlite``, except for shards that changed or were removed."""
    storage, names = inputs.storage, {entry.name for entry in inputs.reused.values()}
    gone = [position for position, shard in enumerate(inputs.previous_shards) if shard.name not in names]
    try:
        with closing(open_sqlite(storage.local_path(INDEX_SQLITE))) as database:
            if not tables.has_rows:
                tables.add(database.execute(media_query(database)))
            tables.remove(entry_keys_of_shards(database, gone))
    except sqlite3.Error as error:
        raise FormatError(
            f"index.sqlite cannot be read ({error})",
            shard=storage.path(INDEX_SQLITE),
            hint="rebuild it: energon prepare --force-overwrite",
        ) from error


class _ShardReader:
    """Reads chunks of samples in a worker; the last shard stays open for the next chunk."""

    def __init__(self, storage: Storage, journal: StoredScans, media_filter: MediaFilter) -> None:
        self._storage = storage
        self._journal = journal
        self._filter = media_filter
        self._previous: PreviousIndex | None = None
        self._opened: tuple[FileInfo, ReadableFile, ShardIndex, list[str]] | None = None  # the last: keys of samples

    def __call__(self, chunk: MediaChunk) -> MediaRows:
        shard, reused, first = chunk.content
        if self._opened is None or self._opened[0] != shard:
            loaded = self._load(shard, reused)
            self._opened = shard, self._storage.open(shard.name), loaded, loaded.keys()
        _, file, index, keys = self._opened
        rows = MediaRows()
        for sample in range(first, first + chunk.entries):
            start = int(index.part_ends[sample - 1]) if sample else 0
            for row in range(start, int(index.part_ends[sample])):
                entry_key = f"{keys[sample]}.{index.part_names[index.part_name[row]]}"
                if may_be_media(entry_key, self._filter):
                    region = FileRegion(file, int(index.part_offset[row]), int(index.part_size[row]))
                    rows.extract(region, entry_key, self._filter)
        return rows

    def _load(self, shard: FileInfo, reused: ShardEntry | None) -> ShardIndex:
        if reused is None:
            return self._journal.load(shard) or index_shard(self._storage, shard.name)
        self._previous = self._previous or PreviousIndex(self._storage)
        return self._previous.load(reused)
