"""Describe a training run before it starts: what it reads, how often, and how well that is shuffled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...arrays import IntArray
from ...format.documents.providers import is_metadataset
from ...metadataset.plans.plan_leaves import plan_splits
from ...metadataset.plans.plan_node import find_repeated_leaves
from ...order import BlendedLane, possible_ranks
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.read_ahead import READ_AHEAD_BYTES
from ...storage import split_url
from .planned_run import PlannedRun

__all__ = ["Finding", "RunFacts", "SourceFacts", "explain_run"]

_PROBED_BATCHES = 256
_MAX_PROBED_SAMPLES = 1 << 14
_MAX_LOCATED = 5_000_000
_POOR_SHUFFLE = 0.5
_MANY_EPOCHS = 10.0
_PREFETCHED_BATCHES = 2  # of each worker, as torch's DataLoader does


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a run that is probably not intended.

    Attributes:
        kind: ``"repeated leaf"``, ``"never reached"``, ``"many epochs"``, ``"few samples"`` or ``"poor shuffle"``.
        message: What was found.
        hint: What to change.
    """

    kind: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """One dataset of a run.

    Attributes:
        path: Its path.
        place: Its place in the metadataset; empty without one.
        split_part: Part of its split.
        samples: Number of its samples, excluded ones included.
        excluded: Number of its excluded samples.
        share_asked: Its weight, as a share of all.
        share_got: Its share of the samples of the run.
        used: Number of its samples that the run uses, repetitions included.
        epochs: ``used / samples``.
        exhausted_at: The first step at which all its samples have been used once, to within a block of the blend; None
            if the run ends before.
        bytes_read: Bytes of its samples that the run reads, by the average size.
        shards: Number of its shards.
        storage: ``"local"``, or the protocol of its URL.
    """

    path: str
    place: str
    split_part: str
    samples: int
    excluded: int
    share_asked: float
    share_got: float
    used: int
    epochs: float
    exhausted_at: int | None
    bytes_read: int
    shards: int
    storage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run, as its arguments define it.

    Attributes:
        steps: Number of steps that are described.
        samples: Number of samples that they use.
        sources: The datasets, in the order of the mix.
        lanes: Number of lanes.
        ranks: The numbers of ranks on which a state of the run can be restored.
        batch_samples: Samples of a step on all ranks.
        read_ahead_bytes: Memory for bytes that are fetched ahead, on each rank; 0 if all datasets are local.
        queue_bytes: Memory for batches that wait, on each rank, by the average size of undecoded samples.
        shard_share: Expected share of the most frequent shard in a micro-batch, of the probed ones.
        largest_shard_share: The largest such share.
        mixing: Mean distance in the stored order between neighbours of a lane's stream, relative to that of a random
            permutation: 1 is as random, 0 is the stored order.
        findings: What is probably not intended.
    """

    steps: int
    samples: int
    sources: tuple[SourceFacts, ...]
    lanes: int
    ranks: tuple[int, ...]
    batch_samples: int
    read_ahead_bytes: int
    queue_bytes: int
    shard_share: float
    largest_shard_share: float
    mixing: float
    findings: tuple[Finding, ...]


def explain_run(run: PlannedRun, steps: int) -> RunFacts:
    """Describe a run by counts of its order; no sample is read.

    Args:
        run: The run.
        steps: Number of its steps.

    Raises:
        ConfigError: A document is invalid.
        FormatError: An index is damaged.
    """
    used = _used(run, steps)
    weights = np.array(run.plan.weights)
    facts = tuple(_source_facts(run, number, int(used[number]), weights, steps) for number in range(len(run.sources)))
    shard_share, largest, mixing = _shuffle(run)
    request = run.request
    sample_bytes = max((source.sample_bytes for source in run.sources), default=0)
    workers = max(1, request.num_workers)
    found = RunFacts(
        steps=steps,
        samples=int(used.sum()),
        sources=facts,
        lanes=run.lanes,
        ranks=tuple(possible_ranks(run.lanes)),
        batch_samples=run.batch_size * request.world_size,
        read_ahead_bytes=workers * READ_AHEAD_BYTES if any(one.storage != "local" for one in facts) else 0,
        queue_bytes=workers * _PREFETCHED_BATCHES * run.batch_size * sample_bytes,
        shard_share=shard_share,
        largest_shard_share=largest,
        mixing=mixing,
        findings=(),
    )
    return RunFacts(
        **{name: getattr(found, name) for name in found.__dataclass_fields__ if name != "findings"},
        findings=tuple(_findings(run, found)),
    )


def _used(run: PlannedRun, steps: int) -> IntArray:
    """Return the number of samples of each source that the run uses.

    If the split excludes samples, each sample of a short run is located; in a long one, excluded samples are counted by
    their share of each source.
    """
    batches, size = steps * run.request.world_size, run.batch_size
    if len(run.sources) == 1:
        return np.array([batches * size])
    total = np.zeros(len(run.sources), np.int64)
    if run.skips and batches * size <= _MAX_LOCATED:
        for lane in range(run.lanes):
            for source, _, _ in run.pieces(lane, run.batches_of_lane(lane, batches)):
                total += np.bincount(source, minlength=len(total))
        return total
    for lane in range(run.lanes):
        stream = run.stream(lane)
        positions = run.batches_of_lane(lane, batches) * size
        if isinstance(stream, BlendedLane):
            total += stream.counts(positions)
        else:  # an order that is not shuffled, in turns
            total += np.bincount(stream.locate(0, positions)[0], minlength=len(total))
    if run.skips:
        kept = total * np.array([1 - min(1.0, len(one.excluded) / one.samples) for one in run.sources])
        total = np.rint(kept * (batches * size / max(1.0, kept.sum()))).astype(np.int64)
    return total


def _source_facts(
    run: PlannedRun, number: int, used: int, weights: np.ndarray[tuple[int], np.dtype[np.float64]], steps: int
) -> SourceFacts:
    source = run.sources[number]
    samples = run.batch_size * run.request.world_size
    share = used / max(1, steps * samples)
    exhausted = None if used < source.samples else int(np.ceil(source.samples / (share * samples)))
    request = source.request
    return SourceFacts(
        path=request.path,
        place=getattr(source, "place", ""),
        split_part=request.split_part,
        samples=source.samples,
        excluded=len(source.excluded),
        share_asked=float(weights[number] / weights.sum()),
        share_got=share,
        used=used,
        epochs=used / source.samples,
        exhausted_at=exhausted,
        bytes_read=used * source.sample_bytes,
        shards=len(source.shard_names) if isinstance(source, DatasetSource) else 1,
        storage=split_url(request.path)[0] or "local",
    )


def _shuffle(run: PlannedRun) -> tuple[float, float, float]:
    """Return the mean and the largest share of a shard in a micro-batch, and the mixing, of some micro-batches."""
    size = run.batch_size
    count = max(2, min(_PROBED_BATCHES, _MAX_PROBED_SAMPLES // size))
    lanes = sorted({lane * run.lanes // min(run.lanes, 16) for lane in range(min(run.lanes, 16))})
    shares, distances = [], []
    sizes = np.array([source.samples for source in run.sources])
    for lane in lanes:
        stop = max(2, count // len(lanes)) * size
        source, _, sample = run.stream(lane).locate(0, stop)
        index = run.table.index_numbers(source, sample)
        shard = _shard_numbers(run, source, index)
        for start in range(0, stop, size):
            _, counts = np.unique(shard[start : start + size], return_counts=True)
            shares.append(counts.max() / size)
        for one in np.unique(source).tolist():
            own = sample[source == one] / sizes[one]
            if len(own) > 1 and sizes[one] > 1:
                distances.append((float(np.abs(np.diff(own)).sum()), len(own) - 1))
    steps = sum(number for _, number in distances)
    mixing = 3 * sum(distance for distance, _ in distances) / steps if steps else 1.0
    return float(np.mean(shares)), float(np.max(shares)), float(mixing)


def _shard_numbers(run: PlannedRun, source: IntArray, index: IntArray) -> IntArray:
    """Return a number for each sample that is equal for samples of one shard."""
    shard = np.zeros(len(source), np.int64)
    for one in np.unique(source).tolist():
        found, own = run.sources[one], source == one
        if isinstance(found, DatasetSource):
            firsts = np.array([entry.first_sample for entry in found.folder.index.shards])
            shard[own] = np.searchsorted(firsts, index[own], side="right")
    return source * (1 << 32) + shard


def _findings(run: PlannedRun, facts: RunFacts) -> Iterator[Finding]:
    if is_metadataset(run.request.path):
        trees = plan_splits(run.request.path, split_parts=[run.request.split_part]).trees
        for message in (text for tree in trees.values() for text in find_repeated_leaves(tree)):
            yield Finding(kind="repeated leaf", message=message, hint="remove one, or give them separate subsets")
    for one in facts.sources:
        named = partial(Finding, kind="never reached")
        if not one.used:
            yield named(
                message=f"no sample of {one.path} comes in {facts.steps:,} steps",
                hint="raise its weight, or remove it",
            )
        if one.epochs > _MANY_EPOCHS:
            yield Finding(
                kind="many epochs",
                message=f"the {one.samples:,} samples of {one.path} come {one.epochs:,.1f} times each",
                hint="lower its weight, or add data",
            )
        if one.samples < run.lanes:
            yield Finding(
                kind="few samples",
                message=f"{one.path} has {one.samples:,} samples for {run.lanes:,} lanes, so a rank repeats some of "
                "them before another rank had all",
                hint="use fewer ranks and workers, or accept it for a small dataset",
            )
    if facts.mixing < _POOR_SHUFFLE:
        yield Finding(
            kind="poor shuffle",
            message=f"neighbours are close in the stored order: mixing {facts.mixing:.2f}, where 1 is random",
            hint="raise shuffle_buffer_size, which costs no memory, or lower max_samples_per_sequence",
        )
