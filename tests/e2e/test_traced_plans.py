"""The samples of planned micro-batches and packs are traced from a checkpoint, without a log."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from loader import WorkerConfig, get_savable_loader
from loader.inspect.runs import open_run, steps_of_key, trace_step
from tests.e2e.test_planned_runs import BALANCED, FILLED, PACKS, build, data, write_tokens
from tests.e2e.text_dataset import exclude, write_texts

__all__ = ["data"]

RUNS: dict[str, dict[str, Any]] = {
    "packs": PACKS,
    "micro-batches of packs": PACKS | {"batch_size": 2},
    "packs without large samples": PACKS | {"pack_capacity": {"tokens": 30}, "oversized": "skip"},
    "balanced": BALANCED,
    "balanced by two costs": BALANCED | {"balance": {"all": "tokens", "most": "min(tokens, 30)"}},
    "padded": BALANCED | {"padded": True},
    "filled": FILLED,
    "filled with padding": FILLED | {"padded": True},
}


def keys_of(batch: Any) -> list[str]:
    keys = batch["__key__"]
    return [key for part in keys for key in ([part] if isinstance(part, str) else part)]


def given_and_saved(folder: Path, options: dict[str, Any], steps: int, file: Path) -> list[list[str]]:
    """Return the keys of the micro-batches of a run, whose state after some steps is saved."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
    loader = get_savable_loader(build(folder, config, **options))
    given = [keys_of(batch) for batch in islice(loader, steps)]
    torch.save(loader.save_state_global(0), file)
    return given + [keys_of(batch) for batch in islice(loader, steps)]


@pytest.mark.parametrize("name", RUNS)
def test_steps_before_and_after_a_checkpoint_are_traced(name: str, data: Path, tmp_path: Path) -> None:
    given = given_and_saved(data, RUNS[name], 15, tmp_path / "state.pt")
    run = open_run(str(tmp_path / "state.pt"))
    for step in (0, 6, 14, 15, 29):
        assert [sample.key for sample in trace_step(run, step)] == given[step]
    key = given[6][-1]
    uses = {sample.step for sample in steps_of_key(run, key, steps=30)}
    assert uses == {step for step, keys in enumerate(given) if key in keys}


def test_samples_that_were_excluded_later_are_not_traced(tmp_path: Path) -> None:
    write_texts(tmp_path / "texts")
    write_tokens(tmp_path / "texts")
    given = given_and_saved(tmp_path, PACKS, 3, tmp_path / "state.pt")
    left_out = given[4][0]
    exclude(tmp_path / "texts", left_out)
    run = open_run(str(tmp_path / "state.pt"))
    assert [sample.key for sample in trace_step(run, 4)] == given[4][1:]
