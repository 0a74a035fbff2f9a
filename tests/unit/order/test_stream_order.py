"""Golden values of whole orders, their memory, and the arguments that they refuse."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest

from loader.order import (
    FinitePass,
    PrebatchedPass,
    RepeatedOrder,
    SequentialPass,
    SourceOrder,
    samples_of_batch,
)
from loader.order.stream_order import StreamOrder

# Changing any of these reorders every run in progress.
GOLDEN = """\
0:0:994 0:0:309 0:0:507 2:0:196 0:0:132 0:0:819 0:0:702
2:0:208 0:1:421 3:14:20 1:76:8 2:0:135 0:1:440 0:1:489
1:99998475:3 3:19047328:18 0:2133361:786 0:2133361:781 3:19047328:19 0:2133361:697 0:2133361:497
2:0:74 0:0:119 0:0:180 2:0:65 3:1:25 0:0:468 0:0:828 0:0:188
0:1:132 1:3:0 0:1:470 0:1:469 3:1:6 0:1:86 0:1:380 0:1:901
1:0:2 1:0:3 2:0:0 2:0:1 2:0:2
"""

SHOW = """
from loader.order import PrebatchedPass, FinitePass, SourceOrder, RepeatedOrder, SequentialPass, samples_of_batch

sources = (
    SourceOrder(samples=1000, slice_length=10, shuffle_buffer=50, seed=7),
    SourceOrder(samples=9, slice_length=10, epochs_together=2, seed=8),
    SourceOrder(samples=500, slice_length=100, epochs_together=-1, seed=9),
    SourceOrder(samples=30, slice_length=100, epochs_together=None, seed=10),
)

def show(columns):
    rows = zip(*(column.tolist() for column in columns))
    print(" ".join(f"{source}:{epoch}:{sample}" for source, epoch, sample in rows))

for start in (0, 777, 10**9):
    show(RepeatedOrder(sources, (4, 1.5, 1, 1), lanes=4, seed=1).lane(2).locate(start, start + 7))
finite = FinitePass(sources, (1.25, 3.5, 0.5, 2), lanes=4, seed=1)
show(finite.lane(3).locate(300, 308))
prebatched = PrebatchedPass(finite, batch_size=16)
show(prebatched.lane(0).locate(prebatched.lane(0).length - 8, prebatched.lane(0).length))
show(samples_of_batch(PrebatchedPass(SequentialPass((3, 4, 5), lanes=3), 5), 1, 5))
"""


def test_whole_orders_are_the_same_in_another_process_and_on_another_day() -> None:
    assert subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout == GOLDEN


SOURCE = SourceOrder(samples=10, slice_length=2)


@pytest.mark.parametrize("together", [1 << 62, 10**300], ids=["64 bits", "more"])
def test_any_number_of_epochs_can_be_shuffled_together(together: int) -> None:
    source = SourceOrder(samples=10, slice_length=2, epochs_together=together)
    _, epochs, samples = RepeatedOrder((source,), (1,), lanes=1, seed=1).lane(0).locate(0, 1000)
    assert set(samples.tolist()) == set(range(10))
    assert len(set(epochs.tolist())) > 100


def test_orders_of_billions_of_samples_need_no_memory_of_their_size() -> None:
    billion = SourceOrder(samples=10**9 + 7, slice_length=1000, shuffle_buffer=10_000)
    blend = (billion,) * 3
    # The first calls make numpy import and cache what the order does not need.
    samples_of_batch(RepeatedOrder((SOURCE, SOURCE), (1, 2), 64, 0), 0, 16)
    samples_of_batch(PrebatchedPass(FinitePass((SOURCE,), (1,), 2, 0), 3), 3, 3)
    tracemalloc.start()
    try:
        samples_of_batch(RepeatedOrder(blend, (1, 2, 3), 64, 0), 10**9, 1024)
        prebatched = PrebatchedPass(FinitePass(blend, (1, 2.5, 1), 64, 0), 1024)
        samples_of_batch(prebatched, prebatched.batches - 1, 1024)
        samples_of_batch(PrebatchedPass(SequentialPass((10**9, 10**9), 64), 1024), 10**6, 1024)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [RepeatedOrder, FinitePass])
def test_lanes_blend_their_sources_each_in_an_order_of_its_own(kind: type[RepeatedOrder | FinitePass]) -> None:
    order = kind((SourceOrder(samples=1000, slice_length=10),) * 2, (1, 1), 4, 0)
    assert len({tuple(order.lane(lane).locate(0, 200)[0].tolist()) for lane in range(4)}) == 4


@pytest.mark.parametrize(
    ("sources", "shares", "lanes", "expected"),
    [
        ((), (), 1, "expected sources and a number for each, found 0 and 0"),
        ((SOURCE,), (1, 2), 1, "expected sources and a number for each, found 1 and 2"),
        ((SOURCE,), (1,), 0, "expected at least 1 lane, found 0"),
        ((SOURCE,), (0,), 1, r"expected numbers above 0, found \[0\]"),
        ((SOURCE,), (float("nan"),), 1, r"expected numbers above 0, found \[nan\]"),
        ((SourceOrder(samples=0, slice_length=2),), (1,), 1, "expected sources of at least 1 sample"),
        ((SourceOrder(samples=2, slice_length=0),), (1,), 1, "in slices of at least 1"),
    ],
)
@pytest.mark.parametrize("kind", [RepeatedOrder, FinitePass])
def test_what_is_no_set_of_sources_is_refused(
    kind: type[RepeatedOrder | FinitePass],
    sources: tuple[SourceOrder, ...],
    shares: tuple[float, ...],
    lanes: int,
    expected: str,
) -> None:
    with pytest.raises(ValueError, match=expected):
        kind(sources, shares, lanes, seed=0)


@pytest.mark.parametrize(("samples", "lanes"), [((1, -1), 1), ((1,), 0)])
def test_what_is_no_sequence_of_sources_is_refused(samples: tuple[int, ...], lanes: int) -> None:
    with pytest.raises(ValueError, match="expected at least 1 lane and no source below 0 samples"):
        SequentialPass(samples, lanes)


def test_micro_batches_of_no_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a batch size of at least 1, found 0"):
        PrebatchedPass(SequentialPass((3,), 1), 0)


REPEATED = RepeatedOrder((SOURCE,), (1,), 2, 0)
PREBATCHED = PrebatchedPass(FinitePass((SOURCE,), (1,), 2, 0), 3)
ORDERS = [REPEATED, FinitePass((SOURCE,), (1,), 2, 0), SequentialPass((10,), 2), PREBATCHED]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lane", [-1, 2])
def test_a_lane_that_a_run_does_not_have_is_refused(order: StreamOrder, lane: int) -> None:
    with pytest.raises(ValueError, match=rf"expected a lane in \[0, 2\), found {lane}"):
        order.lane(lane)


@pytest.mark.parametrize("order", ORDERS)
def test_positions_that_a_lane_does_not_have_are_refused(order: StreamOrder) -> None:
    lane = order.lane(1)
    stretches = [(-1, 2), (3, 2)] + ([(0, lane.length + 1)] if lane.length else [])
    for start, stop in stretches:
        with pytest.raises(ValueError, match=rf"expected 0 <= start <= stop.*, found \[{start}, {stop}\)"):
            lane.locate(start, stop)


def test_a_micro_batch_that_a_run_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a micro-batch of at least 0, found -1"):
        samples_of_batch(REPEATED, -1, 3)
    with pytest.raises(ValueError, match="expected a micro-batch of at least 0 below 4, found 4"):
        samples_of_batch(PREBATCHED, 4, 3)


def test_micro_batches_of_another_size_than_the_passs_are_refused() -> None:
    with pytest.raises(ValueError, match="expected the pass's batch size of 3, found 4"):
        samples_of_batch(PREBATCHED, 0, 4)


def test_a_pass_without_samples_has_no_micro_batch() -> None:
    none = PrebatchedPass(SequentialPass((), 3), 4)
    assert (none.batches, [none.lane(lane).length for lane in range(3)]) == (0, [0, 0, 0])
    little = PrebatchedPass(FinitePass((SOURCE,), (0.01,), 3, 0), 4)
    assert (little.batches, [little.lane(lane).length for lane in range(3)]) == (0, [0, 0, 0])
