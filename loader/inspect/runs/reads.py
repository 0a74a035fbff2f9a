"""Estimate what a run reads from each storage, and measure how well its samples are shuffled, by its first samples."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...arrays import IntArray
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.joined_source import JoinedSource
from ...pipeline.reading.source import Source
from ...storage import RequestNeeds, request_needs, split_url
from .planned_run import PlannedRun

_PROBED_BATCHES = 256  # in which shards are counted
_MAX_PROBED_SAMPLES = 1 << 14  # that are located: bounds the time
_PROBED_LANES = 16  # spread evenly over all lanes
_READ_TOGETHER = 1024  # positions of a lane


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFacts:
    """Reads of a run from one storage."""

    storage: str  # `"local"`, or the protocol of URLs
    files: int  # number of different shards that the run reads; a process opens only its own
    requests: int  # reads: neighbouring samples of a chunk count once. An estimate by the first samples
    bytes: int


def storage_of(source: Source) -> str:
    """Return the storage of a dataset: ``"local"``, or the protocol of its URL."""
    return split_url(source.request.ref.path)[0] or "local"


def storage_facts(run: PlannedRun, used: IntArray, reads_per_sample: float) -> tuple[StorageFacts, ...]:
    """Return what a run reads from each storage.

    Args:
        reads_per_sample: Reads of a sample: 1 if no two samples that are read together are neighbours.
    """
    files: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    counts: defaultdict[str, IntArray] = defaultdict(lambda: np.zeros(2, np.int64))
    for source, samples in zip(run.sources, used.tolist(), strict=True):
        storage = storage_of(source)
        files[storage].update(files_of(source)[:samples])
        counts[storage] += round(samples * reads_per_sample), samples * source.folder.sample_bytes
    return tuple(
        StorageFacts(storage=name, files=len(files[name]), requests=int(requests), bytes=int(size))
        for name, (requests, size) in sorted(counts.items())
    )


def files_of(source: Source) -> list[tuple[str, int]]:
    """Return the shards that the samples of a source are in, as paths of datasets and numbers of shards.

    Of a join, all shards of its members.
    """
    if isinstance(source, JoinedSource):
        return [
            (member.request.ref.path, shard) for member in source.members for shard in range(len(member.shard_names))
        ]
    if not isinstance(source, DatasetSource):
        return []
    # Each range of samples is in one shard; a shard with samples that take no turn has several.
    first = source.turns.ranges[1]
    if source.selection.filter is not None:
        first = source.selection.filter.numbers(first)
    return [(source.request.ref.path, shard) for shard in np.unique(_shards_at(source, first)).tolist()]


def hub_requests(sources: tuple[Source, ...], *, ranks: int, ranks_of_node: int) -> RequestNeeds | None:
    """Return the requests to the Hugging Face Hub that a run needs; None without ``hf://`` datasets."""
    files = {file for source in sources for file in files_of(source)}
    return request_needs(Counter(path for path, _ in files), nodes=-(-ranks // ranks_of_node))


def measure_shuffling(run: PlannedRun) -> tuple[dict[str, float], float]:
    """Measure the shuffling of some lanes' first micro-batches, at most 16,384 samples; none is read.

    Returns:
        The shares of shards and the mixing, as ``RunFacts`` has them, and the reads of a sample.
    """
    # Choose the lanes and their first micro-batches.
    size = run.batch_size
    count = max(2, min(_PROBED_BATCHES, _MAX_PROBED_SAMPLES // size))
    probed = min(run.lanes, _PROBED_LANES)
    lanes = sorted({lane * run.lanes // probed for lane in range(probed)})
    stop = max(2, count // len(lanes)) * size
    sizes = np.array([source.samples for source in run.sources])
    # Count equal shards, reads of neighbours and distances in the stored order.
    shares: list[float] = []
    distance, neighbours, reads = 0.0, 0, 0
    for lane in lanes:
        source, _, sample = run.stream(lane).locate(0, stop)
        index = run.table.index_numbers(source, sample)
        shard = _shard_numbers(run, source, index)
        # The most frequent shard of each micro-batch.
        shares += (_most_equal(shard.reshape(-1, size)) / size).tolist()
        # Reads: neighbours of one shard that are read together are one read.
        for start in range(0, stop, _READ_TOGETHER):
            rows = slice(start, start + _READ_TOGETHER)
            order = np.lexsort((index[rows], shard[rows]))
            step, same = np.diff(index[rows][order]), np.diff(shard[rows][order]) == 0
            reads += 1 + int((~same | (step != 1)).sum())
        # Distances between samples of one dataset that follow each other, relative to its size.
        order = np.argsort(source, kind="stable")
        relative = (sample / sizes[source])[order]
        same = (np.diff(source[order]) == 0) & (sizes[source[order]][1:] > 1)
        distance += float(np.abs(np.diff(relative))[same].sum())
        neighbours += int(same.sum())
    shuffling = {
        "shard_share": float(np.mean(shares)),
        "largest_shard_share": float(np.max(shares)),
        "random_shard_share": _random_shard_share(run, sizes, len(shares)),
        # Two random positions are a third of the whole apart on average, so that random is 1.
        "mixing": 3 * distance / neighbours if neighbours else 1.0,
    }
    return shuffling, reads / (stop * len(lanes))


def _random_shard_share(run: PlannedRun, sizes: IntArray, batches: int) -> float:
    """Return the mean share of the most frequent shard in some micro-batches of samples that are drawn at random."""
    # Draw as many micro-batches as were probed.
    numbers = np.random.default_rng(0)
    weights = np.array(run.plan.weights)
    source = numbers.choice(len(sizes), batches * run.batch_size, p=weights / weights.sum())
    index = run.table.index_numbers(source, numbers.integers(sizes[source]))
    shard = _shard_numbers(run, source, index).reshape(-1, run.batch_size)
    return float(_most_equal(shard).mean() / run.batch_size)


def _most_equal(rows: IntArray) -> IntArray:
    # Count runs of equal values in sorted rows, all rows at once.
    columns = np.sort(rows, axis=1).T
    run = most = np.ones(len(rows), np.int64)
    for before, value in pairwise(columns):
        run = np.where(value == before, run + 1, 1)
        most = np.maximum(most, run)
    return most


def _shard_numbers(run: PlannedRun, source: IntArray, index: IntArray) -> IntArray:
    # Look up the samples of each dataset together.
    shard = np.zeros(len(source), np.int64)
    order = np.argsort(source, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(source[order])) + 1):
        dataset = run.sources[int(source[rows[0]])]
        if isinstance(dataset, DatasetSource):
            shard[rows] = _shards_at(dataset, index[rows])
    # Shards of different datasets have different numbers.
    return source * (1 << 32) + shard


def _shards_at(source: DatasetSource, index: IntArray) -> IntArray:
    """Return the numbers of the shards of samples, by their numbers in the index."""
    firsts = np.array([entry.first_sample for entry in source.folder.index.shards])
    return np.searchsorted(firsts, index, side="right") - 1
