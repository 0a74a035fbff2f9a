"""Windows: each sample in one group, groups of equal cost, and positions that any chunk of a stream gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loader import packing
from loader.arrays import IntArray
from loader.errors import ConfigError
from loader.order import FinitePass, PlannedLane, RepeatedOrder, SourceOrder, WindowPlan
from loader.order.windows import Costs

COSTS = st.lists(st.integers(0, 90), max_size=70)


def log_normal(count: int, *, seed: int = 0, costs: int = 1) -> Costs:
    return np.clip(np.exp(np.random.default_rng(seed).normal(5, 1, (count, costs))), 16, 1024).round()


def costs_of(source: IntArray, sample: IntArray) -> Costs:
    return ((sample * 37 + source * 11) % 90).astype(np.float64)[:, None]


def lane(plan: WindowPlan, *, number: int = 0, lanes: int = 2, samples: int = 45, repeats: bool = True) -> PlannedLane:
    sources = (SourceOrder(samples=samples, slice_length=5, shuffle_buffer=8),)
    order: Any = RepeatedOrder(sources, (1.0,), lanes, 3) if repeats else FinitePass(sources, (1.0,), lanes, 3)
    return PlannedLane(order.lane(number), plan, costs_of, 3)


@given(costs=COSTS, plan=st.sampled_from([WindowPlan(capacity=(100.0,)), WindowPlan(group_samples=4)]))
def test_each_sample_of_a_window_is_in_one_group(costs: list[int], plan: WindowPlan) -> None:
    groups = plan.groups(np.array(costs, float).reshape(-1, 1), key=5)
    assert sorted(int(place) for group in groups for place in group) == [*range(len(costs))]
    if plan.capacity is not None:
        assert all(sum(costs[place] for place in group) <= 100 for group in groups)
    else:
        sizes = [len(group) for group in groups]
        assert sizes == [4] * (len(costs) // 4) + [len(costs) % 4] * (len(costs) % 4 > 0)


@pytest.mark.parametrize(
    ("plan", "most"),
    [(WindowPlan(group_samples=16), 1.03), (WindowPlan(capacity=(8192.0,)), 1.01)],
    ids=["micro-batches", "packs"],
)
def test_groups_of_many_lanes_cost_nearly_the_same(plan: WindowPlan, most: float) -> None:
    sums = []
    for number in range(24):
        costs = log_normal(plan.samples, seed=number)
        sums.append([costs[group].sum() for group in plan.groups(costs, key=1)])
    shortest = min(map(len, sums))
    steps = np.array([row[:shortest] for row in sums])
    assert (steps.max(axis=0) / steps.mean(axis=0)).mean() <= most


def test_groups_of_two_costs_are_even_in_both() -> None:
    costs = np.exp(np.random.default_rng(0).normal(0, 1, (8192, 2)))
    costs = np.minimum(costs, 16 * costs.mean(axis=0))
    sums = np.array([costs[group].sum(axis=0) for group in WindowPlan(group_samples=64).groups(costs, key=1)])
    assert (sums.max(axis=0) / sums.mean(axis=0) <= 1.05).all()


def test_large_samples_of_all_lanes_come_in_the_same_steps() -> None:
    places = set()
    for seed in range(4):
        costs = np.ones((64, 1))
        costs[np.random.default_rng(seed).integers(64)] = 20
        groups = WindowPlan(group_samples=8).groups(costs, key=9)
        places.add(next(place for place, group in enumerate(groups) if costs[group].max() == 20))
    assert len(places) == 1


@pytest.mark.parametrize("repeats", [True, False], ids=["endless", "pass"])
@pytest.mark.parametrize("plan", [WindowPlan(samples=12, group_samples=4), WindowPlan(samples=10, capacity=(120.0,))])
def test_any_chunk_of_a_stream_gives_the_same_samples(plan: WindowPlan, repeats: bool) -> None:
    stream = lane(plan, repeats=repeats)
    stop = stream.length or 60
    whole = [tuple(row) for row in np.column_stack(stream.locate(0, stop)).tolist()]
    for size in (1, 7, 30):
        again = lane(plan, repeats=repeats)
        pieces = [np.column_stack(again.locate(start, min(start + size, stop))) for start in range(0, stop, size)]
        assert [tuple(row) for piece in pieces for row in piece.tolist()] == whole
    # The windows have the samples of the stream before, in another order.
    inner = stream._inner
    for start in range(0, stop, plan.samples):
        before = np.column_stack(inner.locate(start, min(start + plan.samples, stop))).tolist()
        assert sorted(map(tuple, before)) == sorted(whole[start : start + plan.samples])


def test_groups_end_at_the_positions_that_the_stream_says() -> None:
    stream = lane(WindowPlan(samples=10, capacity=(120.0,)), repeats=False)
    position, costs = 0, []
    while position < (stream.length or 0):
        size, is_left_out = stream.group_at(position)
        assert size >= 1
        assert not is_left_out
        source, _, sample = stream.locate(position, position + size)
        costs.append(float(costs_of(source, sample).sum()))
        position += size
    assert position == stream.length
    assert max(costs) <= 120
    with pytest.raises(StopIteration):
        stream.group_at(position)


def test_samples_above_the_capacity_are_alone_or_left_out() -> None:
    alone = WindowPlan(samples=20, capacity=(60.0,), oversized="alone")
    for oversized in ("alone", "hook", "skip"):
        stream = lane(WindowPlan(samples=20, capacity=(60.0,), oversized=oversized))
        position, large = 0, 0
        while position < 20:
            size, is_left_out = stream.group_at(position)
            source, _, sample = stream.locate(position, position + size)
            is_large = bool((costs_of(source, sample) > 60).any())
            assert is_left_out == (is_large and oversized == "skip")
            assert size == 1 or not is_large
            large += is_large
            position += size
        assert large > 0
    assert alone.settings()["oversized"] == "alone"


def test_a_packer_that_loses_items_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packing.PACKERS, "lossy", lambda costs, capacity: [np.arange(len(costs) - 1)])
    with pytest.raises(ConfigError, match="the packer 'lossy' put 9 items into packs, given 10"):
        WindowPlan(packer="lossy", capacity=(1e9,)).groups(np.ones((10, 1)), key=0)


@pytest.mark.parametrize(
    ("packer", "message"),
    [
        (lambda costs, _: [np.arange(len(costs))], r"made a pack that costs \[10.0\], above the capacity \[4.0\]"),
        (lambda costs, _: 1 // 0, "failed: ZeroDivisionError"),
        (lambda costs, _: None, "failed: TypeError"),
        (lambda costs, _: [[0.0, 1.0], [2.0]], r"returned a pack of type float64 and shape \(2,\)"),
        (lambda costs, _: [*range(len(costs))], r"returned a pack of type int64 and shape \(\)"),
        (lambda costs, _: [["a"]], "returned a pack of type <U1"),
        (lambda costs, _: [], "put 0 items into packs, given 10"),
    ],
)
def test_faults_of_a_packer_name_it(packer: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "load_extension", lambda _group, _name: packer)
    with pytest.raises(ConfigError, match=f"the packer 'faulty' {message}"):
        WindowPlan(packer="faulty", capacity=(4.0,)).groups(np.ones((10, 1)), key=0)


def test_a_packer_may_yield_packs_or_empty_ones_and_gets_no_oversized_items(monkeypatch: pytest.MonkeyPatch) -> None:
    def yielding(costs: Any, capacity: Any) -> Any:
        costs = costs.reshape(len(costs), -1)  # of no items, this fails
        yield from ([number] for number in range(len(costs)))
        yield []

    monkeypatch.setattr(packing, "load_extension", lambda _group, _name: yielding)
    plan = WindowPlan(packer="yielding", capacity=(4.0,), oversized="alone")
    for costs in (np.full((3, 1), 9.0), np.ones((3, 1)), np.array([[1.0], [9.0], [4.0]])):
        assert sorted(group.tolist() for group in plan.groups(costs, key=0)) == [[0], [1], [2]]


def test_windows_are_no_longer_than_the_share_of_a_lane_in_an_epoch() -> None:
    plan = WindowPlan(samples=100, group_samples=4)
    assert [plan.within_epochs(samples, 3).samples for samples in (1000, 300, 299, 100, 3)] == [100, 100, 100, 32, 4]
    assert WindowPlan(samples=100, capacity=(9.0,)).within_epochs(100, 3).samples == 34


def test_windows_of_the_default_size_grow_until_they_have_100_groups() -> None:
    grown = [WindowPlan(grows=True).grown(samples).samples for samples in (16, 164, 500, 1e9)]
    assert grown == [16_384, 32_768, 65_536, 262_144]
    assert WindowPlan(samples=100).grown(500).samples == 100
