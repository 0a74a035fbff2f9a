"""Find the current index of a dataset, and reuse its shards and rows for the next one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...errors import EnergonError, FormatError
from ...storage import FileInfo, Storage
from ..documents.dataset_files import read_shard_info
from ..nv_meta import FOLDER, INDEX_FOLDER, INDEX_UUID, INFO_JSON
from ..tar.header import read_tar_idx
from .dataset_index import DatasetIndex
from .layout import ShardEntry
from .shard_index import ShardIndex

_UUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


def read_uuid(storage: Storage) -> str | None:
    """Read ``index.uuid``; return None if it is missing, or not the name of an index."""
    if not storage.exists(INDEX_UUID):
        return None
    uuid = storage.read(INDEX_UUID, 0, 256).decode("ascii", "replace").strip()
    return uuid if _UUID.fullmatch(uuid) else None  # it is used as the name of a folder


def stale_indexes(storage: Storage, *, kept: str | None) -> list[str]:
    """List the folders of all indexes but one, those that a killed prepare has left without a layout, too."""
    if not storage.exists(INDEX_FOLDER):
        return []
    inner = (file.name[len(INDEX_FOLDER) + 1 :].partition("/") for file in storage.list(INDEX_FOLDER))
    return [f"{INDEX_FOLDER}/{uuid}" for uuid in sorted({uuid for uuid, slash, _ in inner if slash}) if uuid != kept]


def index_folders(storage: Storage) -> list[str]:
    """List the uuids of all index folders, newest first."""
    if not storage.exists(INDEX_FOLDER):
        return []
    depth = INDEX_FOLDER.count("/") + 2
    files = [file for file in storage.list(INDEX_FOLDER) if file.name.count("/") == depth]
    layouts = [file for file in files if file.name.endswith("/layout.json")]
    layouts.sort(key=lambda file: -file.mtime_ns)
    return [file.name.split("/")[-2] for file in layouts]


def prefetch_documents(storage: Storage, names: Sequence[str]) -> None:
    """Announce the documents of a listed dataset that are read first, so that remote documents arrive together.

    Args:
        names: Names of further documents in ``.nv-meta``.
    """
    if storage.ahead is None:
        return
    documents = [INFO_JSON, INDEX_UUID, *(f"{FOLDER}/{name}" for name in names)]
    storage.ahead.prefetch([*documents, *(f"{INDEX_FOLDER}/{uuid}/layout.json" for uuid in index_folders(storage)[:1])])


def current_index(storage: Storage, shard_counts: dict[str, int]) -> DatasetIndex | None:
    """Open the index that ``index.uuid`` names, or else one that fits ``.info.json``.

    ``index.uuid`` and ``.info.json`` disagree only if a prepare was killed while it renamed its files. The earlier
    index still exists then, and is the one that fits ``.info.json``.

    Args:
        shard_counts: Shards and sample counts of ``.info.json``.

    Returns:
        The index; None if no index is about these shards, because another tool prepared the dataset.
    """
    named = read_uuid(storage)
    if named is not None and storage.exists(f"{INDEX_FOLDER}/{named}/layout.json"):
        index = DatasetIndex(storage, named)
        if _fits(index, shard_counts):
            return index
    folders = index_folders(storage)
    if named is not None and named not in folders:
        return None  # we write folders before index.uuid, so another tool has prepared the dataset
    for uuid in folders:
        if uuid == named:
            continue  # it does not fit
        try:
            index = DatasetIndex(storage, uuid)
            index.check_sizes()
        except FormatError:
            continue
        if _fits(index, shard_counts):
            return index
    return None


def _fits(index: DatasetIndex, shard_counts: dict[str, int]) -> bool:
    return [(shard.name, shard.samples) for shard in index.shards] == list(shard_counts.items())


class PreviousIndex:
    """The current index while a new one is built."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.index: DatasetIndex | None = None
        try:
            shard_counts = read_shard_info(storage)
            self.index = None if shard_counts is None else current_index(storage, shard_counts)
            if self.index is not None:
                self.index.check()
        except EnergonError:
            self.index = None  # damaged: it is not used, and the new one replaces it
        self._entries = {shard.name: shard for shard in self.index.shards} if self.index else {}

    def entry(self, shard: FileInfo) -> ShardEntry | None:
        """Return the entry of a shard; None if its size or time of change is another now."""
        entry = self._entries.get(shard.name)
        return entry if entry and entry.is_version(shard) else None

    def has_offsets(self, entry: ShardEntry) -> bool:
        """Return True if :meth:`load` can return the offsets of the shard's samples."""
        return entry.plain or len(self.load(entry).sample_offsets) > 0

    def load(self, entry: ShardEntry) -> ShardIndex:
        """Return a shard's index; without sample offsets if no valid ``.tar.idx`` has them."""
        if self.index is None:
            raise LookupError(entry.name)
        return shard_index_with_offsets(self._storage, self.index, entry)


def shard_index_with_offsets(storage: Storage, index: DatasetIndex, entry: ShardEntry) -> ShardIndex:
    """Return the index of a shard from its dataset's index; without sample offsets if nothing valid has them."""
    scan = index.shard_index(entry)
    if len(scan.sample_offsets):
        return scan
    offsets = read_tar_idx(storage, entry.name, samples=entry.samples, shard_size=entry.size_bytes)
    if offsets is None:
        return scan
    # Each sample's first part is after the sample's first header, and before that of the next sample.
    first = scan.first_part_offsets()
    fits = ((offsets[:-1] < first) & (first <= offsets[1:])).all() and offsets[-1] == entry.end_offset
    return replace(scan, sample_offsets=offsets) if fits else scan
