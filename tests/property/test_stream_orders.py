"""Guarantees of whole orders, for any sources, lanes, ranks and workers."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from loader.order import (
    FinitePass,
    LaneHosting,
    PrebatchedPass,
    RepeatedOrder,
    SequentialPass,
    SourceOrder,
    StreamOrder,
    samples_of_batch,
)

SIZES = [1, 2, 63, 64, 65, 257]
LANES = st.sampled_from([1, 2, 3, 5, 16, 48, 64])
SEEDS = st.integers(0, 2**64 - 1)
EPOCHS_TOGETHER = st.sampled_from([None, 1, 2, 3])
BATCH_SIZES = st.sampled_from([1, 3, 4, 16, 33])


class Sample(NamedTuple):
    source: int
    epoch: int
    number: int


@st.composite
def sources(
    draw: st.DrawFn, *, most: int = 3, epochs_together: st.SearchStrategy[int | None] = EPOCHS_TOGETHER
) -> tuple[SourceOrder, ...]:
    return tuple(
        SourceOrder(
            samples=draw(st.one_of(st.sampled_from(SIZES), st.integers(1, 300))),
            slice_length=draw(st.integers(1, 60)),
            shuffle_buffer=draw(st.sampled_from([0, 2, 40, 1000])),
            epochs_together=draw(epochs_together),
            seed=draw(SEEDS),
        )
        for _ in range(draw(st.integers(1, most)))
    )


@st.composite
def finite_passes(draw: st.DrawFn) -> FinitePass:
    some = draw(sources())
    repetitions = tuple(draw(st.one_of(st.sampled_from([1, 0.1, 0.5, 1.5, 2.5, 3]), st.floats(0.01, 4))) for _ in some)
    return FinitePass(some, repetitions, draw(LANES), draw(SEEDS))


@st.composite
def repeated_orders(draw: st.DrawFn) -> RepeatedOrder:
    some = draw(sources())
    return RepeatedOrder(some, tuple(draw(st.floats(0.01, 100)) for _ in some), draw(LANES), draw(SEEDS))


@st.composite
def sequential_passes(draw: st.DrawFn) -> SequentialPass:
    return SequentialPass(tuple(draw(st.lists(st.integers(0, 300), max_size=4))), draw(LANES))


def prebatched(passes: st.SearchStrategy[FinitePass | SequentialPass]) -> st.SearchStrategy[PrebatchedPass]:
    return st.builds(PrebatchedPass, passes, BATCH_SIZES)


def as_samples(columns: Iterable[npt.NDArray[np.int64]]) -> list[Sample]:
    return list(map(Sample, *(column.tolist() for column in columns)))


def stretch(order: StreamOrder, lane: int, start: int, stop: int) -> list[Sample]:
    return as_samples(order.lane(lane).locate(start, stop))


def length_of(order: StreamOrder, lane: int) -> int:
    """Return the length of a lane that ends."""
    length = order.lane(lane).length
    assert length is not None
    return length


def whole_lane(order: StreamOrder, lane: int) -> list[Sample]:
    return stretch(order, lane, 0, length_of(order, lane))


def whole_pass(order: StreamOrder) -> list[Sample]:
    return [sample for lane in range(order.lanes) for sample in whole_lane(order, lane)]


def samples_of_pass(order: FinitePass) -> list[tuple[int, int, int]]:
    """Count the samples of each epoch of a pass by brute force."""
    expected = []
    for place, (source, times) in enumerate(zip(order.sources, order.repetitions, strict=True)):
        whole = int(times)
        counts = [source.samples] * whole + [int(times * source.samples) - whole * source.samples]
        expected += [(place, epoch, count) for epoch, count in enumerate(counts) if count]
    return expected


# ------------------------------------------------------------------------------------------------ one pass


@given(order=finite_passes())
def test_a_pass_has_each_sample_once_in_each_of_its_epochs_and_a_part_of_the_last(order: FinitePass) -> None:
    samples = whole_pass(order)
    assert len(set(samples)) == len(samples)
    assert all(0 <= sample.number < order.sources[sample.source].samples for sample in samples)
    epochs = Counter((sample.source, sample.epoch) for sample in samples)
    assert sorted((*epoch, count) for epoch, count in epochs.items()) == samples_of_pass(order)


@given(order=finite_passes())
def test_lanes_of_a_pass_differ_by_a_sample_at_most(order: FinitePass) -> None:
    lengths = [length_of(order, lane) for lane in range(order.lanes)]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("source_count", [3, 200])
def test_even_sources_of_a_single_sample_are_spread_over_all_lanes(source_count: int) -> None:
    some = tuple(SourceOrder(samples=1, slice_length=1, seed=seed) for seed in range(source_count))
    order = FinitePass(some, (1,) * source_count, lanes=48, seed=0)
    assert sorted({length_of(order, lane) for lane in range(48)}) == sorted(
        {source_count // 48, -(-source_count // 48)}
    )


@given(order=finite_passes())
def test_all_sources_of_a_pass_end_together(order: FinitePass) -> None:
    for lane in range(0, order.lanes, 7):
        samples = whole_lane(order, lane)
        for source in range(len(order.sources)):
            mine = [at for at, sample in enumerate(samples) if sample.source == source]
            # A source's share grows evenly: it is never off by more than a block and a sample.
            if mine:
                expected = (np.arange(len(mine)) + 0.5) * len(samples) / len(mine)
                assert np.abs(np.array(mine) - expected).max() <= 2 * len(samples) / len(mine) + 256 + len(
                    order.sources
                )


@given(together=st.sampled_from([1, 2, 3]), length=st.integers(1, 20), whole=st.integers(0, 5), seed=SEEDS)
def test_a_part_of_an_epoch_is_a_different_one_in_each_epoch(together: int, length: int, whole: int, seed: int) -> None:
    source = (SourceOrder(samples=1000, slice_length=length, epochs_together=together, seed=seed),)
    parts = [
        {sample.number for sample in whole_lane(FinitePass(source, (times + 0.5,), 1, 0), 0) if sample.epoch == times}
        for times in (whole, whole + 1)
    ]
    assert [len(part) for part in parts] == [500, 500]
    assert parts[0] != parts[1]


@given(source=sources(most=1, epochs_together=st.just(-1)), lanes=LANES, times=st.floats(0.1, 3))
def test_a_pass_that_draws_with_replacement_has_as_many_samples_as_one_that_does_not(
    source: tuple[SourceOrder, ...], lanes: int, times: float
) -> None:
    samples = whole_pass(FinitePass(source, (times,), lanes, 0))
    assert len(samples) == int(times * source[0].samples)
    assert all(0 <= sample.number < source[0].samples for sample in samples)


@given(order=sequential_passes())
def test_validation_lanes_one_after_another_are_the_sources_one_after_another(order: SequentialPass) -> None:
    expected = [Sample(source, 0, number) for source, count in enumerate(order.samples) for number in range(count)]
    assert whole_pass(order) == expected


# ----------------------------------------------------------------------------- passes in fixed micro-batches


def micro_batches(order: RepeatedOrder | PrebatchedPass, batch_size: int, numbers: range) -> list[list[Sample]]:
    return [as_samples(samples_of_batch(order, number, batch_size)) for number in numbers]


@settings(max_examples=15)  # each looks up some hundred micro-batches
@given(order=st.builds(PrebatchedPass, finite_passes(), st.sampled_from([4, 5, 16, 33])))
def test_micro_batches_of_a_pass_hold_each_sample_once_and_at_most_the_last_is_short(order: PrebatchedPass) -> None:
    batches = micro_batches(order, order.batch_size, range(order.batches))
    assert sorted(sample for batch in batches for sample in batch) == sorted(whole_pass(order.inner))
    assert all(len(batch) == order.batch_size for batch in batches[:-1])
    assert not batches or 1 <= len(batches[-1]) <= order.batch_size


@given(order=prebatched(finite_passes()))
def test_lanes_give_whole_micro_batches_of_their_own_until_the_shortest_runs_out(order: PrebatchedPass) -> None:
    own = min(length_of(order.inner, lane) for lane in range(order.lanes)) // order.batch_size * order.batch_size
    for lane in range(0, order.lanes, 7):
        assert stretch(order, lane, 0, own) == stretch(order.inner, lane, 0, own)


@pytest.mark.parametrize("samples", range(50))
@pytest.mark.sampled(3)
def test_lanes_that_just_have_and_just_miss_a_whole_micro_batch_lose_nothing(samples: int) -> None:
    source = SourceOrder(samples=samples + 1, slice_length=3, shuffle_buffer=5)
    order = PrebatchedPass(FinitePass((source,), (1,), 3, 0), 4)
    batches = micro_batches(order, 4, range(order.batches))
    assert sorted(sample.number for batch in batches for sample in batch) == list(range(samples + 1))
    assert [len(batch) for batch in batches[:-1]] == [4] * (samples // 4)


@given(order=prebatched(sequential_passes()))
def test_validation_micro_batches_are_the_sources_cut_in_order_whatever_the_lanes(order: PrebatchedPass) -> None:
    batches = micro_batches(order, order.batch_size, range(order.batches))
    joined = whole_pass(order.inner)
    size = order.batch_size
    assert batches == [joined[start : start + size] for start in range(0, len(joined), size)]


# ------------------------------------------------------------------------------------------ any way to a position


@given(
    order=st.one_of(finite_passes(), repeated_orders(), sequential_passes(), prebatched(finite_passes())),
    data=st.data(),
)
def test_a_lane_is_the_same_in_any_chunks_and_after_a_journey_to_another_process(
    order: StreamOrder, data: st.DataObject
) -> None:
    lane = data.draw(st.integers(0, order.lanes - 1))
    length = order.lane(lane).length
    length = 700 if length is None else length
    cuts = sorted(data.draw(st.lists(st.integers(0, length), max_size=8)))
    again = pickle.loads(pickle.dumps(order))
    assert again == order
    pieces = [stretch(again, lane, start, stop) for start, stop in zip([0, *cuts], [*cuts, length], strict=True)]
    assert [sample for piece in pieces for sample in piece] == stretch(order, lane, 0, length)
    assert pickle.loads(pickle.dumps(again)) == order  # also after lanes were opened


@given(order=repeated_orders(), start=st.integers(0, 10**12))
def test_a_position_far_away_is_reached_directly(order: RepeatedOrder, start: int) -> None:
    lane = order.lanes - 1
    chunk = stretch(order, lane, start, start + 20)
    assert [stretch(order, lane, start + at, start + at + 1)[0] for at in range(0, 20, 5)] == chunk[::5]


# --------------------------------------------------------------------------------------------------- repeating


@settings(max_examples=20)
@given(source=sources(most=1, epochs_together=st.sampled_from([None, 1, 2])), lanes=LANES, seed=SEEDS)
def test_while_repeating_lanes_together_see_each_sample_once_an_epoch(
    source: tuple[SourceOrder, ...], lanes: int, seed: int
) -> None:
    order = RepeatedOrder(source, (1.0,), lanes, seed)
    # After twice their share, all lanes have finished the first epochs, and none has restarted the last one.
    share = 2 * -(-max(source[0].samples, 4 * lanes) * 2 // lanes)
    samples = Counter(sample for lane in range(lanes) for sample in stretch(order, lane, 0, share))
    assert set(samples.values()) == {1}
    assert {Sample(0, epoch, number) for epoch in (0, 1) for number in range(source[0].samples)} <= set(samples)


@given(order=repeated_orders(), lane=st.integers(0, 63))
def test_a_blend_without_end_keeps_its_proportions_and_each_source_its_own_order(
    order: RepeatedOrder, lane: int
) -> None:
    lane %= order.lanes
    samples = stretch(order, lane, 0, 2000)
    for place, source in enumerate(order.sources):
        mine = [(sample.epoch, sample.number) for sample in samples if sample.source == place]
        alone = stretch(RepeatedOrder((source,), (1.0,), order.lanes, order.seed), lane, 0, len(mine))
        assert mine == [(sample.epoch, sample.number) for sample in alone]
        share = order.weights[place] / sum(order.weights)
        assert len(mine) / 2000 == pytest.approx(share, abs=0.15)


# ------------------------------------------------------------------------------------------- ranks and workers


def batches_of_rank(order: StreamOrder, batch_size: int, hosting: LaneHosting) -> Iterator[tuple[int, list[Sample]]]:
    """Yield a rank's micro-batches as its worker processes produce them: in turn, each from its own lanes."""
    lanes = [order.lane(lane) for lane in range(order.lanes)]

    def work(worker: int) -> Iterator[tuple[int, list[Sample]] | None]:
        # The position of each lane follows from the micro-batch at which the run was interrupted.
        batches = [*hosting.first_round(worker)]
        done = [len(range(batch % order.lanes, hosting.first_batch, order.lanes)) * batch_size for batch in batches]
        while batches:
            for turn, batch in enumerate(batches):
                lane = lanes[batch % order.lanes]
                if order.batches is not None and batch >= order.batches:
                    return
                stop = done[turn] + batch_size if lane.length is None else min(done[turn] + batch_size, lane.length)
                yield batch, as_samples(lane.locate(done[turn], stop))
                done[turn] = stop
            yield from [None] * (hosting.turns - len(batches))
            batches = [batch + order.lanes for batch in batches]

    workers = [work(worker) for worker in range(max(1, hosting.workers))]
    while workers:
        for worker in list(workers):
            try:
                made = next(worker)
            except StopIteration:
                workers.remove(worker)  # as torch's DataLoader does
                continue
            if made is not None:
                yield made


def run_of(
    order: PrebatchedPass | RepeatedOrder,
    batch_size: int,
    ranks: int,
    workers: int,
    *,
    first_batch: int = 0,
    batches: int,
) -> list[tuple[int, list[Sample]]]:
    """Return the micro-batches of all ranks up to a number, in the order of their numbers."""
    made: list[tuple[int, list[Sample]]] = []
    for rank in range(ranks):
        hosting = LaneHosting(lanes=order.lanes, ranks=ranks, rank=rank, workers=workers, first_batch=first_batch)
        count = len(range(first_batch + rank, batches, ranks))
        made += islice(batches_of_rank(order, batch_size, hosting), count)
    return sorted(made)


@settings(max_examples=12)  # each makes up to two hundred micro-batches
@given(
    order=st.one_of(repeated_orders(), prebatched(finite_passes()), prebatched(sequential_passes())),
    batch_size=BATCH_SIZES,
    before=st.tuples(st.integers(1, 64), st.integers(0, 7)),
    after=st.tuples(st.integers(1, 64), st.integers(0, 7)),
    data=st.data(),
)
def test_a_run_cut_off_and_continued_elsewhere_gives_the_micro_batches_that_the_order_says(
    order: RepeatedOrder | PrebatchedPass,
    batch_size: int,
    before: tuple[int, int],
    after: tuple[int, int],
    data: st.DataObject,
) -> None:
    batch_size = getattr(order, "batch_size", batch_size)
    # Numbers of ranks that divide the lanes, and batches of a pass at which all ranks have the same count.
    ranks = [max(count for count in range(1, most + 1) if order.lanes % count == 0) for most, _ in (before, after)]
    total = min(100, 100 if order.batches is None else order.batches)
    cut = data.draw(st.integers(0, total // ranks[0])) * ranks[0]
    made = run_of(order, batch_size, ranks[0], before[1], batches=cut)
    made += run_of(order, batch_size, ranks[1], after[1], first_batch=cut, batches=total)
    assert made == list(enumerate(micro_batches(order, batch_size, range(total))))


@pytest.mark.parametrize(
    ("samples", "lanes"),
    [
        pytest.param(samples, lanes, marks=() if (at + turn) % 3 == 0 else pytest.mark.slow)
        for at, samples in enumerate(SIZES)
        for turn, lanes in enumerate([1, 2, 3, 16, 48, 63, 64])
    ],
)
@pytest.mark.sampled(3)
def test_the_smallest_datasets_fill_all_lanes_and_workers_while_they_repeat_and_come_once_where_they_do_not(
    samples: int, lanes: int
) -> None:
    source = (SourceOrder(samples=samples, slice_length=100, shuffle_buffer=100, seed=5),)
    repeated = RepeatedOrder(source, (1.0,), lanes, 0)
    for workers in (0, 1, 5, 63, 64):
        made = run_of(repeated, 4, 1, workers, batches=2 * lanes)
        assert [(number, len(batch)) for number, batch in made] == [(number, 4) for number in range(2 * lanes)]
    finite = PrebatchedPass(FinitePass(source, (1,), lanes, 0), 4)
    for workers, order in product((0, 1, 5, 64), (finite, PrebatchedPass(SequentialPass((samples,), lanes), 4))):
        # One more micro-batch than the pass has is requested, and is not delivered.
        made = run_of(order, 4, 1, workers, batches=order.batches + 1)
        assert sorted(sample for _, batch in made for sample in batch) == [Sample(0, 0, n) for n in range(samples)]
