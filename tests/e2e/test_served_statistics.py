"""A loader that serves several data ranks measures them together: sums, and the waits of its loop for all of them."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torch import distributed

from loader import ConfigError, StateError, StatsOptions, WorkerConfig, get_loader
from tests.e2e.drawing_encoders import Restorable
from tests.e2e.drawing_pipelines import Data, train, val, write_data
from tests.e2e.rank_processes import rank_processes
from tests.logical_clock import logical_clock, spend

__all__ = ["logical_clock"]


class Slow(Restorable):
    def encode_sample(self, sample: Any) -> Any:
        spend(0.01)
        return super().encode_sample(sample)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("served_statistics"))


def config(*, rank: int = 0, workers: int = 0, group: Any = None) -> WorkerConfig:
    return WorkerConfig(rank=rank, world_size=4, num_workers=workers, lanes=8, data_parallel_group=group)


def test_statistics_are_sums_over_the_served_ranks(data: Data) -> None:
    own = []
    for rank in (1, 3):
        with get_loader(train(data, config(rank=rank), encoder=Restorable)) as plain:
            assert len([*islice(plain, 6)]) == 6
            own.append(plain.stats())
    with get_loader(train(data, config(), encoder=Restorable), serves=[1, 3]) as loader:
        assert len([*islice(loader, 6)]) == 6
        stats = loader.stats()
    assert (stats.rank, stats.ranks, stats.steps, stats.step) == (1, 4, 6, 6)
    assert stats.samples == sum(one.samples for one in own) > 0
    assert stats.size_bytes == sum(one.size_bytes for one in own)
    assert [source.samples for source in stats.sources] == [
        sum(source.samples for source in same) for same in zip(*(one.sources for one in own), strict=True)
    ]
    assert [worker.worker for worker in stats.workers] == [0, 1]


@pytest.mark.usefixtures("logical_clock")
@pytest.mark.parametrize("workers", [0, 1])
def test_the_waits_are_those_of_the_loop_for_all_of_them(data: Data, workers: int) -> None:
    with get_loader(train(data, config(workers=workers), encoder=Slow), serves=[0, 2]) as loader:
        for _ in islice(loader, 20):
            pass
        stats = loader.stats()
    assert 0 < stats.waited_s <= stats.elapsed_s
    assert sum(stats.waited_for.values()) == pytest.approx(stats.waited_s, rel=0.02)
    causes = [cause for cause in stats.waited_for if cause != "start"]
    assert causes[0] == "encode_sample", stats
    assert any(line.startswith("bound by encode_sample: ") for line in stats.suggestions), stats.suggestions


def test_a_rank_that_ends_earlier_counts_up_to_there(data: Data) -> None:
    with get_loader(val(data, config()), serves=[0, 1, 2, 3]) as loader:
        steps = [*loader]
        stats = loader.stats()
    assert stats.steps == len(steps)
    assert stats.waited_s <= stats.elapsed_s


def test_the_trace_has_a_process_of_each_served_rank(data: Data, tmp_path: Path) -> None:
    with get_loader(train(data, config(workers=1), encoder=Restorable), serves=[1, 2]) as loader:
        steps = iter(loader)
        next(steps)
        with loader.profile(tmp_path / "trace.json", steps=5) as profile:
            assert len([*islice(steps, 8)]) == 8
    assert profile.stats is not None
    assert profile.stats.steps == 8
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {
        "loader of rank 1",
        "loader of rank 2",
    }
    ranks = [event["pid"] for event in events if event["name"] == "next"]
    assert (ranks.count(1), ranks.count(2)) == (5, 5)
    assert all(event["ts"] >= 0 for event in events if event["ph"] == "X")


@pytest.mark.parametrize("by_options", [True, False])
def test_headroom_repeats_whole_steps(data: Data, by_options: bool) -> None:
    options = StatsOptions(headroom=by_options, every_s=None)
    loader = get_loader(train(data, config(), encoder=Restorable), serves=[0, 3], stats=options)
    if not by_options:
        loader.headroom(rounds=1)
    found = [*islice(loader, 38)]
    headroom = loader.stats().headroom
    assert headroom is not None
    assert headroom.loaded_steps == headroom.cached_steps == 16
    plain = [*islice(get_loader(train(data, config(), encoder=Restorable), serves=[0, 3]), 21)]
    assert [*map(str, [*found[:20], found[37]])] == [*map(str, plain)]
    assert all(any(step is kept for kept in found[16:20]) for step in found[20:37])
    state = loader.save_state_rank()
    batches = iter(loader)
    next(batches)
    loader.restore_state_rank(state)
    with pytest.raises(StateError, match="this iteration of the loader is over"):
        next(batches)


def test_a_loader_without_statistics_says_so(data: Data) -> None:
    loader = get_loader(train(data, config()), serves=[0, 1], stats=False)
    with pytest.raises(ConfigError, match="measures nothing"):
        loader.stats()


def gathered(process: int, data: Data) -> tuple[list[int], int | None]:
    served = [(0, 1), (2, 3)][process]
    loader = get_loader(
        train(data, config(group=distributed.group.WORLD), encoder=Slow if process else Restorable), serves=served
    )
    for _ in islice(loader, 10):
        pass
    stats = loader.stats(gather=True)
    return [one.rank for one in stats.ranks_waited], stats.slowest_rank


def test_the_waits_of_all_processes_are_gathered(data: Data, tmp_path: Path) -> None:
    with rank_processes(2, tmp_path) as ranks:
        for known, slowest in ranks.run(gathered, data):
            assert known == [0, 1, 2, 3]
            assert slowest in (2, 3)
