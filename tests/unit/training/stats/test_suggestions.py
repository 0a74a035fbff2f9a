"""Suggestions name a remedy that fits the figures."""

from __future__ import annotations

from typing import Any

import pytest

from loader.training.stats.snapshot import LoaderStats, WorkerStats


def suggestions(*, workers: int, **measured: Any) -> tuple[str, ...]:
    """Return the suggestions for a loader that measured so much, and nothing else."""
    none: dict[str, Any] = dict.fromkeys(
        ("rank", "ranks", "step", "steps", "samples", "size_bytes", "repeats", "skipped", "queue"), 0
    )
    none |= dict.fromkeys(
        ("skipped", "queue", "queue_capacity", "rss_bytes", "shared_bytes", "memory_bytes", "restarts", "quarantined"),
        0,
    )
    idle = [
        WorkerStats(worker=number, batches=0, busy_s=0, idle_s=0, waited_s=0, queue=0, rss_bytes=0)
        for number in range(workers)
    ]
    stats = LoaderStats(**none, dropped={}, sizes={}, sources=(), workers=tuple(idle), cost_share=0.0, **measured)
    return stats.suggestions


@pytest.mark.parametrize(
    ("waited_s", "remedy"),
    [
        (60.0, "3 more workers would hide it"),
        (97.5, "it takes 76 workers to hide it"),
        (99.9, "the training loop does nothing itself"),
        (100.0, "the training loop does nothing itself"),
    ],
)
def test_the_number_of_workers_follows_from_the_work_of_the_loop(waited_s: float, remedy: str) -> None:
    waited_for = {"decode": waited_s - 10, "other": 10.0}
    (line,) = suggestions(
        elapsed_s=100.0,
        waited_s=waited_s,
        waited_for=waited_for,
        worker_s={"decode": 150.0, "other": 40.0, "idle": 10.0},
        workers=2,
        decodes="JPEG",
    )
    assert line.startswith("bound by JPEG decode: ")
    assert remedy in line


def test_replaced_workers_are_no_lack_of_workers() -> None:
    (line,) = suggestions(
        elapsed_s=100.0,
        waited_s=50.0,
        waited_for={"replacement": 40.0, "decode": 10.0},
        worker_s={"decode": 90.0, "idle": 10.0},
        workers=2,
    )
    assert line.startswith("bound by replaced workers: 40.0 % of the time")
    assert "quarantine=" in line


def test_shares_are_those_of_the_time_after_the_start() -> None:
    common: dict[str, Any] = {"elapsed_s": 100.0, "worker_s": {"decode": 12.0, "idle": 1.0}, "workers": 1}
    bound, start = suggestions(waited_s=95.0, waited_for={"start": 90.0, "decode": 5.0}, **common)
    assert bound == "bound by decode: 50.0 % of the time was spent waiting for it; 2 more workers would hide it"
    assert start.startswith("90.0 s went by until the workers had made their first micro-batches")
    (line, _) = suggestions(waited_s=90.1, waited_for={"start": 90.0, "decode": 0.1}, **common)
    assert line == "nothing to gain: the training loop waited 1.0 % of the time"
