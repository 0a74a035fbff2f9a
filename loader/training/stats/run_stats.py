"""Statistics of a loader while it runs: builds them from the measurements, and reports them at intervals."""

from __future__ import annotations

import importlib
import os
import resource
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import ConfigError, required_package
from ...escaped_log import get_logger
from ...pipeline.measuring.counts import CostSums, Counts, SourceCounts, add_numbers
from ...pipeline.stages.batch import planning_reader
from .headroom import HeadroomTrial
from .meter import RankMeter, decoded_format, source_names
from .options import StatsOptions, checked_stats
from .profile import LoaderProfile, ScriptProfile, check_trace_path
from .report_files import METRICS, Metric, append_json_line, grown, metrics_of, rank_path, replace_prometheus_file
from .snapshot import COUNTS, LoaderStats, SourceStats, WorkerStats

_log = get_logger("loader")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPosition:
    """The position of a run."""

    chain: Any
    rank: int
    ranks: int
    step: int
    restarts: int
    quarantined: int


class RunStats:
    """The statistics of one loader.

    Args:
        facts: Method that returns the position of the run; its object is not kept alive.
    """

    def __init__(self, options: StatsOptions, facts: Callable[[], RunPosition]) -> None:
        self.options = options
        self.meter = RankMeter(self, options.every_s)
        self.trial: HeadroomTrial | None = HeadroomTrial(self.meter.queued) if options.headroom else None
        self._known_facts: RunPosition | None = None
        self._known_at = 0  # steps
        self._find_facts = weakref.WeakMethod(facts)
        self._script = ScriptProfile.of_environment()
        self._is_served = False
        self.clear()

    @staticmethod
    def of(stats: bool | StatsOptions, facts: Callable[[], RunPosition]) -> RunStats | None:
        """Return the statistics that the argument ``stats``, or ``energon profile``, requests, if any."""
        options = checked_stats(stats)
        if options is None and ScriptProfile.of_environment() is not None:
            options = StatsOptions(every_s=None)
        return None if options is None else RunStats(options, facts)

    def clear(self) -> None:
        self.meter.clear()
        self._reported: LoaderStats | None = None
        self._counters: dict[tuple[str, ...], float] = {}
        self._metrics: tuple[Metric, ...] = ()
        self._closed_at = 0  # steps
        self._names: list[str] | None = None
        self._columns: dict[tuple[int, str], str] = {}  # how the column of a source's cost is written again

    def end_profile(self) -> None:
        """End the profile for ``energon profile``, before a restore clears it; the next iteration begins another."""
        if self._script is not None and self._script.profile is not None:
            self._script.end()
            self.meter.clear()

    def report(self) -> None:
        """Log a line about the time since the last report, and export."""
        stats = self.stats()
        _log.info("%s", stats.since(self._reported))
        self._export(stats)

    def close(self) -> None:
        """Report the time since the last report, and log suggestions for the whole run, once for the same steps."""
        if self.meter.steps == self._closed_at:
            return
        self._closed_at = self.meter.steps
        stats = self.stats()
        if self._reported is None or self._reported.steps != stats.steps:  # the last step may have been reported
            self._export(stats)
        for suggestion in stats.suggestions:
            _log.info("%s", suggestion)

    def _export(self, stats: LoaderStats) -> None:
        """Write the files of a report; a full disk does not end the training."""
        self._reported = stats
        self._metrics = grown(metrics_of(stats), self._counters)
        options, ranks = self.options, {"rank": stats.rank, "ranks": stats.ranks}
        try:
            if options.file is not None:
                append_json_line(rank_path(options.file, **ranks), stats)
            if options.prometheus_file is not None:
                replace_prometheus_file(rank_path(options.prometheus_file, **ranks), self._metrics)
        except OSError as error:
            _log.warning("cannot write statistics: %s", error)

    def begin(self) -> None:
        """Prepare the reports, before the first micro-batch."""
        # Check the folders of all files before the first step is lost.
        facts = self._facts()
        files = [file for file in (self.options.file, self.options.prometheus_file) if file is not None]
        for path in (rank_path(file, rank=facts.rank, ranks=facts.ranks) for file in files):
            if not path.absolute().parent.is_dir():
                raise ConfigError(
                    "there is no folder for this file of statistics", at=os.fspath(path), hint="create the folder"
                )
        # Serve the metrics once for the loader, however often it is iterated.
        if not self._is_served:
            self._is_served = True
            reference = weakref.ref(self)  # the server and the meter must not keep the loader alive

            def latest() -> tuple[Metric, ...]:
                stats = reference()
                return () if stats is None else stats._metrics  # noqa: SLF001 - this class

            if self.options.prometheus_port is not None:
                host, port = self.options.prometheus_host, self.options.prometheus_port
                self.served_port, end = serve_prometheus(latest, host=host, port=port)
                weakref.finalize(self, end)
            if self.options.opentelemetry:
                observe_with_opentelemetry(latest)
        if self._script is not None:
            self._script.begin(self.profile)

    def _facts(self) -> RunPosition:
        """Return the position of the run, also if the loader does not exist any more."""
        find = self._find_facts()
        if find is not None:
            self._known_facts, self._known_at = find(), self.meter.steps
        if self._known_facts is None:
            raise ReferenceError("the loader of these statistics does not exist any more")
        return replace(self._known_facts, step=self._known_facts.step + self.meter.steps - self._known_at)

    def begin_trial(self, rounds: int | None) -> None:
        self.trial = HeadroomTrial(self.meter.queued, rounds=rounds)

    def profile(self, path: str | os.PathLike[str] | None, steps: int | None) -> LoaderProfile:
        check_trace_path(path)
        return LoaderProfile({self._facts().rank: self.meter}, self.stats, path=path, steps=steps)

    def stats(self) -> LoaderStats:
        # Find the waits first: it also counts the samples of a loader without workers.
        meter, facts = self.meter, self._facts()
        waited_for = meter.waited_for()
        counts = _sum_of(meter)
        # Add the activities of all workers.
        worker_s: dict[str, float] = {}
        for worker in meter.workers:
            add_numbers(worker_s, worker.times())
        if not meter.is_own_work:
            worker_s["idle"] = counts.idle_ns / 1e9
        # Take what the workers hold now, and sum the counts of samples.
        workers, queue, capacity = self._workers()
        sizes, sizes_by_source = counts.total_sizes()
        excluded = sum(source.excluded for source in counts.sources.values())
        return LoaderStats(
            rank=facts.rank,
            ranks=facts.ranks,
            step=facts.step,
            steps=meter.steps,
            elapsed_s=meter.elapsed_ns / 1e9,
            waited_s=meter.waited_ns / 1e9,
            waited_for=_longest_first(waited_for),
            worker_s=_longest_first(worker_s),
            **{
                name: sum(getattr(source_counts, name) for source_counts in counts.sources.values())
                for name in COUNTS[:-1]
            },
            skipped=excluded + sum(counts.dropped.values()),
            dropped=dict(counts.dropped),
            sizes=sizes,
            sources=self._sources(facts, counts, sizes_by_source),
            workers=workers,
            queue=queue,
            queue_capacity=capacity,
            rss_bytes=resident_bytes(),
            shared_bytes=0 if meter.stream is None else meter.stream.shared_bytes(),
            memory_bytes=memory_bytes(),
            restarts=facts.restarts,
            quarantined=facts.quarantined,
            cost_share=counts.cost_ns / counts.make_ns if counts.make_ns else 0.0,
            headroom=None if self.trial is None else self.trial.found,
            makes_own=meter.is_own_work,
            decodes=decoded_format(facts.chain),
        )

    def _workers(self) -> tuple[tuple[WorkerStats, ...], int, int]:
        stream = None if self.meter.is_own_work else self.meter.stream
        workers, queue, capacity = [], 0, 0
        for index, worker in enumerate(self.meter.workers):
            ready, most = (0, 0) if stream is None else stream.queue(index)
            pid = None if stream is None else stream.pid(index)
            queue, capacity = queue + ready, capacity + most
            counts = worker.counts
            workers.append(
                WorkerStats(
                    worker=index,
                    batches=counts.batches,
                    busy_s=(counts.make_ns + counts.transport_ns) / 1e9,
                    idle_s=counts.idle_ns / 1e9,
                    waited_s=(self.meter.waited_ns if self.meter.is_own_work else worker.waited_ns) / 1e9,
                    queue=ready,
                    rss_bytes=0 if pid is None else resident_bytes(pid),
                )
            )
        return tuple(workers), queue, capacity

    def _sources(
        self, facts: RunPosition, counts: Counts, sizes: Mapping[int, Mapping[str, float]]
    ) -> tuple[SourceStats, ...]:
        if self._names is None:
            self._names = source_names(facts.chain)
        none = SourceCounts()
        costs: dict[int, dict[str, CostSums]] = {}
        for (cost, source), sums in counts.costs.items():
            costs.setdefault(source, {})[cost] = sums
        source_counts = [counts.sources.get(index, none) for index in range(len(self._names))]
        return tuple(
            SourceStats(
                name=name,
                samples=counted.samples,
                size_bytes=counted.size_bytes,
                repeats=counted.repeats,
                skipped=counted.excluded + counted.dropped,
                sizes=sizes.get(index, {}),
                costs=costs.get(index, {}),
                write_again=self._write_again(facts, index, costs.get(index, {})),
            )
            for index, (name, counted) in enumerate(zip(self._names, source_counts, strict=True))
        )

    def _write_again(self, facts: RunPosition, source: int, costs: Iterable[str]) -> dict[str, str]:
        for cost in costs:
            if (source, cost) not in self._columns:
                planned = planning_reader(facts.chain)[1].costs
                self._columns[source, cost] = planned.write_again(source, cost)
        return {cost: self._columns[source, cost] for cost in costs}


def _sum_of(meter: RankMeter) -> Counts:
    total = Counts()
    for worker in meter.workers:
        total.add_but_events(worker.counts)
    return total


def _longest_first(seconds: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of control groups 2 and 1
# Linux counts the peak memory in KiB, macOS in bytes.
_KIB_OF_MAXRSS = 1 if sys.platform == "darwin" else 1024


def resident_bytes(pid: int | None = None) -> int:
    """Return the resident memory of a process of this user; 0 if it has ended or the system does not report it.

    Args:
        pid: The process; None for this one, for which systems without ``/proc`` report its highest value.
    """
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0 if pid is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB_OF_MAXRSS


def memory_bytes() -> int:
    """Return the memory of the machine, or of the container if it has less."""
    size_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in _LIMITS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            size_bytes = min(size_bytes, int(Path(limit).read_text()))
    return size_bytes


Latest = Callable[[], Iterable[Metric]]


def _imported(module: str, package: str, extra: str) -> Any:
    with required_package(
        f"these statistics need the package {package}, which is not installed",
        hint=f"pip install 'energon-toolkit[{extra}]'",
    ):
        return importlib.import_module(module)


def serve_prometheus(latest: Latest, *, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """Serve statistics to Prometheus from a thread.

    Args:
        port: The port; 0 chooses a free one.
    """
    client = _imported("prometheus_client", "prometheus-client", "metrics")
    registry = client.CollectorRegistry()
    registry.register(_Collector(latest, importlib.import_module("prometheus_client.core")))
    try:
        server, thread = client.start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConfigError(
            f"cannot serve metrics at {host}:{port}: {error.strerror}",
            hint="choose another prometheus_port; each rank of a host needs its own",
        ) from error

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return int(server.server_port), end


class _Collector:
    def __init__(self, latest: Latest, families: Any) -> None:
        self._latest = latest
        self._counter, self._gauge = families.CounterMetricFamily, families.GaugeMetricFamily

    def collect(self) -> Iterator[Any]:
        families: dict[str, Any] = {}
        for metric in self._latest():
            name = f"energon_loader_{metric.name}"
            if name not in families:
                kind = self._counter if metric.is_counter else self._gauge
                families[name] = kind(name, metric.help, labels=[*metric.labels])
            families[name].add_metric([*metric.labels.values()], metric.value)
        yield from families.values()


def observe_with_opentelemetry(latest: Latest) -> None:
    """Let the meter provider of OpenTelemetry observe statistics, whenever its reader collects."""
    api = _imported("opentelemetry.metrics", "opentelemetry-api", "metrics")
    meter = api.get_meter("energon.loader")

    def observe(name: str) -> Callable[[Any], list[Any]]:
        return lambda _options: [
            api.Observation(metric.value, metric.labels) for metric in latest() if metric.name == name
        ]

    for name, help_ in METRICS.items():
        create = meter.create_observable_counter if name.endswith("_total") else meter.create_observable_gauge
        create(f"energon.loader.{name.removesuffix('_total')}", callbacks=[observe(name)], description=help_)
