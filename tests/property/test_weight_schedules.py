"""Guarantees of orders whose weights change at some samples of the run, for any schedule, lanes and positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loader.order import MAX_SCHEDULED_SAMPLES, EditedOrder, Mix, RepeatedOrder, SourceOrder, WeightSchedule

WEIGHTS = st.one_of(st.just(0.0), st.sampled_from([1.0, 1e-5, 3.0]), st.floats(0.01, 100))


@dataclass(frozen=True)
class Scheduled:
    """A run whose weights change."""

    schedule: WeightSchedule
    lanes: int
    seed: int

    @property
    def sources(self) -> int:
        return len(self.schedule.weights[0])

    @property
    def order(self) -> EditedOrder:
        sources = tuple(SourceOrder(samples=50 + 7 * row, slice_length=5, seed=row) for row in range(self.sources))
        first = Mix(tuple(range(self.sources)), self.schedule.weights[0], self.schedule)
        return EditedOrder(sources, (first,), self.lanes, self.seed)


@st.composite
def scheduled_runs(draw: st.DrawFn, *, max_sources: int = 6) -> Scheduled:
    sources = draw(st.integers(2, max_sources))
    lengths = draw(st.lists(st.one_of(st.integers(1, 20), st.integers(1, 9000)), min_size=1, max_size=8))
    starts = (0, *np.cumsum(lengths).tolist())
    row = st.tuples(*[WEIGHTS] * sources).filter(any)
    schedule = WeightSchedule(starts, tuple(draw(row) for _ in starts), draw(st.sampled_from([1, 2, 32])))
    return Scheduled(schedule, draw(st.sampled_from([1, 2, 5, 12])), draw(st.integers(0, 2**40)))


@given(run=scheduled_runs())
def test_the_lanes_together_reach_each_change_at_its_sample(run: Scheduled) -> None:
    by_lane = [run.schedule.lane_starts(lane, run.lanes) for lane in range(run.lanes)]
    assert np.sum(by_lane, axis=0).tolist() == list(run.schedule.starts)
    deal = run.schedule.deal
    for start, *others in zip(run.schedule.starts, *by_lane, strict=True):
        # Sample `start` is in micro-batch `start // deal`, which the lanes make in turn.
        assert max(others) - min(others) <= deal
        made = [-(-(start // deal - lane) // run.lanes) * deal for lane in range(run.lanes)]
        made[start // deal % run.lanes] += start % deal
        assert others == made


@given(run=scheduled_runs())
def test_each_source_continues_its_stream_over_all_changes(run: Scheduled) -> None:
    lane, stop = run.seed % run.lanes, run.schedule.starts[-1] // run.lanes + 200
    source, epoch, sample = run.order.lane(lane).locate(0, stop)
    for row in range(run.sources):
        own = source == row
        alone = RepeatedOrder((run.order.sources[row],), (1.0,), run.lanes, 0).lane(lane).locate(0, int(own.sum()))
        assert [epoch[own].tolist(), sample[own].tolist()] == [column.tolist() for column in alone[1:]]


@given(run=scheduled_runs())
def test_each_stretch_of_a_lane_has_the_shares_of_its_weights_to_within_a_sample(run: Scheduled) -> None:
    totals = np.zeros((len(run.schedule.starts) - 1, run.sources))
    for lane in range(run.lanes):
        starts = run.schedule.lane_starts(lane, run.lanes)
        source, *_ = run.order.lane(lane).locate(0, int(starts[-1]))
        for row, (low, high) in enumerate(zip(starts.tolist(), starts[1:].tolist(), strict=False)):
            weights = np.array(run.schedule.weights[row])
            asked = (high - low) * weights / weights.sum()
            found = np.bincount(source[low:high], minlength=run.sources)
            # Weights are counts of 2^23 samples; a source of a tiny weight has at least one of them.
            assert (np.abs(found - asked) < 1 + (high - low) * run.sources / 2**23).all()
            assert not found[weights == 0].any()
            totals[row] += found - asked
    # Over all lanes, the rounding does not add up as chance would.
    assert (np.abs(totals) < 3 + 1.2 * np.log2(run.lanes + 1)).all()


@given(run=scheduled_runs(), cut=st.integers(0, 20_000), length=st.integers(0, 3000))
def test_a_range_is_located_as_its_parts_are_in_any_order(run: Scheduled, cut: int, length: int) -> None:
    stream = run.order.lane(0)
    middle = cut + length // 3
    late = run.order.lane(0).locate(middle, cut + length)
    parts = [stream.locate(cut, middle), stream.locate(middle, cut + length)]
    for whole, again, *columns in zip(stream.locate(cut, cut + length), late, *parts, strict=True):
        assert whole.tolist() == np.concatenate(columns).tolist()
        assert again.tolist() == columns[1].tolist()


@given(run=scheduled_runs(), stops=st.lists(st.integers(0, 4000), min_size=24, max_size=24))
def test_counts_of_all_lanes_are_those_of_their_positions(run: Scheduled, stops: list[int]) -> None:
    some = np.array(stops).reshape(2, 12)[:, : run.lanes]
    by_lane = [run.schedule.lane_starts(lane, run.lanes) for lane in range(run.lanes)]
    some = np.vstack([some, np.transpose(by_lane)])  # at the changes as well
    expected = np.zeros((len(some), run.sources), np.int64)
    for lane in range(run.lanes):
        source, *_ = run.order.lane(lane).locate(0, int(some[:, lane].max()))
        expected += [np.bincount(source[:stop], minlength=run.sources) for stop in some[:, lane].tolist()]
    assert run.order.count(some).tolist() == expected.tolist()


@given(run=scheduled_runs(), places=st.sets(st.integers(0, 3000), max_size=60))
def test_single_positions_are_located_as_ranges_are(run: Scheduled, places: set[int]) -> None:
    wanted = np.array(sorted(places), np.int64)
    whole = run.order.lane(0).locate(0, 3001)
    for some, column in zip(run.order.lane(0).locate_at(wanted), whole, strict=True):
        assert some.tolist() == column[wanted].tolist()


def test_a_source_of_a_rare_weight_comes_in_some_lanes_of_short_stretches() -> None:
    schedule = WeightSchedule((0, 4800), ((0.01, 0.99), (0.0, 1.0)))
    order = Scheduled(schedule, lanes=48, seed=7).order  # one sample of a hundred in each lane
    counts = [int((order.lane(lane).locate(0, 100)[0] == 0).sum()) for lane in range(48)]
    assert sum(counts) == 48
    schedule = WeightSchedule((0, 480), ((0.01, 0.99), (0.0, 1.0)))
    order = Scheduled(schedule, lanes=48, seed=7).order  # a tenth of a sample in each lane
    assert 4 <= sum(int((order.lane(lane).locate(0, 10)[0] == 0).sum()) for lane in range(48)) <= 6


def test_the_largest_schedule_is_computed_without_overflow() -> None:
    schedule = WeightSchedule((0, MAX_SCHEDULED_SAMPLES), ((3.0, 1.0), (1.0, 3.0)))
    order = Scheduled(schedule, lanes=1, seed=0).order
    assert order.count(np.array([[MAX_SCHEDULED_SAMPLES]])).tolist() == [[3 << 37, 1 << 37]]
    source, *_ = order.lane(0).locate(MAX_SCHEDULED_SAMPLES - 4000, MAX_SCHEDULED_SAMPLES + 4000)
    assert abs(int((source[:4000] == 0).sum()) - 3000) < 64
    assert abs(int((source[4000:] == 0).sum()) - 1000) < 64


GOLDEN_SOURCES = "0010011122222002002222222222222221122022"
GOLDEN_SAMPLES = [43, 3, 31, 48, 18, 56, 21, 26, 29, 10]


def test_orders_of_schedules_are_golden() -> None:
    schedule = WeightSchedule((0, 20, 50), ((1.0, 1.0, 0.0), (1.0, 0.0, 3.0), (0.2, 0.2, 1.0)), deal=4)
    source, _, sample = Scheduled(schedule, lanes=2, seed=5).order.lane(1).locate(0, 40)
    assert "".join(map(str, source.tolist())) == GOLDEN_SOURCES
    assert sample[:10].tolist() == GOLDEN_SAMPLES


def test_orders_of_edited_schedules_are_golden() -> None:
    one = Mix((0, 1), (1.0, 1.0), WeightSchedule((0, 20, 60), ((1.0, 1.0), (1.0, 3.0), (0.0, 1.0)), deal=4))
    two = Mix((1, 2, 0), (1.0, 1.0, 1.0), WeightSchedule((0, 70), ((1.0, 0.0, 3.0), (1.0, 3.0, 0.0)), deal=1))
    sources = tuple(SourceOrder(samples=50 + 7 * origin, slice_length=5, seed=origin) for origin in two.origins)
    source, _, sample = EditedOrder(sources, (one, two), 2, 5).lane(1, (17,)).locate(0, 45)
    assert "".join(map(str, source.tolist())) == "220220002220000002202020222222220221100110111"
    assert sample[15:25].tolist() == [32, 5, 44, 9, 22, 49, 2, 0, 23, 35]


@pytest.mark.parametrize(
    ("starts", "weights"),
    [
        ((), ()),
        ((1,), ((1.0,),)),
        ((0, 5, 5), ((1.0,),) * 3),
        ((0, 5, 4), ((1.0,),) * 3),
        ((0, MAX_SCHEDULED_SAMPLES + 1), ((1.0,),) * 2),
        ((0, 5), ((1.0,),)),
        ((0, 5), ((1.0,), (1.0, 2.0))),
    ],
)
def test_faults_are_refused(starts: tuple[int, ...], weights: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        WeightSchedule(starts, weights)


@pytest.mark.parametrize("weights", [(0.0, 0.0), (1.0, -1.0), (1.0, float("nan"))])
def test_weights_that_give_no_shares_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        _ = WeightSchedule((0,), (weights,)).counts
