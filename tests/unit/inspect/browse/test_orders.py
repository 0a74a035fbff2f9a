from __future__ import annotations

import pytest

from loader.inspect.browse import SampleOrder, ordered_samples


@pytest.mark.parametrize("seed", [None, 0, 7])
@pytest.mark.parametrize("ranges", [[], [range(5)], [range(2, 9), range(20, 21), range(30, 34)]])
def test_pages_of_an_order_have_each_sample_once(seed: int | None, ranges: list[range]) -> None:
    order = SampleOrder(ranges=ranges, seed=seed)
    pages = [ordered_samples(order, start, start + 3).tolist() for start in range(0, len(order) + 3, 3)]
    found = [number for page in pages for number in page]
    assert sorted(found) == [number for some in ranges for number in some]


def test_a_page_in_the_middle_of_a_billion_samples_is_made_at_once() -> None:
    order = SampleOrder(ranges=[range(10**9)], seed=1)
    assert len(set(ordered_samples(order, 5 * 10**8, 5 * 10**8 + 100).tolist())) == 100
