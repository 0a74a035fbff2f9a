"""Hooks that skip every sample cause a warning, then end the run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from loader import FilterDataset, SampleError, SkipSample, TaskEncoder, WorkerConfig, get_loader, get_train_dataset
from loader.pipeline.contract import failures as endless_skips
from loader.samples.types import CrudeSample
from tests.unit.pipeline.tar_dataset import texts, write_dataset


class Skips(TaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def encode_sample(self, sample: CrudeSample) -> Any:
        raise SkipSample


class YieldsNothing(TaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def encode_sample(self, sample: CrudeSample) -> Any:
        yield from ()


class SkipsMost(TaskEncoder[Any, Any, Any, Any]):
    decoder = None

    def __init__(self) -> None:
        self.count = 0

    def encode_sample(self, sample: CrudeSample) -> CrudeSample:
        self.count += 1
        if self.count % 50:
            raise SkipSample
        return sample


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "x", {"a.tar": texts(0, 20)})


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endless_skips, "_WARN_AT", 60)
    monkeypatch.setattr(endless_skips, "_STOP_AT", 200)


def dataset(folder: Path, encoder: Any, **options: Any) -> Any:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)
    defaults = {"batch_size": 2, "shuffle_buffer_size": None, "max_samples_per_sequence": 5}
    return get_train_dataset(folder, worker_config=config, task_encoder=encoder, **defaults | options)


@pytest.mark.parametrize("encoder", [Skips, YieldsNothing])
def test_a_hook_that_skips_everything_warns_and_ends_the_run(
    small: Path, encoder: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(SampleError, match="encode_sample has skipped 200 samples"):
        next(iter(get_loader(dataset(small, encoder()))))
    assert [record.message for record in caplog.records] == [
        "encode_sample has skipped the last 60 samples of lane 0; is that intended?"
    ]


def test_a_filter_that_keeps_nothing_ends_the_run(small: Path) -> None:
    kept = FilterDataset(dataset(small, TaskEncoder(), batch_size=None), lambda sample: False)
    with pytest.raises(SampleError, match="FilterDataset has skipped 200 samples"):
        next(iter(get_loader(kept)))


def test_a_hook_that_keeps_a_few_continues(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    batches = iter(get_loader(dataset(small, SkipsMost())))
    for _ in range(10):
        next(batches)
    assert not caplog.records
