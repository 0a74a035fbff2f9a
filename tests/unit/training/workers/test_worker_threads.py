"""Workers that are threads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from loader import WorkerConfig, get_loader
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.testing.stage import Values
from loader.training.workers import worker_messages


def states_of_threads() -> list[Any]:
    """Return the state after each micro-batch of a pass, of which the last batches take items of several lanes."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=2, lanes=4)
    values = FilterDataset(Values(list(range(41)), worker_config=config), lambda value: value % 5 != 1)
    loader = get_loader(BatchDataset(values, 3, list), worker_type="thread")
    return [loader.save_state_rank() for _ in loader]


def test_pinned_micro_batches_keep_the_states_of_lanes_that_gave_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = states_of_threads()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(worker_messages, "pin_memory", tuple)  # the function itself needs a GPU
    assert states_of_threads() == expected
