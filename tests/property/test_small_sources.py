"""Sources of few samples, and files that nothing shuffles, arrive epoch by epoch."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loader.order import SLICES_PER_LANE, samples_of_batch
from loader.pipeline.reading.order_plan import ShuffledPlan

LANES = st.sampled_from([1, 2, 3, 5, 48])
BATCH_SIZES = st.sampled_from([1, 2, 3, 7, 64])
_EPOCHS = 3


def plan_of(deal: int | None = 8, **settings: Any) -> ShuffledPlan:
    defaults: dict[str, Any] = {"slice_lengths": (100,), "shuffle_buffer": 1000, "epochs_together": (1,)}
    return ShuffledPlan(**{**defaults, "weights": (1.0,), "deal": deal, "chunk": deal or 1, **settings})


def arriving(plan: ShuffledPlan, samples: int, lanes: int, batch_size: int, count: int) -> list[int]:
    """Return the first samples of a run, in the order in which its micro-batches arrive."""
    order = plan.order([samples], lanes=lanes, seed=7)
    batches = (samples_of_batch(order, number, batch_size)[2].tolist() for number in range(-(-count // batch_size)))  # type: ignore[arg-type]
    return list(islice((sample for batch in batches for sample in batch), count))


@given(lanes=LANES, batch_size=BATCH_SIZES, data=st.data())
def test_each_epoch_of_a_small_source_arrives_whole_and_in_another_order(
    lanes: int, batch_size: int, data: st.DataObject
) -> None:
    samples = data.draw(st.integers(1, SLICES_PER_LANE * lanes - 1))
    plan = plan_of(batch_size, shuffle_buffer=data.draw(st.sampled_from([0, 2, 1000])))
    run = arriving(plan, samples, lanes, batch_size, _EPOCHS * samples)
    epochs = [run[start : start + samples] for start in range(0, len(run), samples)]
    assert all(sorted(epoch) == list(range(samples)) for epoch in epochs)
    assert samples < 20 or len({tuple(epoch) for epoch in epochs}) == _EPOCHS


@given(lanes=LANES, batch_size=BATCH_SIZES, data=st.data())
def test_samples_of_a_small_source_come_in_one_order_for_all_batch_sizes(
    lanes: int, batch_size: int, data: st.DataObject
) -> None:
    samples = data.draw(st.integers(1, SLICES_PER_LANE * lanes - 1))
    count = 2 * samples + 5
    one_by_one = arriving(plan_of(1), samples, lanes, 1, count)
    assert arriving(plan_of(batch_size), samples, lanes, batch_size, count) == one_by_one


@given(samples=st.integers(1, 500), lanes=LANES, batch_size=BATCH_SIZES)
def test_a_file_that_nothing_shuffles_arrives_in_its_order(samples: int, lanes: int, batch_size: int) -> None:
    plan = plan_of(batch_size, shuffle_buffer=0, epochs_together=(None,))
    assert arriving(plan, samples, lanes, batch_size, 2 * samples) == 2 * list(range(samples))


@pytest.mark.parametrize(
    ("samples", "settings"),
    [
        ([191], {"deal": None}),
        ([192], {}),
        ([191], {"epochs_together": (-1,)}),
        ([191, 191], {"slice_lengths": (100, 100), "weights": (1.0, 1.0), "epochs_together": (1, 1)}),
    ],
    ids=["no fixed batches", "4 samples a lane", "draws with replacement", "a blend"],
)
def test_other_sources_have_a_stream_in_each_lane(samples: list[int], settings: dict[str, Any]) -> None:
    assert plan_of(**settings).chunk_samples(samples, 48) is None
