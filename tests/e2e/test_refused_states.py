"""Refuse states that do not match a run, and name the difference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from loader import SavableDataset, StateError, TaskEncoder, WorkerConfig, get_savable_loader
from tests.e2e.drawing_pipelines import Data, train, write_data
from tests.elastic_runs import Pipeline, Spread, running, sealed, through_json


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("refused"))


@pytest.fixture(scope="module")
def saved(data: Data) -> list[Any]:
    """The states of two ranks of 12 lanes."""
    with running(Pipeline(build=partial(train, data)), Spread(2)) as run:
        for _ in range(3):
            run.step()
        states: list[Any] = through_json(run.states())
        return states


def restore(build: Callable[[WorkerConfig], SavableDataset[Any]], states: Any, ranks: int = 1, **config: Any) -> None:
    loader = get_savable_loader(build(WorkerConfig(rank=0, world_size=ranks, num_workers=0, **config)))
    loader.restore_state_global(states)


@pytest.mark.parametrize("ranks", [5, 7, 8, 9, 24])
def test_numbers_of_ranks_that_do_not_divide_the_lanes_are_told_those_that_do(
    ranks: int, data: Data, saved: list[Any]
) -> None:
    with pytest.raises(StateError, match=f"12 lanes cannot be split over {ranks} ranks") as caught:
        restore(partial(train, data), saved, ranks)
    assert "1, 2, 3, 4, 6, 12" in str(caught.value)


def test_a_state_that_does_not_fit_is_refused_by_what_differs(data: Data, saved: list[Any]) -> None:
    def refusal(build: Any = None, states: Any = saved, **config: Any) -> str:
        with pytest.raises(StateError) as caught:
            restore(build or partial(train, data), states, **config)
        return str(caught.value)

    assert "seed_offset 0 → 7" in refusal(seed_offset=7)
    assert "lanes 12 → 24" in refusal(lanes=24)
    assert "batch_size 3 → 4" in refusal(partial(train, data, batch_size=4))
    assert "shuffle_buffer_size 20 → 21" in refusal(partial(train, data, shuffle_buffer_size=21))
    assert "samples 157 → 40" in refusal(partial(train, data, path="more"))
    stages = "stages [read → decode → encode_sample → batch → encode_batch] → [read → decode → batch]\n"
    assert stages in refusal(partial(train, data, encoder=TaskEncoder))
    assert "found those of ranks [0]" in refusal(states=saved[:1])
    assert "found those of ranks [1, 1]" in refusal(states=[saved[1], saved[1]])
    other = sealed({**saved[1], "batch": saved[1]["batch"] + 2})
    assert "different steps: the next micro-batches are 6, 8" in refusal(states=[saved[0], other])
    older = refusal(states=[{**saved[0], "version": 2}, saved[1]])
    assert "expected a state of version 4, found version 2" in older
    assert "restore it with the version of energon-toolkit that saved it, or start a new run" in older
    assert "damaged" in refusal(states=[{**saved[0], "lane": 3}, saved[1]])
    assert "found a str" in refusal(states=["state.pt"])
    assert "the states of all ranks, found a str" in refusal(states="state.pt")
    assert "the states of all ranks, found a dict with the keys ['step', 'loader']" in refusal(
        states={"step": 3, "loader": saved}
    )
    assert "restore_state_rank() takes that of save_state_rank()" in refusal(states=saved[0])


def test_a_rank_refuses_the_state_of_another(data: Data, saved: list[Any]) -> None:
    loader = get_savable_loader(train(data, WorkerConfig(rank=0, world_size=2, num_workers=0)))
    with pytest.raises(StateError, match=r"rank 1 of 2; this is rank 0 of 2\n.*the state that it saved itself$"):
        loader.restore_state_rank(saved[1])
    loader = get_savable_loader(train(data, WorkerConfig(rank=0, world_size=1, num_workers=0)))
    with pytest.raises(StateError, match=r"restore_state_global\(\), or .* `energon checkpoint redist`$"):
        loader.restore_state_rank(saved[0])
