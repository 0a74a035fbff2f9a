"""Order plans: equal orders for equal arguments, and the number of samples of a pass."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loader.pipeline.reading.order_plan import SequentialPlan, ShuffledPlan


def shuffled(sources: int = 2, **changes: Any) -> ShuffledPlan:
    return ShuffledPlan(
        **{
            "slice_lengths": (4,) * sources,
            "shuffle_buffer": 100,
            "epochs_together": (1,) * sources,
            "weights": (1.0,) * sources,
            **changes,
        }
    )


def first(
    plan: Any, samples: tuple[int, ...] = (50, 30), *, lanes: int = 2, seed: int = 0, count: int = 20
) -> list[list[tuple[int, int]]]:
    """Return source and sample of the first positions of each lane."""
    found = []
    for number in range(lanes):
        lane = plan.order(samples, lanes=lanes, seed=seed).lane(number)
        source, _, sample = lane.locate(0, count if lane.length is None else min(count, lane.length))
        found.append(list(zip(source.tolist(), sample.tolist(), strict=True)))
    return found


def test_equal_plans_have_equal_orders_also_after_pickling() -> None:
    assert first(shuffled()) == first(shuffled()) == first(pickle.loads(pickle.dumps(shuffled())))


@pytest.mark.parametrize(
    "other",
    [
        {"slice_lengths": (5, 4)},
        {"shuffle_buffer": 3},
        {"epochs_together": (None, 1)},
        {"epochs_together": (2, 1)},
        {"epochs_together": (-1, 1)},
        {"weights": (2.0, 1.0)},
        {"repetitions": (1.0, 1.0)},
    ],
    ids=str,
)
def test_each_argument_changes_the_order_and_the_settings(other: dict[str, Any]) -> None:
    """The buffer matters only if it changes the size of windows; 3 is the smallest."""
    plan = shuffled(**other, slice_lengths=(1, 1)) if "shuffle_buffer" in other else shuffled(**other)
    base = shuffled(slice_lengths=(1, 1)) if "shuffle_buffer" in other else shuffled()
    assert first(plan, count=40) != first(base, count=40)
    assert plan.settings() != base.settings()


def test_seeds_lanes_and_numbers_of_samples_change_the_order() -> None:
    orders = [
        first(shuffled()),
        first(shuffled(), seed=1),
        first(shuffled(), seed=-1),
        first(shuffled(), seed=1 << 63),
        first(shuffled(), samples=(50, 31)),
        first(shuffled(), samples=(30, 50)),
    ]
    assert len({str(order) for order in orders}) == len(orders)
    assert first(shuffled(), lanes=4)[0] != first(shuffled())[0]


def test_two_sources_of_equal_size_are_shuffled_differently() -> None:
    order = first(shuffled(), samples=(40, 40), lanes=1, count=80)[0]
    of_sources = [[sample for source, sample in order if source == wanted] for wanted in range(2)]
    assert of_sources[0][:10] != of_sources[1][:10]


# --------------------------------------------------------------------------------------------------------------- a pass

repetitions = st.one_of(st.integers(1, 4).map(float), st.floats(0.001, 4.0))
sizes_and_times = st.lists(st.tuples(st.integers(1, 40), repetitions), min_size=1, max_size=4)


@given(sizes_and_times, st.sampled_from([1, 2, 3, 7, 64]), st.sampled_from([None, 1, 5]))
def test_the_lanes_of_a_pass_have_the_announced_number_of_samples(
    sources: list[tuple[int, float]], lanes: int, deal: int | None
) -> None:
    samples, times = zip(*sources, strict=True)
    plan = shuffled(len(sources), repetitions=times, deal=deal)
    order = plan.order(samples, lanes=lanes, seed=3)
    lengths = [order.lane(number).length for number in range(lanes)]
    assert None not in lengths
    assert sum(length or 0 for length in lengths) == plan.items(samples)


@pytest.mark.parametrize("deal", [None, 4])
def test_validation_keeps_the_order_of_the_shards(deal: int | None) -> None:
    plan = SequentialPlan(deal=deal)
    found = first(plan, lanes=3, count=80)
    expected = [(0, number) for number in range(50)] + [(1, number) for number in range(30)]
    assert plan.items((50, 30)) == 80
    if deal is None:
        assert [sample for lane in found for sample in lane] == expected
    else:
        batches = [found[number % 3][number // 3 * 4 : number // 3 * 4 + 4] for number in range(20)]
        assert [sample for batch in batches for sample in batch] == expected
    assert first(plan, lanes=3, count=80, seed=9) == found


# ------------------------------------------------------------------------------------------------------ its description


def test_plans_report_whether_they_repeat_and_start_over() -> None:
    endless, one_pass, validation = shuffled(), shuffled(repetitions=(1.0, 2.5)), SequentialPlan(deal=3)
    assert [plan.repeats for plan in (endless, one_pass, validation)] == [True, False, False]
    assert [plan.starts_over for plan in (endless, one_pass, validation)] == [False, False, True]
    assert [plan.items((10, 4)) for plan in (endless, one_pass, validation)] == [None, 20, 14]


def test_settings_are_plain_and_short_if_all_sources_have_the_same() -> None:
    settings = shuffled(slice_lengths=(4, 5), repetitions=(1.0, 1.0), deal=8).settings()
    assert json.loads(json.dumps(settings)) == settings
    assert settings == {
        "slice_lengths": [4, 5],
        "shuffle_buffer": 100,
        "epochs_together": 1,
        "weights": 1.0,
        "repetitions": 1.0,
        "deal": 8,
    }
    assert shuffled().settings().keys() == settings.keys() - {"repetitions", "deal"}
    assert (SequentialPlan().settings(), SequentialPlan(deal=2).settings()) == ({}, {"deal": 2})


# ------------------------------------------------------------------------------------------------------ stored order


@pytest.mark.parametrize("lanes", [1, 3, 48])
def test_lanes_take_micro_batches_of_an_order_that_is_not_shuffled_in_turn(lanes: int) -> None:
    plan = ShuffledPlan(slice_lengths=(50,), shuffle_buffer=0, epochs_together=(None,), weights=(1.0,), chunk=4)
    found = first(plan, lanes=lanes, count=8, samples=(50,))
    batches = [found[number % lanes][number // lanes * 4 : number // lanes * 4 + 4] for number in range(2 * lanes)]
    assert [sample for batch in batches for _, sample in batch] == [number % 50 for number in range(8 * lanes)]


def test_shuffled_runs_keep_the_order_of_their_lanes() -> None:
    stored = ShuffledPlan(slice_lengths=(50,), shuffle_buffer=0, epochs_together=(None,), weights=(1.0,), chunk=4)
    for plan in (replace(stored, shuffle_buffer=9), replace(stored, epochs_together=(1,))):
        order = plan.order((50,), lanes=3, seed=1)
        expected = replace(plan, chunk=None).order((50,), lanes=3, seed=1)
        assert order == expected
    assert stored.settings() == replace(stored, chunk=None, shares=(1.0,)).settings()
