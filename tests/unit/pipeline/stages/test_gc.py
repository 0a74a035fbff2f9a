"""Garbage collection after a fixed number of items."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from loader.errors import ConfigError
from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.collect_garbage import GcDataset
from loader.pipeline.stages.limit import LimitDataset
from loader.pipeline.stages.map import MapDataset
from loader.testing.stage import Values, check_resumes, lane
from loader.training.loaders.data_loader import SavableDataLoader
from loader.training.workers.stream_options import StreamOptions


def each_twice(item: int) -> Iterator[Any]:
    yield item
    yield item


def with_freeze_count(item: Any) -> Any:
    return item, gc.get_freeze_count()


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of functions of ``gc`` by name."""
    counts: Counter[str] = Counter()
    monkeypatch.setattr(gc, "collect", lambda *_: counts.update(["collect"]))
    monkeypatch.setattr(gc, "freeze", lambda: counts.update(["freeze"]))
    return counts


def test_garbage_is_collected_every_n_items(collections: Counter[str]) -> None:
    running = GcDataset(Values(range(100)), every_n_iter=5).open(lane(), {})
    counts = []
    for _ in range(20):
        running.next()
        counts.append(collections["collect"])

    assert counts == [(step + 1) // 5 for step in range(20)]


def test_lanes_of_a_process_do_not_all_collect_at_once(collections: Counter[str]) -> None:
    running = [GcDataset(Values(range(100)), every_n_iter=5).open(lane(number, 5), {}) for number in range(5)]
    for each in running:
        each.next()

    assert collections["collect"] == 1


def test_the_objects_of_the_training_process_are_not_frozen(collections: Counter[str]) -> None:
    list(SavableDataLoader(GcDataset(Values(range(3)))))

    assert collections["freeze"] == 0


@pytest.mark.parametrize("freeze", [False, True])
def test_worker_processes_freeze_the_objects_that_exist_at_their_start(freeze: bool) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=1)
    collected = GcDataset(MapDataset(Values(range(4), worker_config=config), with_freeze_count), freeze=freeze)
    counts = [count for _, count in SavableDataLoader(collected, StreamOptions())]

    assert all(count > 10_000 for count in counts)


def test_a_restored_lane_continues_where_it_stopped(collections: Counter[str]) -> None:
    check_resumes(GcDataset(MapDataset(Values(range(20), skips=(1,)), each_twice), every_n_iter=3), count=2)


def test_a_run_may_be_restored_with_or_without_it(collections: Counter[str]) -> None:
    def make(dataset: Any) -> MapDataset[Any]:
        return MapDataset(dataset, each_twice)

    source = Values(range(4))
    with_it, without_it = make(GcDataset(source, every_n_iter=3)), make(source)
    assert with_it.identity() == without_it.identity()

    loader = SavableDataLoader(with_it)
    given = iter(loader)
    next(given)
    other = SavableDataLoader(without_it)
    other.restore_state_rank(loader.save_state_rank())
    assert list(other) == list(given)


def test_it_may_be_above_a_limit() -> None:
    assert list(SavableDataLoader(GcDataset(LimitDataset(Values(range(9)), 3)))) == [0, 1, 2]


def test_the_printed_chain_shows_the_interval() -> None:
    assert str(GcDataset(Values([]), every_n_iter=3)).splitlines() == ["gc(every_n_iter=3)", "└─ values()"]


def test_collecting_every_0_items_is_refused() -> None:
    with pytest.raises(ConfigError, match="every_n_iter of at least 1"):
        GcDataset(Values([]), every_n_iter=0)
