"""Splits by ratio assign every shard once, in proportion to the ratio."""

from __future__ import annotations

from hypothesis import given, strategies as st

from loader.prepare.split import split_by_ratio

ratios = st.dictionaries(st.text(max_size=4), st.floats(0, 1e6) | st.integers(0, 20), min_size=1, max_size=6).filter(
    lambda ratio: any(ratio.values())
)
seeds = st.none() | st.integers(0, 2**64)


@given(st.integers(0, 60), ratios, seeds)
def test_every_shard_is_dealt_exactly_once(count: int, ratio: dict[str, float], seed: int | None) -> None:
    shards = [f"{index}.tar" for index in range(count)]
    parts = split_by_ratio(shards, ratio, shuffle_seed=seed).parts
    assigned = [shard for part in parts.values() for shard in part]
    assert list(parts) == list(ratio)
    assert sorted(assigned) == sorted(shards)
    assert seed is not None or assigned == shards


@given(st.integers(0, 60), ratios, seeds)
def test_the_first_parts_with_a_ratio_get_a_shard_while_there_are_enough(
    count: int, ratio: dict[str, float], seed: int | None
) -> None:
    result = split_by_ratio([str(index) for index in range(count)], ratio, shuffle_seed=seed)
    expected = [name for name, share in ratio.items() if share > 0]
    filled = [name for name, shards in result.parts.items() if shards]
    assert filled == expected[:count]
    assert len(result.warnings) == len(expected) - len(filled)


@given(st.integers(0, 200), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_parts_end_at_their_running_fraction_where_that_leaves_none_empty(count: int, shares: list[int]) -> None:
    ends = [count * sum(shares[: rank + 1]) // sum(shares) for rank in range(len(shares))]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    if all(sizes):
        ratio = {str(rank): float(share) for rank, share in enumerate(shares)}
        result = split_by_ratio([str(index) for index in range(count)], ratio)
        assert [len(part) for part in result.parts.values()] == sizes
