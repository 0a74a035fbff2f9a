"""Scans of tar shards that are not prepared, and an index of them in memory, loaded when it is needed."""

from __future__ import annotations

import os
import re
import tempfile
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...engine.run import Engine
from ...engine.workers import usable_cores
from ...errors import EnergonError, StorageError
from ...format.data_kind import is_tar_file
from ...format.dataset_ref import DatasetRef
from ...format.documents.dataset_files import is_prepared
from ...format.documents.next_command import command_for_folder, quoted
from ...format.index.dataset_index import PartLocation
from ...format.index.key_hash import hash_key
from ...format.index.layout import AbstractIndex, Layout, PartStats, ShardEntry
from ...format.index.shard_index import ShardIndex, index_shard, scan_facts
from ...format.nv_meta import TEMPORARY_INDEX
from ...format.tar.names import decode_name, encode_name
from ...format.unfinished import check_finished
from ...parts.part_sets import PartSetCounter, PartSets, join_part_sets
from ...prepare.plan import PreparePlan, ProgressCallback
from ...prepare.shards import count_extensions, count_text, find_shards
from ...storage import FileInfo, ReadableFile, Storage, list_once, open_parent, open_storage
from ..dataset import NoDocuments
from ..kind import kind_at
from ..tar import TarDataset

_MAX_SIZES = 4096  # of each part in a shard, for medians


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSummary:
    """The facts about the headers of one shard that fit in a message of a worker.

    Attributes:
        entry: The shard, as if it were the only one.
        counts: Part name → number of parts and their bytes.
        key_hash: Hashes of the keys, ascending, shape (n,).
        key_order: The sample of each hash, shape (n,).
    """

    entry: ShardEntry
    sizes: dict[str, IntArray]
    counts: dict[str, tuple[int, int]]
    key_hash: npt.NDArray[np.uint64]
    key_order: IntArray
    part_sets: PartSets


class UnpreparedDataset(TarDataset):
    """Tar shards without ``.nv-meta``, whose samples a scan of the headers has located: no split, columns or types.

    Args:
        complete: These are all samples of the shards.
        damaged: The errors of shards that cannot be scanned, whose samples are missing.
    """

    kind = "unprepared tar files"
    index: TarIndex  # type: ignore[assignment] # an index in memory has no columns

    def __init__(
        self, tars: TarFolder, index: TarIndex, *, complete: bool, damaged: tuple[EnergonError, ...] = ()
    ) -> None:
        counts = {shard.name: shard.samples for shard in index.shards}
        documents = NoDocuments(DatasetRef(tars.path), tars.storage, counts, lambda: index)
        super().__init__(documents, counts, cast("Any", lambda: index))
        self.complete = complete
        self.damaged = damaged

    def open_shard(self, shard: ShardEntry) -> ReadableFile:
        return self.storage.open(shard.name, replace(shard.info, is_indexed=False))


def scan_first_samples(tars: TarFolder, samples: int) -> UnpreparedDataset:
    """Scan no more headers than needed for some first samples, if there are as many."""
    entries: list[ShardEntry] = []
    loaded: dict[str, ShardIndex] = {}
    damaged: list[EnergonError] = []
    count, is_complete = 0, True
    # Scan shards until there are enough samples, and note damaged ones.
    for shard in tars.shards:
        if count >= samples:
            is_complete = False
            break
        try:
            index = index_shard(tars.storage, shard.name, max_samples=samples - count, info=shard)
        except EnergonError as error:
            damaged.append(error)
            continue
        entry = msgspec.structs.replace(_entry(shard, index), first_sample=count)
        entries.append(entry)
        loaded[shard.name] = index
        count += entry.samples
        is_complete = is_complete and index.is_complete
    if damaged and not count:
        raise damaged[0]
    tar_index = TarIndex(tars.storage, Layout.of_shards(entries), path=tars.path, loaded=loaded)
    return UnpreparedDataset(tars, tar_index, complete=is_complete, damaged=tuple(damaged))


def scan_tars(
    tars: TarFolder, *, workers: int = 1, on_progress: Callable[[int, int], None] | None = None
) -> UnpreparedDataset:
    """Scan the headers of all shards.

    Args:
        on_progress: Called after each shard with the numbers of scanned shards and of all shards.
    """
    summaries: dict[int, ShardSummary | EnergonError] = {}
    # Workers end in any order.
    with closing(Engine(workers=workers).run(partial(_scan, tars.storage), tars.shards)) as results:
        for position, summary in results:
            summaries[position] = summary
            if on_progress is not None:
                on_progress(len(summaries), len(tars.shards))
    in_order = [summaries[position] for position in range(len(tars.shards))]
    return UnpreparedDataset(
        tars,
        join_summaries(tars, [each for each in in_order if isinstance(each, ShardSummary)]),
        complete=True,
        damaged=tuple(each for each in in_order if isinstance(each, EnergonError)),
    )


def _scan(storage: Storage, shard: FileInfo) -> ShardSummary | EnergonError:
    try:
        return summarize_shard(shard, index_shard(storage, shard.name, info=shard))
    except EnergonError as error:
        return error


def summarize_shard(shard: FileInfo, index: ShardIndex) -> ShardSummary:
    """Summarize the index of a shard."""
    sizes: dict[str, IntArray] = {}
    counts: dict[str, tuple[int, int]] = {}
    for position, name in enumerate(index.part_names):
        of_part = index.part_size[index.part_name == position]
        counts[name] = (len(of_part), int(of_part.sum()))
        sizes[name] = of_part[:: max(1, len(of_part) // _MAX_SIZES)]
    counter = PartSetCounter()
    counter.add(index.part_ends, index.part_name)
    return ShardSummary(
        entry=_entry(shard, index),
        sizes=sizes,
        counts=counts,
        key_hash=index.key_hash,
        key_order=index.key_order,
        part_sets=counter.finish(index.part_names, lambda sample: f"{shard.name}/{index.key(sample)}"),
    )


def _entry(shard: FileInfo, index: ShardIndex) -> ShardEntry:
    samples = len(index) - (not index.is_complete)  # the last sample of a scan that ended early may lack parts
    return ShardEntry.of_file(shard, samples=samples, first_sample=0, **scan_facts(index))


def join_summaries(tars: TarFolder, summaries: Sequence[ShardSummary]) -> TarIndex:
    """Return the index of scanned shards, in their order."""
    entries: list[ShardEntry] = []
    hashes, samples = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    first = 0
    # Number the samples of all shards one after another.
    for summary in summaries:
        entries.append(msgspec.structs.replace(summary.entry, first_sample=first))
        hashes.append(summary.key_hash)
        samples.append((summary.key_order + first).astype(np.uint64))
        first += summary.entry.samples
    # Sort the keys of all shards by hash, and count the hashes that repeat.
    key_hash, key_sample = np.concatenate(hashes), np.concatenate(samples)
    order = np.lexsort((key_sample, key_hash))
    key_hash, key_sample = key_hash[order], key_sample[order]
    duplicate_keys = int((key_hash[1:] == key_hash[:-1]).sum())
    layout = Layout.of_shards(entries, _part_stats(summaries), duplicate_keys=duplicate_keys)
    return TarIndex(
        tars.storage,
        layout,
        path=tars.path,
        key_hash=key_hash,
        key_sample=key_sample,
        part_sets=join_part_sets(summary.part_sets for summary in summaries),
    )


def _part_stats(summaries: Sequence[ShardSummary]) -> Iterable[PartStats]:
    for name in sorted({name for summary in summaries for name in summary.counts}):
        counts = [summary.counts[name] for summary in summaries if name in summary.counts]
        sizes = np.concatenate([summary.sizes[name] for summary in summaries if name in summary.sizes])
        middle = (len(sizes) - 1) // 2
        yield PartStats(
            name=name,
            parts=sum(count for count, _ in counts),
            total_bytes=sum(total for _, total in counts),
            median_bytes=int(np.partition(sizes, middle)[middle]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TarFolder:
    """The tar shards of a folder that is not prepared, or one tar file.

    Attributes:
        shards: The shards, in the order that a prepare gives them.
        compressed: Compressed tar files of the folder, which cannot be shards.
    """

    path: str
    storage: Storage
    shards: tuple[FileInfo, ...]
    is_file: bool
    compressed: tuple[str, ...] = ()

    @property
    def not_prepared(self) -> StorageError:
        if self.is_file:
            folder = os.path.dirname(self.path) or "."
            hint = f"give its folder: {folder}" if is_prepared(self.storage) else command_for_folder(folder)
            return StorageError("a single tar file is not a dataset", path=self.path, hint=hint)
        return StorageError(
            "this folder is not a prepared dataset: it has no .nv-meta/.info.json",
            path=self.storage.path(""),
            hint=f"run: energon prepare {quoted(self.path)}",
        )


def find_tars(path: str) -> TarFolder:
    """Find the tar shards that a path names: a tar file, or a folder that is not prepared."""
    if is_tar_file(path):
        storage, name = open_parent(path)
        return TarFolder(path=path, storage=storage, shards=(storage.stat(name),), is_file=True)
    storage = open_storage(path)
    list_once(storage, "")
    check_finished(storage)
    search = find_shards(storage)
    # Files of other formats have no headers to scan.
    if search.kind.is_file:
        first = os.path.join(path, search.shards[0].name)
        raise StorageError(
            f"this folder is not prepared: it has {count_text(count_extensions(search.files))}",
            path=storage.path(""),
            hint=f"{command_for_folder(path)}; a file of them is a dataset by itself, too: {first}",
        )
    return TarFolder(path=path, storage=storage, shards=search.shards, is_file=False, compressed=search.compressed)


def with_index(
    ref: DatasetRef,
    stack: ExitStack,
    on_progress: ProgressCallback | None = None,
    *,
    keys: Sequence[str] = (),
) -> DatasetRef:
    """Index tar shards that are not prepared in a temporary folder; nothing is written next to them.

    Args:
        on_progress: Called after each shard.
        keys: If each of these keys names its shard, only these shards are indexed.

    Returns:
        The folder of the shards, with the index as its meta folder; the same reference to other data.
    """
    if kind_at(ref) != "unprepared tar files":
        return ref
    index = stack.enter_context(tempfile.TemporaryDirectory(prefix=TEMPORARY_INDEX))
    return ref.moved(index_tars(ref.path, index, on_progress, keys=keys), index, is_temporary=True)


def index_tars(path: str, index: str, on_progress: ProgressCallback | None = None, *, keys: Sequence[str] = ()) -> str:
    """Index tar shards in the empty folder ``index``, as :func:`with_index`; return the shards' folder."""
    from ...prepare.run import run_prepare  # most who ask for shards without an index never prepare

    tars = find_tars(path)
    # Find the shards that keys name; all shards are needed if a key names none.
    folder, names = path, {shard.name for shard in tars.shards for key in keys if key.startswith(f"{shard.name}/")}
    if tars.is_file:
        storage, name = open_parent(path)
        folder, names = storage.path(""), {name}
    elif not all(any(key.startswith(f"{name}/") for name in names) for key in keys):
        names = set()
    # Exclude the other shards from the prepare.
    exclude = f"^(?!({'|'.join(map(re.escape, sorted(names)))})$)" if names else None
    run_prepare(
        PreparePlan(path=folder, workers=usable_cores(), exclude=exclude, meta_folder=index), on_progress=on_progress
    )
    return folder


_MAX_LOADED = 16  # shards whose parts are kept in memory


class TarIndex(AbstractIndex):
    """The samples of tar shards. The headers of a shard are scanned again when it is used, for the last shards used.

    Args:
        key_hash: Hashes of all keys, ascending, shape (n,); empty if duplicates were not counted.
        key_sample: The sample of each hash, shape (n,).
        part_sets: The table of part sets; None if they were not counted.
    """

    def __init__(
        self,
        storage: Storage,
        layout: Layout,
        *,
        path: str,
        loaded: Mapping[str, ShardIndex] | None = None,
        key_hash: npt.NDArray[np.uint64] | None = None,
        key_sample: npt.NDArray[np.uint64] | None = None,
        part_sets: PartSets | None = None,
    ) -> None:
        super().__init__("", layout, path=path)
        self._part_sets = part_sets or PartSets(sets=(), samples=0)
        self.key_hash = np.empty(0, np.uint64) if key_hash is None else key_hash
        self.key_sample = np.empty(0, np.uint64) if key_sample is None else key_sample
        self._storage = storage
        self._kept = dict(loaded or {})
        self._recent: OrderedDict[str, ShardIndex] = OrderedDict()

    def _load(self, shard: ShardEntry) -> ShardIndex:
        index = self._kept.get(shard.name)
        if index is None:
            index = self._recent.pop(shard.name, None) or index_shard(self._storage, shard.name)
            self._recent[shard.name] = index
            if len(self._recent) > _MAX_LOADED:
                self._recent.popitem(last=False)
        return index

    def _row(self, sample: int) -> tuple[ShardIndex, int]:
        shard = self.shard_of(sample)
        return self._load(shard), sample - shard.first_sample

    @property
    def part_sets(self) -> PartSets:
        return self._part_sets

    def key(self, sample: int) -> str:
        shard, row = self._row(sample)
        return decode_name(_key(shard, row))

    def parts(self, sample: int) -> list[PartLocation]:
        shard, row = self._row(sample)
        rows = slice(int(shard.part_ends[row - 1]) if row else 0, int(shard.part_ends[row]))
        columns = (shard.part_name[rows], shard.part_offset[rows], shard.part_size[rows])
        return [
            PartLocation(shard.part_names[name], offset, size)
            for name, offset, size in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def find(self, key: str) -> list[int]:
        """Return the samples of a bare key or of ``<shard>/<key>``, ascending; empty for an unknown key."""
        return [
            sample
            for shard in self.shards
            for bare in dict.fromkeys((key, key.removeprefix(f"{shard.name}/")))
            for sample in self._find(shard, bare)
        ]

    def _find(self, shard: ShardEntry, key: str) -> list[int]:
        try:
            wanted = encode_name(key)
        except UnicodeEncodeError:
            return []  # a lone surrogate, which no bytes encode
        index = self._load(shard)
        position = bisect_left(index.key_hash, hash_key(wanted))
        row = int(index.key_order[position]) if position < len(index) else shard.samples
        return [shard.first_sample + row] if row < shard.samples and _key(index, row) == wanted else []


def _key(shard: ShardIndex, row: int) -> bytes:
    return shard.key_bytes[int(shard.key_ends[row - 1]) if row else 0 : int(shard.key_ends[row])].tobytes()
