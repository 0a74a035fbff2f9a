"""Inputs of a prepare: shards, split, and the parts of the previous index that can be reused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ...errors import FormatError
from ...storage import FileInfo, ReadableFile, Storage
from ..compat.files import why_inexpressible
from ..compat.sqlite_index import open_sqlite
from ..index.current import PreviousIndex, read_uuid
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
from ..nv_meta import FOLDER, INDEX_SQLITE, SPLIT_YAML
from ..tar.idx import has_tar_idx
from .plan import PreparePlan, PrepareProgress, ProgressCallback
from .shards import ShardSearch
from .split import PlannedSplit
from .workspace import Workspace

_SAMPLES_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareInputs:
    """Everything that a prepare knows before it scans a shard."""

    workspace: Workspace  # the dataset, and the folder of its staged files
    plan: PreparePlan  # the plan of the prepare
    search: ShardSearch  # the shards of the folder
    media: ShardMedia  # media metadata to collect
    previous: PreviousIndex  # the index of the prepare before
    journal: Journal  # the scans of an interrupted prepare, and of this one
    # entries of unchanged shards in that index, by shard number; the other shards are scanned
    reused: Mapping[int, ShardEntry]

    @property
    def storage(self) -> Storage:
        return self.workspace.storage

    @property
    def shards(self) -> tuple[FileInfo, ...]:
        return self.search.shards

    @property
    def previous_shards(self) -> tuple[ShardEntry, ...]:
        return self.previous.index.shards if self.previous.index else ()

    def to_scan(self) -> list[FileInfo]:
        """Return the shards that are not reused, and that neither an interrupted run nor a part has scanned."""
        resumes = self.plan.merge or not self.plan.force
        return [
            shard
            for number, shard in enumerate(self.shards)
            if number not in self.reused and not (resumes and self.journal.has(shard))
        ]

    def load_index(self, number: int) -> ShardIndex:
        """Return the index of a reused or scanned shard."""
        if number in self.reused:
            return self.previous.load(self.reused[number])
        shard = self.shards[number]
        index = self.journal.load(shard)
        # A power cut may have damaged the journal.
        return index_shard(self.storage, shard.name) if index is None else index


def read_inputs(workspace: Workspace, plan: PreparePlan, search: ShardSearch) -> PrepareInputs:
    """Read the previous index, and choose the shards that need no scan."""
    storage = workspace.storage
    previous = PreviousIndex(storage)
    return PrepareInputs(
        workspace=workspace,
        plan=plan,
        search=search,
        media=ShardMedia(storage, plan.media),
        previous=previous,
        journal=Journal(workspace.work),
        reused={} if plan.force else unchanged_shards(plan, search.shards, previous),
    )


def planned_files(files: Mapping[str, str], split: PlannedSplit) -> dict[str, bytes]:
    """Return the files to write in addition to the index, path → contents.

    Args:
        files: Name in ``.nv-meta`` → text.
    """
    contents = {f"{FOLDER}/{name}": text.encode() for name, text in files.items()}
    if split.text is not None:
        contents[f"{FOLDER}/{SPLIT_YAML}"] = split.text.encode()
    return contents


def is_written(storage: Storage, files: Mapping[str, bytes]) -> bool:
    """Return True if all files exist with these contents."""
    return all(storage.exists(name) and storage.read(name) == data for name, data in files.items())


def unchanged_shards(plan: PreparePlan, shards: Sequence[FileInfo], previous: PreviousIndex) -> dict[int, ShardEntry]:
    """Return the entries of shards that need no scan, by number."""
    unchanged: dict[int, ShardEntry] = {}
    if previous.index is not None and not previous.index.has_part_sets:
        return unchanged  # an earlier version has not recorded which members are left out
    for number, shard in enumerate(shards):
        entry = previous.entry(shard)
        if entry and (plan.compat is False or entry.scattered or previous.has_offsets(entry)):
            unchanged[number] = entry
    return unchanged


def is_up_to_date(inputs: PrepareInputs) -> bool:
    """Return True if a prepare would write the same index."""
    plan, storage, previous = inputs.plan, inputs.storage, inputs.previous
    index = previous.index
    if index is None or plan.force or not index.has_part_sets or read_uuid(storage) != index.uuid:
        return False
    if index.shards != tuple(previous.entry(shard) for shard in inputs.shards):
        return False
    if plan.fix_duplicates and index.layout.duplicate_keys:
        return False
    if not inputs.media.is_up_to_date:
        return False
    if plan.compat is False:
        return True
    if storage.exists(INDEX_SQLITE):
        return len(reusable_compat_files(inputs)) == len(inputs.shards)
    return plan.compat is None and why_inexpressible(storage, index) is not None


def reusable_compat_files(inputs: PrepareInputs) -> frozenset[int]:
    """Return the numbers of reused shards that have compat files under the same number."""
    return frozenset(
        number
        for number, entry in inputs.reused.items()
        if inputs.previous.number(entry.name) == number and has_tar_idx(inputs.storage, entry.name, entry.samples)
    )


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
            shards: All shards in order.
            journal: The scans of the shards that are not reused.
            reused: Entries of unchanged shards in the previous index, by shard number; their rows are copied.

        Returns:
            None if no media metadata is wanted.
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
        """Copy the rows of the published ``index.sqlite``, except for shards that changed or were removed."""
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
