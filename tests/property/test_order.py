"""Guarantees of the order of samples, for any sizes, lanes and settings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from loader.errors import StateError
from loader.order import (
    BlendOrder,
    LaneHosting,
    RepeatedOrder,
    SourceOrder,
    SourceOrders,
    mix,
    permute,
    quantise_weights,
)
from loader.order.source_order import SourceShuffle

LANES = st.sampled_from([1, 2, 3, 5, 48, 64])
EPOCHS_TOGETHER = st.sampled_from([None, 1, 2, 5])
SEEDS = st.integers(0, 2**64 - 1)


@st.composite
def sources(draw: st.DrawFn, *, epochs_together: st.SearchStrategy[int | None] = EPOCHS_TOGETHER) -> SourceOrder:
    return SourceOrder(
        samples=draw(st.one_of(st.sampled_from([1, 2, 63, 64, 65, 257]), st.integers(1, 700))),
        slice_length=draw(st.integers(1, 120)),
        shuffle_buffer=draw(st.sampled_from([0, 1, 2, 10, 333, 10_000])),
        epochs_together=draw(epochs_together),
        seed=draw(SEEDS),
    )


def stream(
    orders: SourceOrders, lane: int, stop: int, *, source: int = 0, start: int = 0
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    positions = np.arange(start, stop)
    return orders.locate(np.full(len(positions), source), lane, positions)


@given(size=st.integers(1, 3000), key=SEEDS)
def test_a_permutation_takes_each_position_to_a_place_of_its_own(size: int, key: int) -> None:
    assert sorted(permute(np.arange(size), size, mix(key)).tolist()) == list(range(size))


@given(words=st.lists(SEEDS, min_size=1, max_size=9), name=st.integers(-(2**63), 2**63 - 1))
def test_a_word_is_the_same_alone_and_among_others(words: list[int], name: int) -> None:
    together = mix(7, np.array(words, dtype=np.uint64), np.array(name), 2**64 - 1)
    assert together.tolist() == [int(mix(7, word, name, -1)) for word in words]


@given(sizes=st.lists(st.integers(1, 10**15), min_size=1, max_size=50), key=SEEDS)
def test_permutations_of_different_sizes_in_one_call_are_those_of_single_calls(sizes: list[int], key: int) -> None:
    size = np.array(sizes)
    position = size // 2
    keys = mix(key, np.arange(len(sizes)))
    together = permute(position, size, keys)
    alone = [int(permute(position[[i]], size[[i]], keys[[i]])[0]) for i in range(len(sizes))]
    assert together.tolist() == alone


@settings(max_examples=80)
@given(source=sources(), lanes=LANES)
def test_lanes_together_see_each_sample_once_an_epoch(source: SourceOrder, lanes: int) -> None:
    orders = SourceOrders([source], lanes)
    seen = []
    for lane in range(lanes):
        epoch, sample = stream(orders, lane, int(orders.length(lane)[0]))
        seen += (epoch * source.samples + sample).tolist()
    epochs, rest = divmod(len(seen), source.samples)
    assert (rest, sorted(seen)) == (0, list(range(epochs * source.samples)))


@given(source=sources(), lanes=LANES)
def test_while_repeating_no_lane_is_empty_and_lanes_stay_within_one_sample(source: SourceOrder, lanes: int) -> None:
    orders = SourceOrders([source], lanes)
    lengths = [int(orders.length(lane)[0]) for lane in range(lanes)]
    assert min(lengths) >= 1
    assert max(lengths) - min(lengths) <= 1


@given(source=sources(), lanes=LANES, cycles=st.integers(1, 3))
def test_later_cycles_have_each_sample_once_too(source: SourceOrder, lanes: int, cycles: int) -> None:
    orders = SourceOrders([source], lanes)
    lane_streams = [stream(orders, lane, cycles * int(orders.length(lane)[0])) for lane in range(lanes)]
    seen = np.concatenate([epoch * source.samples + sample for epoch, sample in lane_streams])
    assert np.array_equal(np.sort(seen), np.arange(len(seen)))
    assert len(seen) == cycles * sum(int(orders.length(lane)[0]) for lane in range(lanes))
    if cycles > 1 and source.samples >= 63 and lanes == 1 and source.epochs_together == 1:
        first, second = (lane_streams[0][1][start : start + source.samples] for start in (0, source.samples))
        assert not np.array_equal(first, second)


@given(source=sources(epochs_together=st.sampled_from([None, 1, 3, -1])), lanes=LANES, data=st.data())
def test_any_position_reached_directly_is_the_one_reached_by_stepping(
    source: SourceOrder, lanes: int, data: st.DataObject
) -> None:
    orders = SourceOrders([source], lanes)
    lane = data.draw(st.integers(0, lanes - 1))
    length = int(orders.length(lane)[0])
    if length:
        epoch, sample = stream(orders, lane, length)
        at = data.draw(st.integers(0, length - 1))
        direct = stream(orders, lane, at + 1, start=at)
        assert (direct[0].tolist(), direct[1].tolist()) == ([int(epoch[at])], [int(sample[at])])


@given(many=st.lists(sources(), min_size=1, max_size=5), lanes=LANES)
def test_one_call_over_several_sources_is_that_of_each_source_alone(many: list[SourceOrder], lanes: int) -> None:
    together = SourceOrders(many, lanes)
    positions = np.arange(200)
    source = np.resize(np.arange(len(many)), 200)
    epoch, sample = together.locate(source, lanes - 1, positions)
    for number, one in enumerate(many):
        mine = source == number
        alone = SourceOrders([one], lanes).locate(np.zeros(mine.sum(), np.int64), lanes - 1, positions[mine])
        assert np.array_equal(epoch[mine], alone[0])
        assert np.array_equal(sample[mine], alone[1])


@given(source=sources(epochs_together=st.sampled_from([1, 3, -1])), lanes=LANES, start=st.integers(0, 10**12))
def test_windows_tile_a_lane_and_hold_neighbours(source: SourceOrder, lanes: int, start: int) -> None:
    lane = RepeatedOrder((source,), (1.0,), lanes, seed=0).lane(lanes - 1)
    shuffle = SourceShuffle((source,), lanes)
    size, length = int(shuffle.window[0]), int(shuffle.slice_length[0])
    found = lane.window_of(start)
    assert found is not None
    assert found[0] <= start < found[1]
    for _ in range(3):
        assert found is not None
        first, end = found
        assert first < end <= first + size
        assert lane.window_of(first) == lane.window_of(end - 1) == found
        samples = np.unique(lane.locate(first, end)[2])
        runs = 1 + np.count_nonzero(np.diff(samples) > 1)
        # A slice is two runs where it is cut: at the window's ends, or by the start of an epoch.
        assert runs <= 2 * (-(-size // length) + 2)
        found = lane.window_of(end)


@given(source=sources(epochs_together=st.just(None)), lanes=LANES)
def test_unshuffled_lanes_one_after_the_other_are_the_source(source: SourceOrder, lanes: int) -> None:
    orders = SourceOrders([source], lanes)
    samples = np.concatenate([stream(orders, lane, int(orders.length(lane)[0]))[1] for lane in range(lanes)])
    assert np.array_equal(samples, np.arange(len(samples)) % source.samples)


@given(source=sources(epochs_together=st.just(-1)), lanes=LANES)
def test_drawing_with_replacement_stays_within_the_source(source: SourceOrder, lanes: int) -> None:
    _, sample = stream(SourceOrders([source], lanes), 0, 500)
    assert ((sample >= 0) & (sample < source.samples)).all()


@given(counts=st.lists(st.integers(0, 3000), min_size=1, max_size=40).filter(any), lane=st.integers(0, 63), seed=SEEDS)
def test_a_blend_takes_each_source_in_order_and_in_its_proportion(counts: list[int], lane: int, seed: int) -> None:
    blend = BlendOrder(counts, lane=lane, seed=seed)
    source, position = blend.locate(0, 2 * blend.period)
    for number, count in enumerate(counts):
        assert position[source == number].tolist() == list(range(2 * count))


@given(counts=st.lists(st.integers(0, 3000), min_size=1, max_size=40).filter(any), lane=st.integers(0, 63), seed=SEEDS)
def test_a_blend_keeps_each_sources_proportion_within_a_sample_at_the_end_of_each_block(
    counts: list[int], lane: int, seed: int
) -> None:
    blend = BlendOrder(counts, lane=lane, seed=seed)
    source, _ = blend.locate(0, blend.period)
    so_far = np.cumsum(source == np.arange(len(counts))[:, None], axis=1)  # (sources, period)
    blocks = -(-blend.period // 256)
    for block in range(1, blocks + 1):
        exact = np.array(counts) * block / blocks
        # Rounding moves a block's end by less than a sample for each source.
        candidates = range(
            block * blend.period // blocks - len(counts), block * blend.period // blocks + len(counts) + 1
        )
        ends = so_far[:, [end - 1 for end in candidates if 1 <= end <= blend.period]]
        assert np.abs(ends - exact[:, None]).max(axis=0).min() < 1 + 1e-9


@given(counts=st.lists(st.integers(0, 3000), min_size=1, max_size=10).filter(any), seed=SEEDS, data=st.data())
def test_any_piece_of_a_blend_is_found_directly(counts: list[int], seed: int, data: st.DataObject) -> None:
    blend = BlendOrder(counts, lane=1, seed=seed)
    whole = blend.locate(0, 2 * blend.period)
    start = data.draw(st.integers(0, 2 * blend.period))
    stop = data.draw(st.integers(start, 2 * blend.period))
    piece = blend.locate(start, stop)
    assert np.array_equal(piece[0], whole[0][start:stop])
    assert np.array_equal(piece[1], whole[1][start:stop])


@given(weights=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=200))
def test_quantised_weights_keep_their_proportions_and_omit_no_source(weights: list[float]) -> None:
    counts = quantise_weights(weights)
    exact = np.array(weights) / sum(weights) * 65536
    assert (counts >= 1).all()
    assert (np.abs(counts - np.maximum(exact, 1)) <= 0.5 + 1e-6).all()


@given(
    lanes=st.sampled_from([6, 12, 48, 240]),
    ranks=st.sampled_from([1, 2, 3, 4, 6]),
    workers=st.integers(0, 7),
    first=st.integers(0, 1000),
)
def test_each_micro_batch_is_made_once_by_the_lane_of_its_number(
    lanes: int, ranks: int, workers: int, first: int
) -> None:
    if lanes % ranks:
        return
    made: list[int] = []
    for rank in range(ranks):
        hosting = LaneHosting(lanes=lanes, ranks=ranks, rank=rank, workers=workers, first_batch=first)
        for worker in range(max(1, workers)):
            made += hosting.first_round(worker)
            # The micro-batches of a rank are those of its workers in turn.
            expected = range(first + rank, first + lanes, ranks)[worker :: max(1, workers)]
            assert list(hosting.first_round(worker)) == list(expected)
    assert sorted(made) == list(range(first, first + lanes))


@given(lanes=st.integers(1, 60), ranks=st.integers(1, 60), workers=st.integers(0, 7))
def test_a_number_of_ranks_that_does_not_divide_the_lanes_is_refused_with_those_that_do(
    lanes: int, ranks: int, workers: int
) -> None:
    if lanes % ranks == 0:
        hosting = LaneHosting(lanes=lanes, ranks=ranks, rank=0, workers=workers)
        rounds = [len(hosting.first_round(worker)) for worker in range(max(1, workers))]
        assert max(rounds) == hosting.turns
        assert min(rounds) >= hosting.turns - 1
    else:
        with pytest.raises(StateError) as caught:
            LaneHosting(lanes=lanes, ranks=ranks, rank=0, workers=workers)
        possible = [int(number) for number in (caught.value.hint or "").rpartition(":")[2].split(",")]
        assert possible == [number for number in range(1, lanes + 1) if lanes % number == 0]


@given(every=st.lists(sources(), min_size=1, max_size=4), lanes=LANES, seed=SEEDS, data=st.data())
def test_positions_of_several_lanes_are_those_of_each_lane(
    every: list[SourceOrder], lanes: int, seed: int, data: st.DataObject
) -> None:
    order = RepeatedOrder(tuple(every), (1.0, 2.5, 0.3, 7.0)[: len(every)], lanes=lanes, seed=seed)
    ranges = data.draw(
        st.lists(
            st.tuples(st.integers(0, order.lanes - 1), st.integers(0, 3000), st.integers(1, 20)), min_size=1, max_size=8
        )
    )
    lane = np.concatenate([np.full(length, number) for number, _, length in ranges])
    position = np.concatenate([np.arange(start, start + length) for _, start, length in ranges])
    expected = [order.lane(number).locate(start, start + length) for number, start, length in ranges]
    for found, columns in zip(order.locate_in_lanes(lane, position), zip(*expected, strict=True), strict=True):
        assert found.tolist() == np.concatenate(columns).tolist()
