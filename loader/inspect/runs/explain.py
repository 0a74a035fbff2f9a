"""Describe a training run before it starts: what it reads, how often, and how well that is shuffled."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...dataset.packed_numbers import count_packed
from ...errors import ConfigError, plural
from ...order import DealtOrder, EditedOrder, RepeatedOrder, groups_of_block, possible_ranks
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.read_ahead import READ_AHEAD_BYTES
from ...pipeline.reading.source import Source
from ...storage.node_cache.private_folder import cache_settings
from ..text import format_percent
from .planned_run import PlannedRun
from .reads import StorageFacts, files_of, measure_shuffling, storage_facts, storage_of
from .volume_mix import mean_of_column

_POOR_SHUFFLE = 0.5  # mixing below which neighbours stay close
_LARGE_SHARD_SHARE = 2.0  # relative to a random order
_MANY_EPOCHS = 10.0  # passes over a dataset
_AMOUNTS = frozenset({"tokens", "seconds", "duration"})
_PREFETCHED_BATCHES = 2  # of each worker, as torch's DataLoader does


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinding:
    """Something about a run that is probably not intended.

    Attributes:
        kind: ``"repeated leaf"``, ``"never reached"``, ``"many epochs"``, ``"few samples"``, ``"starved split"``,
            ``"idle workers"`` or ``"poor shuffle"``.
    """

    kind: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """One dataset of a run.

    Attributes:
        place: Its place in the metadataset; empty without one.
        samples: Number of its samples, excluded ones included.
        excluded: Number of its excluded samples.
        share_asked: Its weight, as a share of all: of the samples, or of the volume below a ``blend_weight_unit``. If
            weights change, the mean over the steps of the run.
        used: Number of its samples that the run uses, repetitions included.
        epochs: ``used / (samples - excluded)``.
        exhausted_at: The first step at which all its samples have been used once, to within a block of the blend; None
            if the run ends before.
        bytes_read: Bytes of its samples that the run reads, by the average size.
        storage: ``"local"``, or the protocol of its URL.
        amounts: For each of its columns ``tokens``, ``seconds`` and ``duration``, the sum over the samples that the run
            uses, by the mean of the known values.
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
    amounts: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run, as its arguments define it.

    Attributes:
        ranks: The numbers of ranks on which a state of the run can be restored, with any number of workers.
        read_ahead_bytes: Memory for bytes that are fetched ahead, on each rank; 0 if all datasets are local.
        queue_bytes: Memory for batches that wait, on each rank, by the average size of undecoded samples.
        buffer_bytes: Memory for samples that wait in packing buffers, on each rank, by the average size of undecoded
            samples; 0 without packing.
        cache_bytes: Disk space of a node for its cache of remote shards; 0 without one.
        storages: What the run reads from each storage.
        shard_share: Expected share of the most frequent shard in a micro-batch, of the probed ones.
        random_shard_share: Expected share if each sample was drawn at random, with the weights of the mix.
        mixing: Mean distance in the stored order between neighbours of a lane's stream; 1 as in a random permutation,
            0 in the stored order.
        notes: How the shares are to be read, if weights are shares of volumes; and the blocks of row groups in which
            tables are shuffled.
        stretches: The parts of the run between changes of its weights; empty if they do not change.
    """

    steps: int
    samples: int
    sources: tuple[SourceFacts, ...]
    lanes: int
    ranks: tuple[int, ...]
    batch_samples: int
    read_ahead_bytes: int
    queue_bytes: int
    buffer_bytes: int
    cache_bytes: int
    storages: tuple[StorageFacts, ...]
    shard_share: float
    largest_shard_share: float
    random_shard_share: float
    mixing: float
    findings: tuple[RunFinding, ...]
    notes: tuple[str, ...] = ()
    stretches: tuple[StretchFacts, ...] = ()


def explain_run(run: PlannedRun, steps: int) -> RunFacts:
    """Describe a run by counts of its order; no sample is read."""
    # Count the samples of each dataset, and compare their shares with the weights.
    used = _used(run, steps)
    stretches = scheduled_stretches(run, steps)
    if stretches:
        weights = mean_shares(stretches)
    else:
        weights = np.array(run.plan.weights if run.volume_mix is None else run.volume_mix.volume_shares)
    shares = (weights / weights.sum()).tolist()
    facts = tuple(
        _source_facts(run, source_index, int(used[source_index]), steps, share_asked=share, stretches=stretches)
        for source_index, share in enumerate(shares)
    )
    # Measure the shuffling, and estimate memory by the largest samples.
    shuffling, reads_per_sample = measure_shuffling(run)
    sample_bytes = max((source.folder.sample_bytes for source in run.sources), default=0)
    workers = max(1, run.request.num_workers)
    is_remote = any(dataset.storage != "local" for dataset in facts)
    run_facts = RunFacts(
        steps=steps,
        samples=int(used.sum()),
        sources=facts,
        lanes=run.lanes,
        ranks=tuple(possible_ranks(run.lanes)),
        batch_samples=run.batch_size * run.request.world_size,
        read_ahead_bytes=workers * READ_AHEAD_BYTES if is_remote else 0,
        queue_bytes=workers * _PREFETCHED_BATCHES * run.batch_size * sample_bytes,
        buffer_bytes=run.lanes // run.request.world_size * (run.request.packing_buffer_size or 0) * sample_bytes,
        cache_bytes=_cache_bytes() if is_remote else 0,
        storages=storage_facts(run, used, reads_per_sample),
        **shuffling,
        findings=(),
        notes=(*(() if run.volume_mix is None else run.volume_mix.notes()), *_notes_of_tables(run)),
        stretches=stretches,
    )
    # Look for what is probably not intended.
    return replace(run_facts, findings=tuple(_findings(run, run_facts)))


def _notes_of_tables(run: PlannedRun) -> Iterator[str]:
    """Yield how far the samples of tables are shuffled, whose row groups are decoded as a whole."""
    for source, table in zip(run.sources, run.plan.tables(run.sources), strict=False):
        if table is not None:
            size = groups_of_block(table, run.lanes)
            groups = len(table.ends)
            samples = plural(round(size * source.samples / groups), "sample")
            yield (
                f"{source.request.ref.path} is shuffled by blocks of {plural(size, 'row group')} of {groups:,}, about "
                f"{samples}: a micro-batch comes from one block; slices and the shuffle buffer have no effect"
            )


def _cache_bytes() -> int:
    # The cache is off without a folder.
    settings = cache_settings()
    if settings is None:
        return 0
    if settings.limit_bytes is not None:
        return settings.limit_bytes
    # By default it takes half of the disk; its folder may not exist yet.
    folder = Path(settings.folder)
    return shutil.disk_usage(next(parent for parent in (folder, *folder.parents) if parent.exists())).total // 2


def _used(run: PlannedRun, steps: int) -> IntArray:
    """Return the number of samples of each source that the run uses."""
    # A single dataset gives every sample.
    batches, size = steps * run.request.world_size, run.batch_size
    if len(run.sources) == 1:
        return np.array([batches * size])
    total = np.zeros(len(run.sources), np.int64)
    # Count by the order, without locating samples.
    order = run.order
    positions = run.positions(batches)
    if isinstance(order, RepeatedOrder):
        total += order.count(positions)
    elif isinstance(order, EditedOrder):
        total += order.count(positions[None])[0]
    else:  # an order that is not shuffled, in turns
        for lane, stop in enumerate(positions.tolist()):
            total += np.bincount(run.stream(lane).locate(0, stop)[0], minlength=len(total))
    return total


def _source_facts(
    run: PlannedRun, source_index: int, used: int, steps: int, *, share_asked: float, stretches: Sequence[StretchFacts]
) -> SourceFacts:
    # Find the step at which the dataset is used up.
    source = run.sources[source_index]
    samples = run.batch_size * run.request.world_size
    # The dataset is used up when its share of the samples is as many as it has; weights that change are counted by
    # stretch.
    share = used / max(1, steps * samples)
    exhausted = None if used < source.samples else int(np.ceil(source.samples / (share * samples)))
    if exhausted is not None and stretches:
        exhausted = step_of_count(stretches, source_index, source.samples)
    request, excluded = source.request, count_packed(source.turns.left_out)
    # Describe the dataset.
    return SourceFacts(
        path=request.ref.path,
        place=getattr(source, "place", ""),
        split_part=request.split_part,
        samples=source.samples + excluded,
        excluded=excluded,
        share_asked=share_asked,
        share_got=share,
        used=used,
        epochs=used / source.samples,
        exhausted_at=exhausted,
        bytes_read=used * source.folder.sample_bytes,
        shards=len(files_of(source)),
        storage=storage_of(source),
        amounts=_amounts(source, used),
    )


def _amounts(source: Source, used: int) -> dict[str, float]:
    if not isinstance(source, DatasetSource):
        return {}
    means = {
        name: mean_of_column(source, name) for name in _AMOUNTS.intersection(source.folder.documents.column_names())
    }
    return {name: mean * used for name, mean in means.items() if mean is not None}


def _findings(run: PlannedRun, facts: RunFacts) -> Iterator[RunFinding]:
    # Faults of the mix and of the workers.
    for message in run.repeated_leaves:
        yield RunFinding(kind="repeated leaf", message=message, hint="remove one, or give them separate subsets")
    hosted = run.lanes // run.request.world_size
    if run.request.num_workers > hosted:
        yield RunFinding(
            kind="idle workers",
            message=f"{plural(run.request.num_workers, 'worker')} for {plural(hosted, 'lane')} a rank: some are idle",
            hint="use fewer workers, or begin the run with more lanes: WorkerConfig(lanes=…)",
        )
    # Faults of each dataset.
    for source in facts.sources:
        kept = source.samples - source.excluded
        if not source.used:
            yield RunFinding(
                kind="never reached",
                message=f"no sample of {source.path} comes in {plural(facts.steps, 'step')}",
                hint="raise its weight, or remove it",
            )
        if source.epochs > _MANY_EPOCHS:
            yield RunFinding(
                kind="many epochs",
                message=f"each of the {plural(kept, 'sample')} of {source.path} comes {source.epochs:,.1f} times",
                hint="lower its weight, or add data",
            )
        per_step = source.share_got * facts.batch_samples
        if kept < per_step:
            yield RunFinding(
                kind="starved split",
                message=f"split part {source.split_part!r} of {source.path} has {plural(kept, 'sample')}, "
                f"and a step uses {per_step:,.0f} of them: the same come several times in one step",
                hint="split again with a larger share, name another part, or lower its weight",
            )
        if kept < run.lanes:
            yield RunFinding(
                kind="few samples",
                message=f"{source.path} has {plural(kept, 'sample')} for {plural(run.lanes, 'lane')}, so a rank"
                " repeats some of them before another rank had all",
                hint="use fewer ranks and workers, or accept it for a small dataset",
            )
    # Poor shuffling.
    causes = []
    if facts.mixing < _POOR_SHUFFLE:
        causes.append(f"neighbours are close in the stored order: mixing {facts.mixing:.2f}, where 1 is random")
    if facts.shard_share > _LARGE_SHARD_SHARE * facts.random_shard_share:
        causes.append(
            f"a shard has {format_percent(facts.shard_share)} of a micro-batch, where "
            f"{format_percent(facts.random_shard_share)} is random"
        )
    if causes:
        yield RunFinding(
            kind="poor shuffle",
            message="; ".join(causes),
            hint="write the table with smaller row groups, or its rows in random order"
            if run.plan.tables(run.sources)
            else "raise shuffle_buffer_size, which costs no memory, or lower max_samples_per_sequence",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchFacts:
    """A part of a run whose weights change, in which they are constant.

    Attributes:
        steps: The first step, and the one after the last; fractions if the weights change within a step.
        shares_asked: For each dataset, its weight as a share of all: of the samples, or of the volume below a
            ``blend_weight_unit``.
        used: For each dataset, its samples in the stretch, those that the split excludes included.
    """

    steps: tuple[float, float]
    shares_asked: tuple[float, ...]
    used: tuple[int, ...]

    @property
    def shares_got(self) -> tuple[float, ...]:
        """For each dataset, its share of the samples of the stretch."""
        return tuple(used / max(1, sum(self.used)) for used in self.used)


def scheduled_stretches(run: PlannedRun, steps: int) -> tuple[StretchFacts, ...]:
    """Return the stretches of the first steps of a run; none if its weights do not change."""
    if run.plan.schedule is None:
        return ()
    # Find the stretches that begin within the run.
    schedule = run.plan.schedule.in_samples
    step_samples = run.batch_size * run.request.world_size
    end = steps * step_samples
    starts = [start for start in schedule.starts if start < end]
    # Count the samples of each dataset before each start, and at the end.
    if isinstance(run.order, EditedOrder):
        by_lane = np.array([schedule.lane_starts(lane, run.lanes)[: len(starts)] for lane in range(run.lanes)])
        ends = run.positions(steps * run.request.world_size)
        # Of a short run, some lanes end before they reach the later stretches.
        counts = run.order.count(np.vstack([np.minimum(by_lane.T, ends), ends]))
    else:
        counts = _count_dealt(run, [*starts, end])
    # Compare the shares in each stretch.
    asked = schedule.weights if run.volume_mix is None else run.volume_mix.volumes_of_stretches
    stretches = []
    for row, (start, stop) in enumerate(pairwise([*starts, end])):
        weights, got = np.array(asked[row]), counts[row + 1] - counts[row]
        stretches.append(
            StretchFacts(
                steps=(start / step_samples, stop / step_samples),
                shares_asked=tuple((weights / weights.sum()).tolist()),
                used=tuple(got.tolist()),
            )
        )
    return tuple(stretches)


def step_of_count(stretches: Sequence[StretchFacts], source: int, count: int) -> int:
    """Return the number of steps in which a dataset has so many samples, to within a block of the blend.

    Args:
        count: The samples, those that the split excludes included.
    """
    before = 0
    for stretch in stretches:
        # Within a stretch, samples of a dataset come at a constant rate.
        start, stop = stretch.steps
        if stretch.used[source] and before + stretch.used[source] >= count:
            return ceil(start + (count - before) / stretch.used[source] * (stop - start))
        before += stretch.used[source]
    return ceil(stretches[-1].steps[1])


def _count_dealt(run: PlannedRun, samples: Sequence[int]) -> IntArray:
    """Return the samples of each dataset among the first ones of a run that is not shuffled, for several numbers."""
    order = run.order
    if not isinstance(order, DealtOrder) or not isinstance(order.inner, EditedOrder):
        raise ConfigError("expected the order of a run whose weights change", at=run.request.path)
    return order.inner.count(np.array(samples)[:, None])


def mean_shares(stretches: Sequence[StretchFacts]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the mean share of each dataset by its weights, over all steps of a run."""
    # A stretch counts as long as it lasts.
    lengths = [stop - start for start, stop in (stretch.steps for stretch in stretches)]
    return np.average([stretch.shares_asked for stretch in stretches], axis=0, weights=lengths)
