"""Tensor-, data- and pipeline-parallel ranks: which samples each rank loads, and which states are saved."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from loader import WorkerConfig, get_savable_loader
from tests.e2e.drawing_pipelines import Data, train, write_data
from tests.e2e.parallel_layout import Layout, data_parallel_group
from tests.e2e.rank_processes import rank_processes
from tests.elastic_runs import (
    Delivered,
    Pipeline,
    Spread,
    assert_same,
    check_rest,
    fingerprint,
    number_of,
    uninterrupted,
)

EIGHT = Layout(tensor=2, data=2, pipeline=2)
STEPS = 4


def load_and_save(rank: int, data: Data, folder: str) -> tuple[Delivered, Any, Any]:
    """Run one of eight ranks; return its samples, and the states that it received, saved in two ways."""
    place = EIGHT.place(rank)
    group = data_parallel_group(EIGHT, rank)
    if place.stage:
        return {}, None, None
    config = WorkerConfig.default_worker_config(num_workers=0, data_parallel_group=group)
    loader = get_savable_loader(train(data, config))
    delivered = {number_of(batch): fingerprint(batch) for _, batch in zip(range(STEPS), loader, strict=False)}
    if place.tensor == 0:  # once for each data-parallel rank
        torch.save(loader.save_state_rank(), f"{folder}/state_{place.data}.pt")
    first_of_group = distributed.get_global_rank(group, 0)
    return delivered, loader.save_state_global(0), loader.save_state_global(global_dst_rank=first_of_group)


def test_of_eight_ranks_the_first_stage_loads_and_its_tensor_ranks_see_the_same(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    with rank_processes(8, tmp_path) as ranks:
        answers = ranks.run(load_and_save, data, str(tmp_path))
    delivered = [given for given, _, _ in answers]
    assert [bool(given) for given in delivered] == [True] * 4 + [False] * 4
    assert delivered[0] == delivered[1]
    assert delivered[2] == delivered[3]
    assert not delivered[0].keys() & delivered[2].keys()
    pipeline = Pipeline(build=partial(train, data), batches=24, lanes=48)
    whole = uninterrupted(pipeline)
    before = delivered[0] | delivered[2]
    assert_same(before, {number: whole[number] for number in range(2 * STEPS)}, "on eight ranks")

    # The named rank gets the states of its data-parallel group, by either argument.
    by_group, by_run = ([answer[place] for answer in answers] for place in (1, 2))
    assert by_group == by_run
    assert [states is not None for states in by_group] == [True, True] + [False] * 6
    assert by_group[0] == by_group[1]
    states = [torch.load(path, weights_only=True) for path in sorted(tmp_path.glob("state_*.pt"))]
    assert states == by_group[0]
    check_rest(pipeline, Spread(4), states, whole, before, at="four ranks")
