"""Scan the headers of tar shards that are not prepared: the first samples, or all shards in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from ...accounting.part_sets import PartSetCounter, PartSets, join_part_sets
from ...errors import EnergonError
from ...format.dataset_ref import DatasetRef
from ...format.index.layout import Layout, PartStats, ShardEntry
from ...format.index.shard_index import ShardIndex, index_shard
from ...format.worker_pool import run_in_workers
from ...storage import FileInfo, ReadableFile, Storage
from ..dataset import NoDocuments
from ..tar import TarDataset
from .tar_index import TarFolder, TarIndex

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
    sizes: dict[str, npt.NDArray[np.int64]]
    counts: dict[str, tuple[int, int]]
    key_hash: npt.NDArray[np.uint64]
    key_order: npt.NDArray[np.int64]
    part_sets: PartSets


class UnpreparedDataset(TarDataset):
    """Tar shards without ``.nv-meta``, whose samples a scan of the headers has located: no split, columns or types.

    Args:
        complete: These are all samples of the shards.
        damaged: The errors of shards that cannot be scanned, whose samples are missing.
    """

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
    """Scan no more headers than needed for the first samples.

    Args:
        samples: Number of samples to find at least, if there are as many.
    """
    entries: list[ShardEntry] = []
    loaded: dict[str, ShardIndex] = {}
    damaged: list[EnergonError] = []
    found, is_complete = 0, True
    for shard in tars.shards:
        if found >= samples:
            is_complete = False
            break
        try:
            index = index_shard(tars.storage, shard.name, max_samples=samples - found, info=shard)
        except EnergonError as error:
            damaged.append(error)
            continue
        entry = msgspec.structs.replace(_entry(shard, index), first_sample=found)
        entries.append(entry)
        loaded[shard.name] = index
        found += entry.samples
        is_complete = is_complete and index.is_complete
    if damaged and not found:
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
    found: dict[int, ShardSummary | EnergonError] = {}
    with closing(run_in_workers(partial(_scan, tars.storage), tars.shards, workers=workers)) as results:
        for number, summary in results:
            found[number] = summary
            if on_progress is not None:
                on_progress(len(found), len(tars.shards))
    in_order = [found[number] for number in range(len(tars.shards))]
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
    sizes: dict[str, npt.NDArray[np.int64]] = {}
    counts: dict[str, tuple[int, int]] = {}
    for number, name in enumerate(index.part_names):
        of_part = index.part_size[index.part_name == number]
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
    return ShardEntry.of_file(shard, samples=samples, first_sample=0, **index.facts)


def join_summaries(tars: TarFolder, summaries: Sequence[ShardSummary]) -> TarIndex:
    """Return the index of scanned shards, in their order."""
    entries: list[ShardEntry] = []
    hashes, samples = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    first = 0
    for summary in summaries:
        entries.append(msgspec.structs.replace(summary.entry, first_sample=first))
        hashes.append(summary.key_hash)
        samples.append((summary.key_order + first).astype(np.uint64))
        first += summary.entry.samples
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
