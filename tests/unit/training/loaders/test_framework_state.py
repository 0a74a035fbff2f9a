"""``state_dict()``, ``load_state_dict()`` and the truth value of a loader, as frameworks use them."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from loader import StateError, WorkerConfig, get_savable_loader
from loader.testing.stage import Values
from loader.training.loaders.data_loader import SavableDataLoader

LANES = 6


def loader_of(rank: int = 0, ranks: int = 1, **options: Any) -> SavableDataLoader[Any]:
    config = WorkerConfig(rank=rank, world_size=ranks, num_workers=0, lanes=LANES)
    return get_savable_loader(Values(range(12), repeats=True, worker_config=config), **options)


def test_a_single_rank_returns_its_own_state() -> None:
    loader = loader_of()
    list(islice(loader, 3))
    state = loader.state_dict()
    assert state == loader.save_state_rank()
    again = loader_of()
    again.load_state_dict(state)
    assert list(islice(again, 2)) == [3, 4]


def test_the_state_of_a_single_rank_is_that_of_all_ranks() -> None:
    loader = loader_of()
    list(islice(loader, 4))
    state = loader.state_dict()
    two = [loader_of(rank, 2) for rank in range(2)]
    for one in two:
        one.load_state_dict(state)
    assert [next(iter(one)) for one in two] == [4, 5]


def test_without_a_process_group_each_rank_returns_its_own_state() -> None:
    loader = loader_of(1, 2)
    assert loader.state_dict() == loader.save_state_rank()
    with pytest.raises(StateError, match="this state is of rank 1 of 2; this is rank 0 of 2"):
        loader_of(0, 2).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("state", [{}, [], {"states of all ranks": []}, {"ranks": 1}, "a state"], ids=str)
def test_other_values_than_states_are_refused(state: Any) -> None:
    with pytest.raises(StateError):
        loader_of(0, 2).load_state_dict(state)


@pytest.mark.parametrize(("rank", "ranks"), [(0, 1), (1, 2)])
def test_a_state_with_a_missing_lane_is_refused(rank: int, ranks: int) -> None:
    # As left by a tool that loads key by key into the state of a new loader, in which no lane has begun.
    loader = loader_of(rank, ranks)
    list(islice(loader, 2))
    state = loader.state_dict()
    loader_of(rank, ranks).load_state_dict(state)
    del state["lane"][str(rank)]
    with pytest.raises(StateError, match=f"lacks 1 of 2 lanes that began, such as {rank}"):
        loader_of(rank, ranks).load_state_dict(state)


def test_a_loader_whose_length_is_zero_is_truthy() -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=LANES)
    loader = get_savable_loader(Values(range(0), repeats=False, worker_config=config))
    assert len(loader) == 0
    assert loader


@pytest.mark.parametrize("asked", [True, False])
def test_memory_is_pinned_by_default_if_there_is_a_gpu(asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("loader.training.workers.worker_messages.pin_memory", lambda batch: ("pinned", batch))
    config = WorkerConfig(rank=0, world_size=1, num_workers=1, lanes=LANES)
    loader = get_savable_loader(
        Values(range(12), worker_config=config), pin_memory=asked, multiprocessing_context="fork"
    )
    first = next(iter(loader))
    loader.close()
    assert first == (("pinned", 0) if asked else 0)
