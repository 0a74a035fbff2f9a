"""Iterate a dataset directly: a loader without worker processes of its own."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from math import lcm
from typing import Any

from torch.utils.data import get_worker_info

from ...pipeline.contract.stage import SavableDataset
from .data_loader import SavableDataLoader


def open_direct_loader(dataset: SavableDataset[Any]) -> SavableDataLoader[Any]:
    """Open the loader of a dataset that is iterated directly.

    In a worker process of torch's DataLoader it loads the part of that worker, as if each worker were a rank.

    Args:
        dataset: The dataset.
    """
    config, info = dataset.worker_config, get_worker_info()
    workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
    ranks = config.world_size * workers
    copied = copy(dataset)
    copied.worker_config = replace(
        config,
        rank=config.rank * workers + worker,
        world_size=ranks,
        num_workers=0,
        lanes=None if config.lanes is None else lcm(config.lanes, ranks),
    )
    return SavableDataLoader(copied)
