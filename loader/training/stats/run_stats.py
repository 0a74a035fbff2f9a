"""Statistics of a loader while it runs: builds them from the measurements, and reports them at intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...escaped_log import get_logger
from ...pipeline.measuring.counts import Counts, SourceCounts, add_numbers
from ...transport.segments import mapped_bytes
from .memory import resident_bytes
from .meter import RankMeter
from .options import StatsOptions
from .snapshot import LoaderStats, SourceStats, WorkerStats
from .sources import decoded_format, source_names

__all__ = ["RunFacts", "RunStats"]

_log = get_logger("loader")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The position of a run.

    Attributes:
        chain: The stages of the lanes.
        rank: The rank.
        ranks: Number of ranks.
        step: Number of the rank's next micro-batch.
        restarts: Workers that were replaced.
        quarantined: Samples that are passed over.
    """

    chain: Any
    rank: int
    ranks: int
    step: int
    restarts: int
    quarantined: int


class RunStats:
    """The statistics of one loader.

    Args:
        options: What is reported, and when.
        facts: Returns the position of the run.

    Attributes:
        options: As passed.
        meter: The measurements.
    """

    def __init__(self, options: StatsOptions, facts: Callable[[], RunFacts]) -> None:
        self.options = options
        self.meter = RankMeter(self.report, options.every_s)
        self._facts = facts
        self._reported: LoaderStats | None = None
        self._names: list[str] | None = None

    def clear(self) -> None:
        """Begin again, as after a restore."""
        self.meter.clear()
        self._reported = None
        self._names = None

    def report(self) -> None:
        """Log a line about the time since the last report, and export."""
        stats = self.stats()
        _log.info("%s", stats.since(self._reported))
        self._reported = stats

    def close(self) -> None:
        """Log the suggestions at the end of the workers, once for the steps since the last end."""
        stats = self.stats()
        for suggestion in stats.suggestions:
            _log.info("%s", suggestion)

    def stats(self) -> LoaderStats:
        """Return the statistics since the first iteration."""
        meter, facts = self.meter, self._facts()
        waited_for = meter.waited_for()  # also counts the samples of a loader without workers
        counts = _sum_of(meter)
        worker_s: dict[str, float] = {}
        for worker in meter.workers:
            add_numbers(worker_s, worker.times())
        if not meter.is_own_work:
            worker_s["idle"] = counts.idle_ns / 1e9
        workers, queue, capacity = self._workers()
        excluded = sum(source.skipped for source in counts.sources.values())
        return LoaderStats(
            rank=facts.rank,
            ranks=facts.ranks,
            step=facts.step,
            steps=meter.steps,
            elapsed_s=meter.elapsed_ns / 1e9,
            waited_s=meter.waited_ns / 1e9,
            waited_for=_longest_first(waited_for),
            worker_s=_longest_first(worker_s),
            samples=sum(source.samples for source in counts.sources.values()),
            size_bytes=sum(source.size_bytes for source in counts.sources.values()),
            repeats=sum(source.repeats for source in counts.sources.values()),
            skipped=excluded + sum(counts.dropped.values()),
            dropped=dict(counts.dropped),
            sizes=_sizes(counts),
            sources=self._sources(facts, counts),
            workers=workers,
            queue=queue,
            queue_capacity=capacity,
            rss_bytes=resident_bytes(),
            shared_bytes=mapped_bytes(self._pids()),
            restarts=facts.restarts,
            quarantined=facts.quarantined,
            cost_share=counts.cost_ns / counts.make_ns if counts.make_ns else 0.0,
            decodes=decoded_format(facts.chain),
        )

    def _pids(self) -> list[int]:
        stream = self.meter.stream
        if stream is None or self.meter.is_own_work:
            return []
        pids = (stream.pid(worker) for worker in range(len(self.meter.workers)))
        return [pid for pid in pids if pid is not None]

    def _workers(self) -> tuple[tuple[WorkerStats, ...], int, int]:
        stream = None if self.meter.is_own_work else self.meter.stream
        found, queue, capacity = [], 0, 0
        for number, worker in enumerate(self.meter.workers):
            ready, most = (0, 0) if stream is None else stream.queue(number)
            pid = None if stream is None else stream.pid(number)
            queue, capacity = queue + ready, capacity + most
            counts = worker.counts
            found.append(
                WorkerStats(
                    worker=number,
                    batches=counts.batches,
                    busy_s=(counts.make_ns + counts.transport_ns) / 1e9,
                    idle_s=counts.idle_ns / 1e9,
                    waited_s=(self.meter.waited_ns if self.meter.is_own_work else worker.waited_ns) / 1e9,
                    queue=ready,
                    rss_bytes=0 if pid is None else resident_bytes(pid),
                )
            )
        return tuple(found), queue, capacity

    def _sources(self, facts: RunFacts, counts: Counts) -> tuple[SourceStats, ...]:
        if self._names is None:
            self._names = source_names(facts.chain)
        none = SourceCounts()
        return tuple(
            SourceStats(name=name, **counts.sources.get(number, none)._asdict())
            for number, name in enumerate(self._names)
        )


def _sum_of(meter: RankMeter) -> Counts:
    total = Counts()
    for worker in meter.workers:
        total.add(worker.counts.copy())
    return total


def _sizes(counts: Counts) -> dict[str, float]:
    """Return the sums of metrics over all samples, from those that were measured."""
    kept = sum(source.samples - source.skipped for source in counts.sources.values()) - sum(counts.dropped.values())
    return {unit: total / samples * kept for unit, (total, samples) in counts.sizes.items() if samples}


def _longest_first(seconds: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))
