"""The statistics of a loader as a value: printed as one line, and a plain dict for loggers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from ...errors import plural
from ...pipeline.contract.rank_group import check_group, gathered
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.measuring.counts import CostSums


def with_all_ranks(stats: LoaderStats, config: WorkerConfig) -> LoaderStats:
    """Return the statistics of this rank with the waits of all ranks, which must all call this.

    Raises:
        ConfigError: There is no process group of these ranks.
    """
    wait = wait_of(stats)
    if config.world_size == 1:
        return replace(stats, ranks_waited=(wait,))
    check_group(config, "stats(gather=True)", ", or stats() without gather=True")
    # Exchange one small record each.
    waits = gathered(wait, config)
    return replace(stats, ranks_waited=tuple(sorted(waits, key=lambda rank_wait: rank_wait.rank)))


def with_all_served(stats: LoaderStats, served: Sequence[LoaderStats], config: WorkerConfig) -> LoaderStats:
    """Return statistics with the waits for all data ranks, which all processes that serve some must call.

    Args:
        served: The statistics of each data rank that this process serves.
        config: The worker config of the run, with the group of these processes.
    """
    processes = gathered([wait_of(rank_stats) for rank_stats in served], config)
    # Two processes may serve the same data rank: the waits of the first one count.
    by_rank = {wait.rank: wait for waits in reversed(processes) for wait in waits}
    return replace(stats, ranks_waited=tuple(by_rank[rank] for rank in sorted(by_rank)))


def wait_of(stats: LoaderStats) -> RankWait:
    """Return the waits of a rank."""
    return RankWait(rank=stats.rank, elapsed_s=stats.elapsed_s, waited_s=stats.waited_s, samples=stats.samples)


COUNTS = ("samples", "size_bytes", "repeats", "skipped")
"""Counts that a loader has for each dataset, and for all."""
BY_NAME = ("waited_for", "worker_s", "dropped", "sizes")
"""Sums of a loader that have names."""

_SHOWN = 4  # causes of waits in the line
_MIN_SHOWN = 0.005  # of the time


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStats:
    """Counts of one dataset.

    Attributes:
        name: Path and split part: ``/data/coco:train``.
        samples: Samples that were read, or passed over because they are excluded.
        size_bytes: Bytes of their parts that were needed.
        repeats: Those that came in an earlier epoch already.
        skipped: Those that are excluded, or that a hook skipped or failed for.
        sizes: Sums of the task encoder's ``@sample_size_metric`` by name, such as ``tokens``; extrapolated.
        costs: Planned costs next to measured ones, by name, over the samples that were measured; see
            :class:`~loader.pipeline.measuring.counts.CostSums`.
        write_again: How the column of each cost is written again, by the name of the cost.
    """

    name: str
    samples: int
    size_bytes: int
    repeats: int
    skipped: int
    sizes: Mapping[str, float] = field(default_factory=dict)
    costs: Mapping[str, CostSums] = field(default_factory=dict)
    write_again: Mapping[str, str] = field(default_factory=dict, repr=False)

    def since(self, before: SourceStats) -> SourceStats:
        counts: dict[str, Any] = {name: getattr(self, name) - getattr(before, name) for name in COUNTS}
        costs = {cost: sums.minus(before.costs.get(cost, CostSums())) for cost, sums in self.costs.items()}
        return replace(self, **counts, sizes=_less(self.sizes, before.sizes), costs=costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStats:
    """Statistics of one worker.

    Attributes:
        worker: Its number.
        batches: Micro-batches that arrived from it.
        busy_s: Seconds in which it made and packed them.
        idle_s: Seconds in which it waited for the training loop.
        waited_s: Seconds in which the training loop waited for it.
        queue: Its micro-batches that wait for the training loop.
        rss_bytes: Resident memory of its process; 0 if it has none of its own, or it has ended.
    """

    worker: int
    batches: int
    busy_s: float
    idle_s: float
    waited_s: float
    queue: int
    rss_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankWait:
    """The waits of a rank, by which the slowest one is found.

    Attributes:
        rank: The rank.
        elapsed_s: Seconds from its first iteration to its last micro-batch.
        waited_s: Seconds of these in which its training loop waited.
        samples: Samples that its workers read.
    """

    rank: int
    elapsed_s: float
    waited_s: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The comparison of new micro-batches with cached ones.

    Attributes:
        loaded_steps: Steps with new micro-batches that were measured.
        loaded_s: Their time, in seconds.
        cached_steps: Steps with cached micro-batches that were measured.
        cached_s: Their time, in seconds.
    """

    loaded_steps: int = 0
    loaded_s: float = 0.0
    cached_steps: int = 0
    cached_s: float = 0.0

    @property
    def gain(self) -> float | None:
        """The share of a step's time that a perfect loader would save, 0 or more; None before both were measured."""
        if not self.loaded_steps or not self.cached_steps or not self.loaded_s:
            return None
        loaded, cached = self.loaded_s / self.loaded_steps, self.cached_s / self.cached_steps
        return max(0.0, 1 - cached / loaded)

    def __str__(self) -> str:
        if self.gain is None:
            return "headroom: not measured yet"
        return (
            f"a perfect loader would make steps {100 * self.gain:.1f} % shorter (measured over "
            f"{plural(self.loaded_steps, 'step')} with new and {self.cached_steps} with cached micro-batches)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderStats:
    """Statistics of one rank's loader, from its first iteration, or the last restore, to the last micro-batch.

    Times of activities are extrapolated from a part of the micro-batches; the other numbers are counted. The samples
    of workers are counted when their micro-batches arrive at the rank, so they are ahead of ``steps`` by those that
    wait; at most an eighth of them is not counted yet.

    Attributes:
        rank: The rank.
        ranks: Number of ranks.
        step: Number of the next micro-batch of this rank, counted from the beginning of the run.
        steps: Micro-batches that the loader delivered.
        elapsed_s: Seconds.
        waited_s: Seconds of these in which the training loop waited for the loader.
        waited_for: ``waited_s`` by cause: ``storage``, ``decode``, the names of hooks, ``transport``, ``start`` and
            ``other``; the longest first.
        worker_s: Seconds of all workers together, by the same names, and ``idle``.
        samples: Samples that the workers read.
        size_bytes: Bytes that they read.
        repeats: Samples of a second or later epoch.
        skipped: Samples that are excluded, or that hooks skipped or failed for.
        dropped: The latter, by reason.
        sizes: Sums of the task encoder's ``@sample_size_metric`` by name, such as ``tokens``; extrapolated.
        sources: Counts by dataset, in the order of the mix.
        workers: Statistics by worker.
        queue: Micro-batches that wait for the training loop.
        queue_capacity: The most that may wait; 0 without workers.
        rss_bytes: Resident memory of this process.
        shared_bytes: Shared memory in which micro-batches travel, as far as it is mapped here.
        memory_bytes: Memory of the machine or container.
        restarts: Workers that were replaced in the run.
        quarantined: Samples that are passed over since they killed workers.
        cost_share: Estimated share of the workers' time that these statistics took.
        headroom: The comparison with cached micro-batches; None if it was not requested.
        ranks_waited: With ``gather=True``, the waits of all ranks.
        makes_own: The training loop makes the micro-batches itself: it has no workers.
        decodes: What is decoded, such as ``JPEG``; empty if it is not known.

    >>> loader = get_loader(get_val_dataset("photos", split_part="train", batch_size=2))
    >>> captions = [batch.caption for batch in loader]
    >>> stats = loader.stats()
    >>> stats.steps, stats.samples
    (2, 4)
    """

    rank: int
    ranks: int
    step: int
    steps: int
    elapsed_s: float
    waited_s: float
    waited_for: Mapping[str, float]
    worker_s: Mapping[str, float]
    samples: int
    size_bytes: int
    repeats: int
    skipped: int
    dropped: Mapping[str, int]
    sizes: Mapping[str, float]
    sources: tuple[SourceStats, ...]
    workers: tuple[WorkerStats, ...]
    queue: int
    queue_capacity: int
    rss_bytes: int
    shared_bytes: int
    memory_bytes: int
    restarts: int
    quarantined: int
    cost_share: float
    headroom: Headroom | None = None
    ranks_waited: tuple[RankWait, ...] = ()
    makes_own: bool = field(default=False, repr=False)
    decodes: str = field(default="", repr=False)

    @property
    def costs(self) -> dict[str, CostSums]:
        """Planned costs next to measured ones, by name; empty if no micro-batches are planned."""
        return sums_of_costs(self.sources)

    @property
    def waited_share(self) -> float:
        """Share of the time in which the training loop waited, in [0, 1]."""
        return self.waited_s / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples per second of this rank."""
        return self.samples / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def slowest_rank(self) -> int | None:
        """The rank whose training loop waited longest, so that the others wait for it; None unless gathered."""
        return max(self.ranks_waited, key=lambda wait: wait.waited_s).rank if self.ranks_waited else None

    @property
    def workers_rss_bytes(self) -> int:
        """Resident memory of the worker processes together; pages that they share count in each of them."""
        return sum(worker.rss_bytes for worker in self.workers)

    @property
    def own_workers(self) -> int:
        """Number of workers apart from the training loop."""
        return 0 if self.makes_own else len(self.workers)

    @property
    def running_s(self) -> float:
        """Seconds without the waits for the start of the workers."""
        return max(1e-9, self.elapsed_s - self.waited_for.get("start", 0.0))

    @property
    def suggestions(self) -> tuple[str, ...]:
        """Changes that would make the loader faster, with figures; the first one matters most."""
        return _suggestions(self)

    def since(self, before: LoaderStats | None) -> LoaderStats:
        """Return the statistics of the time since earlier ones of the same loader; None: since the beginning."""
        if before is None or before.steps > self.steps:
            return self
        numbers = ("steps", "elapsed_s", "waited_s", "restarts", *COUNTS)
        changes: dict[str, Any] = {name: getattr(self, name) - getattr(before, name) for name in numbers}
        changes |= {name: _less(getattr(self, name), getattr(before, name)) for name in BY_NAME}
        known = {source.name: source for source in before.sources}
        sources = (source.since(known[source.name]) if source.name in known else source for source in self.sources)
        return replace(self, **changes, sources=tuple(sources))

    def __str__(self) -> str:
        # Name the causes of waits that matter.
        causes = [
            f"{name} {_percent(seconds / self.elapsed_s)}"
            for name, seconds in self.waited_for.items()
            if self.elapsed_s and seconds / self.elapsed_s >= _MIN_SHOWN
        ][:_SHOWN]
        # Append what this run has; most runs replace no workers and gather no ranks.
        parts = [f"step {self.step}", f"{self.samples_per_s:.4g} samples/s"]
        parts.append(f"waited {_percent(self.waited_share)}" + (f" ({', '.join(causes)})" if causes else ""))
        if self.queue_capacity:
            parts.append(f"queue {self.queue}/{self.queue_capacity}")
        parts.append(f"skipped {self.skipped}")
        if self.restarts:
            parts.append(f"replaced {plural(self.restarts, 'worker')}")
        if self.ranks_waited:
            slowest = max(self.ranks_waited, key=lambda wait: wait.waited_s)
            parts.append(f"slowest rank {slowest.rank}, waited {slowest.waited_s:.3g} s")
        if self.headroom is not None:
            parts.append(str(self.headroom))
        return " · ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return flat plain data, for ``wandb.log`` and TensorBoard: names to numbers.

        Names of several parts have slashes: ``waited_for/decode_s``, ``source/<path>:<split part>/samples``.
        """
        # Plain fields keep their names.
        facts: dict[str, Any] = {
            name: getattr(self, name) for name in self.__slots__ if type(getattr(self, name)) in (int, float)
        }
        facts["waited_share"] = self.waited_share
        facts["samples_per_s"] = self.samples_per_s
        facts["workers_rss_bytes"] = self.workers_rss_bytes
        # Loggers group names by their first part.
        facts |= {f"waited_for/{name}_s": seconds for name, seconds in self.waited_for.items()}
        facts |= {f"workers/{name}_s": seconds for name, seconds in self.worker_s.items()}
        facts |= {f"dropped/{reason}": samples for reason, samples in self.dropped.items()}
        facts |= {f"sizes/{unit}": total for unit, total in self.sizes.items()}
        for cost, sums in self.costs.items():
            facts |= {f"costs/{cost}/bias": sums.bias, f"costs/{cost}/correlation": sums.correlation}
        for source in self.sources:
            for name in COUNTS:
                facts[f"source/{source.name}/{name}"] = getattr(source, name)
            facts |= {f"source/{source.name}/sizes/{unit}": total for unit, total in source.sizes.items()}
        for worker in self.workers:
            for name in ("batches", "busy_s", "idle_s", "waited_s", "queue", "rss_bytes"):
                facts[f"worker/{worker.worker}/{name}"] = getattr(worker, name)
        if self.headroom is not None and self.headroom.gain is not None:
            facts["headroom"] = self.headroom.gain
        if self.slowest_rank is not None:
            facts["slowest_rank"] = self.slowest_rank
        return facts


def sums_of_costs(sources: Iterable[SourceStats]) -> dict[str, CostSums]:
    """Return the planned and measured costs of several sources together, by name."""
    total: dict[str, CostSums] = {}
    for source in sources:
        for cost, sums in source.costs.items():
            total[cost] = total.get(cost, CostSums()).plus(sums)
    return total


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _less(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    left = {name: count - before.get(name, 0) for name, count in now.items()}
    return dict(sorted(left.items(), key=lambda item: -item[1]))


_NOTHING = 0.02  # share of the time; below, there is nothing to gain
_SOME = 0.005  # share of the time that a cause must have to be named
_MAX_WORKERS_MORE = 64
_IDLE = 0.2  # of the workers' time
_LOOP = 0.01  # share of the time that a training loop works itself; below, the loader is only timed
_MIN_MEASURED = 100  # samples of a dataset, to judge its columns by
_BIAS, _CORRELATION = 0.02, 0.98  # beyond them, steps cost several per cent more or less than planned
_MIN_S = 0.5  # of a run, to draw conclusions from


def _suggestions(stats: LoaderStats) -> tuple[str, ...]:
    """Return suggestions, the most useful first; none for a run that was too short."""
    costs = _of_costs(stats)
    if stats.elapsed_s < _MIN_S or not stats.waited_for:
        return costs
    # Memory comes first: a run that is killed gains nothing from speed.
    suggestions = _of_memory(stats)
    # The start of the workers happens once, so it does not count as waiting for data.
    start_s = stats.waited_for.get("start", 0.0)
    rest_s = stats.waited_s - start_s
    if rest_s < _NOTHING * stats.running_s:
        suggestions.append(
            f"nothing to gain: the training loop waited {100 * rest_s / stats.running_s:.1f} % of the time"
        )
    else:
        suggestions += _of_causes(stats)
    if start_s > 0.1 * stats.elapsed_s:
        suggestions.append(
            f"{start_s:.1f} s went by until the workers had made their first micro-batches; call loader.start() before "
            "the model is built"
        )
    return (*suggestions, *costs)


def _of_costs(stats: LoaderStats) -> tuple[str, ...]:
    """Return which columns do not have the costs that were measured."""
    return tuple(
        f"plan: costs {cost!r} of {source.name} measured {100 * abs(sums.bias):.1f} % "
        f"{'above' if sums.bias > 0 else 'below'} the planned ones, with a correlation of {sums.correlation:.2f} over "
        f"{plural(sums.samples, 'sample')}: its column is of another tokenizer or crop, or of earlier data; "
        f"{source.write_again[cost]}"
        for source in stats.sources
        for cost, sums in source.costs.items()
        if sums.samples >= _MIN_MEASURED and (abs(sums.bias) > _BIAS or sums.correlation < _CORRELATION)
    )


def _of_memory(stats: LoaderStats) -> list[str]:
    used_bytes = stats.rss_bytes + stats.workers_rss_bytes
    if not stats.memory_bytes or used_bytes < 0.8 * stats.memory_bytes:
        return []
    used, memory = used_bytes / 1e9, stats.memory_bytes / 1e9
    remedy = "use fewer workers, a smaller prefetch_factor or smaller buffers"
    return [f"memory: the workers and this process use {used:.1f} GB of {memory:.1f} GB; {remedy}"]


def _of_causes(stats: LoaderStats) -> list[str]:
    waits = {name: seconds for name, seconds in stats.waited_for.items() if name != "start"}
    cause, seconds = max(waits.items(), key=lambda item: item[1])
    if seconds < _SOME * stats.running_s:
        return []
    what = f"{stats.decodes} decode" if cause == "decode" and stats.decodes else cause
    share = f"{100 * seconds / stats.running_s:.1f} % of the time was spent waiting for it"
    if cause == "replacement":
        remedy = "the log names their samples; quarantine='FILE' passes over those that end workers again and again"
        return [f"bound by replaced workers: {share}; {remedy}"]
    if cause == "other":
        return [f"bound by the pipeline's own work: {share}; larger samples per read or more workers would help"]
    if cause == "transport":
        remedy = "make micro-batches smaller, or use worker_type='thread' if hooks release Python's lock"
        return [f"bound by transport: {share}; {remedy}"]
    return [f"bound by {what}: {share}; {_remedy(stats, cause)}"]


def _remedy(stats: LoaderStats, cause: str) -> str:
    """Return what would hide a cause: as many workers as make the micro-batches in the time of the training loop."""
    loop_s = max(1e-9, stats.elapsed_s - stats.waited_s)
    busy_s = sum(seconds for name, seconds in stats.worker_s.items() if name != "idle")
    more = max(1, ceil(busy_s / loop_s) - stats.own_workers)
    idle_share = stats.worker_s.get("idle", 0.0) / max(1e-9, busy_s + stats.worker_s.get("idle", 0.0))
    if stats.own_workers and idle_share > _IDLE:
        return f"the workers were idle for {100 * idle_share:.1f} %, so waits come in bursts: raise prefetch_factor"
    if loop_s < _LOOP * stats.running_s:
        return "the training loop does nothing itself, so nothing hides it; more workers shorten it, up to one a core"
    if more > _MAX_WORKERS_MORE:
        workers = plural(round(busy_s / loop_s), "worker")
        return f"it takes {workers} to hide it, so make it faster, or do it once before training"
    workers = plural(more, "more worker" if stats.own_workers else "worker")
    hint = " (or a cache, or larger reads)" if cause == "storage" else ""
    return f"{workers} would hide it{hint}"
