"""The order of tables, whose row groups are decoded as a whole: golden values, and that each sample comes once."""

from __future__ import annotations

import numpy as np
import pytest

from loader.format.records.row_groups import RowGroupEnds
from loader.order import FinitePass, RepeatedOrder, SourceOrder, groups_of_block

# Changing any of these reorders every run in progress over a table.
GOLDEN = [0, 0, 1, 0, 0, 0, 2, 1, 2, 1, 3, 1, 22, 19, 4, 25, 20, 23, 21, 6, 1, 24, 41, 47, 46, 5, 0, 3, 43, 45, 42, 44]
ENDS = np.array([4, 5, 12, 19, 26, 33, 40, 41, 48, 60])


def source(*, group_bytes: int = 40 << 20, buffer: int = 100, together: int | None = 1) -> SourceOrder:
    return SourceOrder(
        samples=60,
        slice_length=5,
        shuffle_buffer=buffer,
        epochs_together=together,
        seed=7,
        row_groups=RowGroupEnds(ENDS, group_bytes),
    )


def test_golden_values() -> None:
    plain = SourceOrder(samples=9, slice_length=3, seed=8)
    order = RepeatedOrder((source(), plain), (2.0, 1.0), lanes=2, seed=3)
    found, epoch, sample = order.lane(1).locate(0, 60)
    assert [*found.tolist()[:6], *epoch.tolist()[-6:], *sample.tolist()[:20]] == GOLDEN


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("together", [1, 2])
@pytest.mark.parametrize("buffer", [0, 100])
def test_each_sample_comes_once_in_each_group_of_epochs(lanes: int, together: int, buffer: int) -> None:
    order = RepeatedOrder((source(buffer=buffer, together=together),), (1.0,), lanes=lanes, seed=3)
    share = 60 * together // lanes
    columns = [order.lane(lane).locate(share, 2 * share) for lane in range(lanes)]
    pairs = {pair for _, epoch, sample in columns for pair in zip(epoch.tolist(), sample.tolist(), strict=True)}
    assert pairs == {(epoch, sample) for epoch in range(together, 2 * together) for sample in range(60)}
    half = FinitePass((source(buffer=buffer, together=together),), (1.5,), lanes=lanes, seed=3)
    found = [half.lane(lane).locate(0, half.lane(lane).length or 0)[2] for lane in range(lanes)]
    counts = np.bincount(np.concatenate(found), minlength=60)
    assert counts.sum() == 90
    assert {*counts.tolist()} <= {1, 2}


def test_a_lane_leaves_a_block_before_it_begins_the_next() -> None:
    order = RepeatedOrder((source(),), (1.0,), lanes=1, seed=3)
    assert groups_of_block(RowGroupEnds(ENDS, 40 << 20), lanes=1) == 2
    group = ENDS.searchsorted(order.lane(0).locate(0, 60)[2], side="right")
    blocks = [set[int]()]
    for number in group.tolist():
        if number not in blocks[-1] and len(blocks[-1]) == 2:
            blocks.append(set())
        blocks[-1].add(number)
    assert len(blocks) == 5
    assert sorted(number for block in blocks for number in block) == list(range(10))
    assert (np.diff(group) != 0).sum() > 15  # groups of a block alternate


@pytest.mark.parametrize(
    ("group_bytes", "groups", "lanes", "size"),
    [(10 << 20, 1000, 4, 9), (100 << 20, 1000, 4, 2), (101 << 20, 1000, 4, 1), (1 << 20, 1000, 4, 62), (1, 10, 48, 1)],
)
def test_the_size_of_blocks(group_bytes: int, groups: int, lanes: int, size: int) -> None:
    ends = np.arange(1, groups + 1)
    assert groups_of_block(RowGroupEnds(ends, group_bytes), lanes) == size
