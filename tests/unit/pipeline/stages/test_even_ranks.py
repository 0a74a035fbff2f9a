"""Passes that end on all ranks after the same number of micro-batches."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.epochize import EpochizeDataset
from loader.pipeline.stages.even_ranks import EvenRanksDataset
from loader.pipeline.stages.filter import FilterDataset
from loader.pipeline.stages.limit import LimitDataset
from loader.testing.stage import Values
from loader.training.loaders.data_loader import SavableDataLoader
from tests.unit.pipeline.even_ranks_child import is_even_or_small, run_rank


def config(rank: int, world_size: int) -> WorkerConfig:
    return WorkerConfig(rank=rank, world_size=world_size, num_workers=0, lanes=12)


def loader_of(make: Callable[..., Any], rank: int, world_size: int) -> SavableDataLoader[Any]:
    return SavableDataLoader(EvenRanksDataset(make(config(rank, world_size))))


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("items", [0, 5, 12, 23])
def test_with_a_known_length_each_rank_gets_its_share_and_the_rest_is_dropped(items: int, world_size: int) -> None:
    got = []
    for rank in range(world_size):
        loader = loader_of(lambda config: Values(range(items), worker_config=config), rank, world_size)
        passes = [list(loader) for _ in range(3)]
        assert passes[0] == passes[1] == passes[2]
        assert len(passes[0]) == len(loader) == items // world_size
        got += passes[0]

    assert sorted(got) == list(range(items - items % world_size))


def test_an_empty_share_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    loader_of(lambda config: Values([1], worker_config=config), 0, 2)

    assert "leaves no micro-batch to any rank" in caplog.text


@pytest.mark.parametrize("done", range(5))
def test_a_restored_rank_gets_the_rest_of_its_share(done: int) -> None:
    def make(config: WorkerConfig) -> Values:
        return Values(range(9), worker_config=config)

    loader = loader_of(make, 0, 2)
    given = iter(loader)
    for _ in range(done):
        next(given)
    state = loader.save_state_rank()
    rest = list(given)
    restored = loader_of(make, 0, 2)
    restored.restore_state_rank(state)

    assert [list(restored), list(restored)] == [rest, [0, 2, 4, 6]]


def test_virtual_epochs_are_even_already_and_follow_each_other() -> None:
    loader = loader_of(lambda config: EpochizeDataset(Values(range(12), repeats=True, worker_config=config), 4), 1, 2)
    endless = loader_of(lambda config: Values(range(24), repeats=True, worker_config=config), 1, 2)

    assert [list(loader), list(loader)] == [[1, 3, 5, 7], [9, 11, 1, 3]]
    assert [item for item, _ in zip(endless, range(20), strict=False)] == [(1 + 2 * step) % 24 for step in range(20)]
    with pytest.raises(TypeError, match="repeats without end"):
        len(endless)


def test_a_single_rank_needs_no_process_group() -> None:
    loader = loader_of(lambda config: FilterDataset(Values(range(9), worker_config=config), is_even_or_small), 0, 1)

    assert [sorted(loader), sorted(loader)] == 2 * [[0, 1, 2, 3, 4, 5, 6, 7, 8]]


def test_without_a_process_group_ranks_that_have_to_agree_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"even_ranks of 2 ranks needs .* is not initialised"):
        loader_of(lambda config: FilterDataset(Values(range(9), worker_config=config), is_even_or_small), 0, 2)


def test_the_length_is_that_of_the_rank_if_the_ranks_have_to_agree() -> None:
    dataset = EvenRanksDataset(LimitDataset(Values(range(9), worker_config=config(0, 2)), 2))

    assert len(dataset) == 2


@pytest.fixture(scope="module")
def got_by_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Micro-batches of two ranks connected by a process group."""
    folder = tmp_path_factory.mktemp("ranks")
    ranks: list[Any] = [
        # Forked, since torch takes seconds to import.
        multiprocessing.get_context("fork").Process(target=run_rank, args=(rank, 2, folder), daemon=True)
        for rank in range(2)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
        rank.kill()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_without_a_known_length_the_ranks_agree_when_to_end(got_by_ranks: Any) -> None:
    assert [got["two passes"] for got in got_by_ranks] == [2 * [[0, 2, 4, 6]], 2 * [[1, 3, 5, 7]]]


def test_ranks_that_agree_stay_even_after_a_restore(got_by_ranks: list[dict[str, Any]]) -> None:
    assert [got["before"] for got in got_by_ranks] == [[0, 2], [1, 3]]
    assert [got["after"] for got in got_by_ranks] == [[[4, 6], [0, 2, 4, 6]], [[5, 7], [1, 3, 5, 7]]]


def test_even_limits_continue_until_a_rank_has_no_more(got_by_ranks: list[dict[str, Any]]) -> None:
    # Of nine items, rank 0 has five: its last is dropped, and both start over.
    assert [got["limited"] for got in got_by_ranks] == [
        [[0, 2], [4, 6], [], [0, 2]],
        [[1, 3], [5, 7], [], [1, 3]],
    ]


def test_a_group_of_another_size_is_refused(got_by_ranks: list[dict[str, Any]]) -> None:
    for got in got_by_ranks:
        assert got["another size"].startswith(
            "ConfigError: the process group has 2 ranks, the worker config has world_size=3"
        )
