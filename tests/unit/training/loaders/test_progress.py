"""``get_loader(progress=True)`` draws a progress bar, and changes nothing else."""

from __future__ import annotations

import pytest

from loader import get_loader
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.limit import LimitDataset
from loader.testing.stage import Values

ALONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)


@pytest.mark.parametrize("repeats", [False, True])
def test_a_bar_counts_the_micro_batches(repeats: bool, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = LimitDataset(Values(range(7), repeats=repeats, worker_config=ALONE), 5)
    expected = list(get_loader(dataset))
    assert not capsys.readouterr().err
    assert list(get_loader(dataset, progress=True)) == expected
    assert "5/5" in capsys.readouterr().err


def test_the_bar_of_an_endless_loader_has_no_end(capsys: pytest.CaptureFixture[str]) -> None:
    batches = iter(get_loader(Values(range(7), repeats=True, worker_config=ALONE), progress=True))
    next(batches)
    del batches
    shown = capsys.readouterr().err
    assert "batch" in shown
    assert "%" not in shown
