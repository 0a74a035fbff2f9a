from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given, strategies as st

from loader.format.documents.subset import SampleRange, ShareRange, do_overlap, resolve_subset

Subset = SampleRange | ShareRange

samples = st.integers(0, 10**12)
cuts = st.decimals(0, 100, places=4).map(lambda percentage: Fraction(percentage) / 100)
shares = st.lists(cuts, min_size=2, max_size=2).map(sorted).map(lambda ends: ShareRange(start=ends[0], stop=ends[1]))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Subset], int]:
    """Draw a number of samples, and subsets that fit them."""
    count = draw(samples)
    ranges: list[Subset] = [*draw(st.lists(shares, max_size=4))]
    if draw(st.booleans()):
        start = draw(st.integers(0, count))
        ranges.insert(0, SampleRange(start=start, stop=draw(st.none() | st.integers(start, count))))
    return ranges, count


@given(cases())
def test_a_subset_lies_within_the_samples(case: tuple[list[Subset], int]) -> None:
    """0 <= start <= stop <= samples."""
    ranges, count = case
    start, stop = resolve_subset(ranges, count)
    assert 0 <= start <= stop <= count


@given(cases(), st.lists(cuts, max_size=6))
def test_adjacent_percentages_neither_share_nor_omit_a_sample(
    case: tuple[list[Subset], int], inner_cuts: list[Fraction]
) -> None:
    """Adjacent percentage ranges of an inner subset cover its samples once each, in order."""
    ranges, count = case
    ends = [Fraction(0), *sorted(inner_cuts), Fraction(1)]
    pieces = [resolve_subset([*ranges, ShareRange(start=a, stop=b)], count) for a, b in pairwise(ends)]
    start, stop = resolve_subset(ranges, count)
    assert (pieces[0][0], pieces[-1][1]) == (start, stop)
    assert all(before[1] == after[0] for before, after in pairwise(pieces))


@given(shares, shares, samples)
def test_subsets_of_two_levels_compose_as_sets_do(inner: ShareRange, outer: ShareRange, count: int) -> None:
    """Resolving two levels at once differs from resolving them in turn by at most one sample at either end."""
    start, stop = resolve_subset([inner, outer], count)
    inner_start, inner_stop = resolve_subset([inner], count)
    outer_start, outer_stop = resolve_subset([outer], inner_stop - inner_start)
    assert inner_start <= start <= stop <= inner_stop
    assert abs(start - (inner_start + outer_start)) <= 1
    assert abs(stop - (inner_start + outer_stop)) <= 1


@given(cases(), st.lists(shares, max_size=3))
def test_subsets_that_do_not_overlap_share_no_sample(case: tuple[list[Subset], int], others: list[ShareRange]) -> None:
    """not do_overlap(a, b) → the two ranges are disjoint for any number of samples (if b is in percent)."""
    ranges, count = case
    if do_overlap(ranges, others) != do_overlap(others, ranges):
        raise AssertionError("one of them overlaps with the other, but not the other way round")
    both_in_percent = not ranges or isinstance(ranges[0], ShareRange)
    if both_in_percent and not do_overlap(ranges, others):
        start, stop = resolve_subset(ranges, count)
        other_start, other_stop = resolve_subset(others, count)
        assert stop <= other_start or other_stop <= start
