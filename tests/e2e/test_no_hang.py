"""No rank hangs: four ranks with an ``all_reduce`` for each micro-batch, and an event each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.no_hang_jobs import EVENTS, Job, run_job
from tests.e2e.text_dataset import write_texts

QUICK = {"ranks with unequal data", "worker stopped", "rank killed"}  # test_worker_failures.py kills workers


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("no_hang")
    return write_texts(folder / "data"), write_texts(folder / "small", train=(3,), val=(2,))


@pytest.mark.parametrize(
    "event", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in EVENTS]
)
def test_no_rank_hangs(event: str, data: tuple[Path, Path], tmp_path: Path) -> None:
    job = Job(event=event, data=data[0], small=data[1], folder=tmp_path)
    outcome = run_job(job)
    assert not outcome.fault(job)
