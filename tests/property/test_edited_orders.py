"""Guarantees of orders whose mix changes while they run, for any edits, lanes and positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from loader.errors import StateError
from loader.order import (
    GONE,
    BlendOrder,
    EditedLane,
    EditedOrder,
    LaneMixes,
    Mix,
    MixHistory,
    RepeatedOrder,
    SourceOrder,
    WeightSchedule,
    quantise_weights,
)

POOL = 5  # sources that a mix may have
EditedRun = tuple[tuple[SourceOrder, ...], list[tuple[Mix, int]], int, int, int]
"""Sources, mixes with the lengths of their stretches, the lanes, a lane and a seed."""

WEIGHTS = st.one_of(st.sampled_from([1.0, 1e-7, 3.0]), st.floats(0.01, 100))


@st.composite
def pools(draw: st.DrawFn) -> tuple[SourceOrder, ...]:
    return tuple(
        SourceOrder(
            samples=draw(st.one_of(st.sampled_from([1, 2, 64, 257]), st.integers(1, 300))),
            slice_length=draw(st.integers(1, 60)),
            shuffle_buffer=draw(st.sampled_from([0, 2, 40, 1000])),
            epochs_together=draw(st.sampled_from([None, 1, 2, -1])),
            seed=draw(st.integers(0, 2**64 - 1)),
        )
        for _ in range(POOL)
    )


@st.composite
def mixes(draw: st.DrawFn) -> Mix:
    origins = draw(st.lists(st.integers(0, POOL - 1), min_size=1, max_size=POOL, unique=True))
    schedule = draw(st.none() | schedules(len(origins)))
    return Mix(tuple(origins), tuple(draw(WEIGHTS) for _ in origins), schedule)


@st.composite
def schedules(draw: st.DrawFn, sources: int) -> WeightSchedule:
    """Draw the weights of some sources, some of them 0, in stretches of any length."""
    lengths = draw(st.lists(st.one_of(st.integers(1, 5), st.integers(1, 5000)), max_size=6))
    row = st.tuples(*[st.just(0.0) | WEIGHTS] * sources).filter(any)
    starts = (0, *np.cumsum(lengths).tolist()) if lengths else (0,)
    return WeightSchedule(starts, tuple(draw(row) for _ in starts), draw(st.sampled_from([1, 2, 30])))


@st.composite
def edited_runs(draw: st.DrawFn) -> EditedRun:
    """Draw sources, mixes with the lengths of their stretches, the lanes, a lane and a seed."""
    stretches = draw(st.lists(st.tuples(mixes(), st.integers(0, 700)), min_size=1, max_size=5))
    lanes = draw(st.sampled_from([1, 2, 5, 48]))
    return draw(pools()), stretches, lanes, draw(st.integers(0, lanes - 1)), draw(st.integers(0, 2**32))


def edited_lane(
    pool: tuple[SourceOrder, ...], stretches: list[tuple[Mix, int]], lanes: int, lane: int, seed: int
) -> tuple[EditedLane, list[int]]:
    """Return the lane as a run has it in its last stretch, and the stretches' starts."""
    some = tuple(mix for mix, _ in stretches)
    ends = np.cumsum([length for _, length in stretches])[:-1].tolist()
    sources = tuple(pool[origin] for origin in some[-1].origins)
    return EditedOrder(sources, some, lanes, seed).lane(lane, ends), [0, *ends]


def as_rows(columns: Iterable[npt.NDArray[np.int64]]) -> list[list[int]]:
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


@given(run=edited_runs())
def test_each_source_has_the_undisturbed_sequence_of_its_lane_through_all_edits(run: EditedRun) -> None:
    pool, stretches, lanes, lane, seed = run
    found: dict[int, list[list[int]]] = defaultdict(list)
    for turn, (mix, length) in enumerate(stretches):
        stream, starts = edited_lane(pool, stretches[: turn + 1], lanes, lane, seed)
        for source, *sample in as_rows(stream.locate(starts[-1], starts[-1] + length)):
            found[mix.origins[source]].append(sample)
    for origin, sequence in found.items():
        alone = RepeatedOrder((pool[origin],), (1.0,), lanes, 0).lane(lane)
        assert sequence == [row[1:] for row in as_rows(alone.locate(0, len(sequence)))]


@given(run=edited_runs())
def test_earlier_positions_keep_their_samples_and_those_of_sources_that_are_gone_are_marked(run: EditedRun) -> None:
    pool, stretches, lanes, lane, seed = run
    last, starts = edited_lane(pool, stretches, lanes, lane, seed)
    now = {origin: place for place, origin in enumerate(stretches[-1][0].origins)}
    for turn, (mix, length) in enumerate(stretches):
        stream, _ = edited_lane(pool, stretches[: turn + 1], lanes, lane, seed)
        before = as_rows(stream.locate(starts[turn], starts[turn] + length))
        after = as_rows(last.locate(starts[turn], starts[turn] + length))
        for (source, *sample), found in zip(before, after, strict=True):
            expected = now.get(mix.origins[source], GONE)
            assert found == ([GONE, 0, 0] if expected == GONE else [expected, *sample])


@given(run=edited_runs(), cut=st.integers(0, 3000), length=st.integers(0, 600))
def test_a_range_is_located_as_its_parts_are(run: EditedRun, cut: int, length: int) -> None:
    stream, _ = edited_lane(*run)
    middle = cut + length // 3
    parts = [stream.locate(cut, middle), stream.locate(middle, cut + length)]
    for whole, *columns in zip(stream.locate(cut, cut + length), *parts, strict=True):
        assert whole.tolist() == np.concatenate(columns).tolist()


@given(run=edited_runs())
def test_consumed_counts_every_position_once(run: EditedRun) -> None:
    _, stretches, lanes, lane, seed = run
    ends = np.cumsum([length for _, length in stretches]).tolist()
    mixes = LaneMixes([mix for mix, _ in stretches], lane=lane, lanes=lanes, seed=seed, ends=ends[:-1])
    counted = mixes.consumed(ends[-1])
    assert sum(counted.values()) == ends[-1]


@given(weights=st.lists(WEIGHTS, min_size=2, max_size=40), stop=st.integers(0, 200_000), seed=st.integers(0, 99))
def test_counts_of_a_blend_are_those_of_its_positions(weights: list[float], stop: int, seed: int) -> None:
    blend = BlendOrder(quantise_weights(weights), lane=3, seed=seed)
    expected = np.bincount(blend.locate(0, stop)[0], minlength=len(weights))
    assert blend.counts(stop).tolist() == expected.tolist()


def test_the_first_mix_alone_has_the_order_of_a_run_that_was_never_edited() -> None:
    sources = tuple(SourceOrder(samples=samples, slice_length=3, seed=samples) for samples in (40, 7))
    plain = RepeatedOrder(sources, (2, 1), 6, 11).lane(4).locate(0, 500)
    edited = EditedOrder(sources, (Mix((0, 1), (2, 1)),), 6, 11).lane(4, ()).locate(0, 500)
    assert [column.tolist() for column in edited] == [column.tolist() for column in plain]


def test_faults_are_refused() -> None:
    with pytest.raises(ValueError, match="different origins"):
        Mix((1, 1), (1, 1))
    with pytest.raises(ValueError, match="expected 1 source"):
        EditedOrder((), (Mix((0,), (1,)),), 1, 0)
    two = (Mix((0,), (1,)), Mix((0,), (1,)))
    for ends in ((), (3, 4), (-1,)):
        with pytest.raises(ValueError, match="expected 1 ascending position"):
            LaneMixes(two, lane=0, lanes=1, seed=0, ends=ends)


def test_the_end_of_a_mix_is_known_for_lanes_that_had_begun_and_zero_for_others() -> None:
    history = MixHistory(earlier=(Mix((0,), (1,)),), origins=(0,), ends=({1: 30},), batches=(3,))
    assert history.ends_of(1) == (30,)
    assert history.ends_of(7) == (0,)
    with pytest.raises(StateError, match="lane 2 at that change is not known"):
        history.ends_of(2)
