"""Run one of several ranks with passes of unknown lengths, and write its micro-batches as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import distributed

from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.even_ranks import EvenRanksDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.limit import LimitDataset
from loader.testing.stage import Values
from loader.training.loaders.data_loader import SavableDataLoader


def is_even_or_small(item: int) -> bool:
    return item % 2 == 0 or item < 8


def run_rank(rank: int, world_size: int, folder: Path) -> None:
    """Run a rank, and write its micro-batches to ``<rank>.json`` in the folder of the process group."""
    store = folder / "store"
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    config = WorkerConfig(rank=rank, world_size=world_size, num_workers=0, lanes=world_size)
    # Of two lanes, only the first has items above 8.
    uneven = FilterDataset(Values(range(20), worker_config=config), is_even_or_small)
    got: dict[str, Any] = {}

    loader = SavableDataLoader(EvenRanksDataset(uneven))
    got["two passes"] = [list(loader), list(loader)]

    started = iter(loader)
    got["before"] = [next(started), next(started)]
    states = loader.save_state_global()
    restored = SavableDataLoader(EvenRanksDataset(uneven))
    restored.restore_state_global(states, src_rank=0)
    got["after"] = [list(restored), list(restored)]

    limited = SavableDataLoader(EvenRanksDataset(LimitDataset(Values(range(9), worker_config=config), 2)))
    got["limited"] = [list(limited) for _ in range(4)]

    wrong = WorkerConfig(rank=rank, world_size=world_size + 1, num_workers=0)
    try:
        SavableDataLoader(EvenRanksDataset(FilterDataset(Values([], worker_config=wrong), is_even_or_small)))
    except Exception as error:  # noqa: BLE001 - the test reads its type
        got["another size"] = f"{type(error).__name__}: {error}"

    (folder / f"{rank}.json").write_text(json.dumps(got))
    distributed.destroy_process_group()
