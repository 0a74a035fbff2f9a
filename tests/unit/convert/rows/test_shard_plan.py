"""The division of rows into shards is a function of the rows and the settings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from loader.convert.rows.shard_layout import ShardLayout, order_rows, plan_shards
from loader.errors import ConfigError

sizes_of_rows = st.lists(st.integers(-1, 5000), min_size=1, max_size=200)
ratios = st.none() | st.fixed_dictionaries({"train": st.integers(1, 9), "val": st.integers(0, 3)})


@given(
    sizes=sizes_of_rows,
    limit=st.integers(1, 20_000),
    count=st.integers(1, 50),
    ratio=ratios,
    seed=st.none() | st.integers(0, 5),
    parts=st.integers(1, 3),
)
def test_each_row_is_in_one_shard_within_the_limits(
    *, sizes: list[int], limit: int, count: int, ratio: dict[str, float] | None, seed: int | None, parts: int
) -> None:
    layout = ShardLayout(shard_bytes=limit, samples_per_shard=count, split_ratio=ratio, shuffle_seed=seed)
    splits = np.arange(len(sizes)) % parts
    order, ranges = order_rows(splits, tuple(f"part{number}" for number in range(parts)), layout)
    assert sorted(order.tolist()) == list(range(len(sizes)))
    shards = plan_shards(np.array(sizes, np.int64)[order], ranges, layout)
    assert [row for shard in shards for row in range(shard.start, shard.stop)] == list(range(len(sizes)))
    assert len({shard.name for shard in shards}) == len(shards)
    known = [size for size in sizes if size >= 0]
    mean = int(np.mean(known)) if known else 0
    for shard in shards:
        rows = order[shard.start : shard.stop].tolist()
        assert 1 <= len(rows) <= count
        size = sum(mean if sizes[row] < 0 else sizes[row] for row in rows)
        assert size <= limit or len(rows) == 1
        if ratio is None:
            assert {f"part{splits[row]}" for row in rows} == {shard.split}


def test_a_ratio_divides_samples_exactly_and_keeps_their_order() -> None:
    layout = ShardLayout(split_ratio={"train": 8, "val": 1, "test": 1})
    order, parts = order_rows(np.zeros(1000, np.int64), ("",), layout)
    assert [(name, stop - start) for name, start, stop in parts] == [("train", 800), ("val", 100), ("test", 100)]
    for _, start, stop in parts:
        assert np.all(np.diff(order[start:stop]) > 0)
    val = order[800:900]
    assert val.min() < 100, "parts are drawn from all of the source"
    assert val.max() > 900, "parts are drawn from all of the source"


def first_rows(labels: list[int]) -> npt.NDArray[np.int64]:
    return np.array([labels.index(label) for label in labels], np.int64)


@given(labels=st.lists(st.integers(0, 40), min_size=1, max_size=200), seed=st.none() | st.integers(0, 5))
def test_a_ratio_divides_no_group_and_fills_each_part_that_it_can(labels: list[int], seed: int | None) -> None:
    layout = ShardLayout(split_ratio={"train": 8, "none": 0, "val": 1, "test": 1}, shuffle_seed=seed)
    order, parts = order_rows(np.zeros(len(labels), np.int64), ("",), layout, first_rows(labels))
    assert sorted(order.tolist()) == list(range(len(labels)))
    groups = [{labels[row] for row in order[start:stop].tolist()} for _, start, stop in parts]
    assert sum(map(len, groups)) == len({*labels})
    if len({*labels}) < len(labels):
        filled = [bool(each) for each in groups]
        assert filled == [True, False, len({*labels}) > 1, len({*labels}) > 2]
    # A cut is at most half of the largest group from the share, unless a part would be empty there.
    largest = max(map(labels.count, labels))
    if largest < len(labels) / 20:
        shares = np.array([stop - start for _, start, stop in parts])
        assert np.all(np.abs(shares - len(labels) * np.array([0.8, 0, 0.1, 0.1])) <= largest + 1)


def test_rows_that_are_alone_are_divided_as_without_groups() -> None:
    for seed in (None, 3):
        layout = ShardLayout(split_ratio={"train": 99, "val": 1}, shuffle_seed=seed)
        splits = np.zeros(25, np.int64)
        plain, grouped = order_rows(splits, ("",), layout), order_rows(splits, ("",), layout, np.arange(25))
        assert plain[0].tolist() == grouped[0].tolist()
        assert plain[1] == grouped[1] == [("train", 0, 25), ("val", 25, 25)]


def test_few_groups_keep_the_ratio_as_well_as_they_can() -> None:
    labels = [0] * 2 + [1] * 12 + [2]
    for seed in range(5):
        layout = ShardLayout(split_ratio={"train": 8, "val": 1, "test": 1}, shuffle_seed=seed)
        _, parts = order_rows(np.zeros(15, np.int64), ("",), layout, first_rows(labels))
        sizes = [stop - start for _, start, stop in parts]
        assert sizes[0] == 12
        assert sorted(sizes[1:]) == [1, 2]


def test_another_seed_gives_another_order() -> None:
    orders = [
        order_rows(np.zeros(50, np.int64), ("",), ShardLayout(shuffle_seed=seed))[0].tolist() for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("settings", [{"shard_bytes": 0}, {"samples_per_shard": 0}])
def test_limits_are_positive(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="positive"):
        ShardLayout(**settings).check()  # type: ignore[arg-type]
