"""Write reports to files: lines of JSON, and metrics in Prometheus' text format."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .snapshot import LoaderStats


class Metric(NamedTuple):
    """One number for a monitoring system.

    Attributes:
        name: Its name without the prefix, such as ``waited_seconds_total``; counters end in ``_total``.
    """

    name: str
    help: str
    labels: dict[str, str]
    value: float

    @property
    def is_counter(self) -> bool:
        """True if the number only grows, until the run restarts."""
        return self.name.endswith("_total")


def rank_path(path: str | os.PathLike[str], *, rank: int, ranks: int) -> Path:
    """Return the path of a rank's own file.

    >>> rank_path("stats.jsonl", rank=1, ranks=4).name, rank_path("{rank}.jsonl", rank=1, ranks=4).name
    ('stats.rank1.jsonl', '1.jsonl')
    """
    text = os.fspath(path)
    if "{rank}" in text:
        return Path(text.replace("{rank}", str(rank)))
    report = Path(text)
    return report if ranks == 1 or rank == 0 else report.with_name(f"{report.stem}.rank{rank}{report.suffix}")


def append_json_line(path: Path, stats: LoaderStats) -> None:
    """Append statistics to a file as one line; a line is written whole, or not at all."""
    line = json.dumps({"time_s": round(time.time(), 3), **stats.to_dict()}) + "\n"
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())


def grown(metrics: Iterable[Metric], largest: dict[tuple[str, ...], float]) -> tuple[Metric, ...]:
    """Return the metrics of a report, each counter with its largest value so far; ``largest`` holds these values.

    A monitoring system takes a lower value for a restart from 0, and extrapolated totals may come out a little lower
    than before. Their counters then wait until they have grown again.
    """
    result = []
    for metric in metrics:
        if metric.is_counter:
            key = metric.name, *metric.labels.values()
            largest[key] = max(metric.value, largest.get(key, 0.0))
            metric = metric._replace(value=largest[key])  # noqa: PLW2901 - the same metric
        result.append(metric)
    return tuple(result)


def replace_prometheus_file(path: Path, metrics: Iterable[Metric]) -> None:
    """Replace a file by metrics in Prometheus' text format; readers see the old or the new one, complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(prometheus_text(metrics), encoding="utf-8")
    temporary.replace(path)


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Return metrics in Prometheus' text format."""
    lines: list[str] = []
    described: set[str] = set()
    for metric in sorted(metrics, key=lambda metric: metric.name):
        name = f"energon_loader_{metric.name}"
        if name not in described:
            described.add(name)
            lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {'counter' if metric.is_counter else 'gauge'}"]
        labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in metric.labels.items())
        lines.append(f"{name}{{{labels}}} {metric.value:.17g}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


METRICS = {
    "elapsed_seconds_total": "Time since the first iteration.",
    "headroom_ratio": "Share of a step that a perfect loader would save.",
    "quarantined_samples": "Samples that are passed over since they killed workers.",
    "queue_batches": "Micro-batches that wait for the training loop.",
    "queue_capacity_batches": "The most that may wait.",
    "read_bytes_total": "Bytes of the samples that were read.",
    "repeated_samples_total": "Samples of a second or later epoch.",
    "resident_memory_bytes": "Resident memory of processes.",
    "samples_total": "Samples that were read.",
    "shared_memory_bytes": "Shared memory in which micro-batches travel.",
    "skipped_samples_total": "Samples that are excluded, skipped or failed.",
    "source_bytes_total": "Bytes by dataset.",
    "source_repeated_samples_total": "Samples of a second or later epoch, by dataset.",
    "source_sample_size_total": "Sums of the metrics of the task encoder by dataset, extrapolated.",
    "source_samples_total": "Samples by dataset.",
    "source_skipped_samples_total": "Samples that are excluded, skipped or failed, by dataset.",
    "sample_size_total": "Sums of the metrics of the task encoder, extrapolated.",
    "steps_total": "Micro-batches that were delivered.",
    "waited_seconds_total": "Time in which the training loop waited, by cause.",
    "worker_restarts_total": "Workers that were replaced.",
    "worker_seconds_total": "Time of all workers, by activity.",
}
"""The names and descriptions of all metrics; names of counters end in ``_total``."""


def metrics_of(stats: LoaderStats) -> Iterator[Metric]:
    """Yield statistics as metrics with labels."""

    def metric(name: str, value: float, **labels: str) -> Metric:
        return Metric(name, METRICS[name], {"rank": str(stats.rank), **labels}, float(value))

    # Totals of the rank.
    yield metric("steps_total", stats.steps)
    yield metric("elapsed_seconds_total", stats.elapsed_s)
    yield metric("samples_total", stats.samples)
    yield metric("read_bytes_total", stats.size_bytes)
    yield metric("repeated_samples_total", stats.repeats)
    yield metric("skipped_samples_total", stats.skipped)
    yield metric("worker_restarts_total", stats.restarts)
    yield metric("quarantined_samples", stats.quarantined)
    yield metric("queue_batches", stats.queue)
    yield metric("queue_capacity_batches", stats.queue_capacity)
    yield metric("shared_memory_bytes", stats.shared_bytes)
    # Sums by name.
    for cause, seconds in stats.waited_for.items():
        yield metric("waited_seconds_total", seconds, cause=cause)
    for activity, seconds in stats.worker_s.items():
        yield metric("worker_seconds_total", seconds, activity=activity)
    for unit, total in stats.sizes.items():
        yield metric("sample_size_total", total, unit=unit)
    # Counts of each dataset.
    for source in stats.sources:
        yield metric("source_samples_total", source.samples, source=source.name)
        yield metric("source_bytes_total", source.size_bytes, source=source.name)
        yield metric("source_repeated_samples_total", source.repeats, source=source.name)
        yield metric("source_skipped_samples_total", source.skipped, source=source.name)
        for unit, total in source.sizes.items():
            yield metric("source_sample_size_total", total, source=source.name, unit=unit)
    # Memory of each process.
    yield metric("resident_memory_bytes", stats.rss_bytes, process="rank")
    for worker in stats.workers:
        if worker.rss_bytes:
            yield metric("resident_memory_bytes", worker.rss_bytes, process=f"worker {worker.worker}")
    if stats.headroom is not None and stats.headroom.gain is not None:
        yield metric("headroom_ratio", stats.headroom.gain)
