"""Positions and replacements of samples, for any excluded samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, strategies as st

from loader.pipeline.reading.samples import positions_without, replacements


@st.composite
def exclusions(draw: st.DrawFn) -> tuple[int, npt.NDArray[np.int64]]:
    """Draw a number of samples, of which at least one is not excluded."""
    total = draw(st.integers(1, 60))
    excluded = draw(st.sets(st.integers(0, total - 1), max_size=total - 1))
    return total, np.array(sorted(excluded), dtype=np.int64)


@given(exclusions())
def test_included_samples_are_numbered_in_order(given_samples: tuple[int, npt.NDArray[np.int64]]) -> None:
    total, excluded = given_samples
    left = [position for position in range(total) if position not in excluded]
    assert positions_without(excluded, np.arange(len(left))).tolist() == left


@given(exclusions())
def test_an_excluded_sample_is_replaced_by_the_next_included_one(
    given_samples: tuple[int, npt.NDArray[np.int64]],
) -> None:
    total, excluded = given_samples
    left = set(range(total)) - set(excluded.tolist())
    behind = {one: next(n % total for n in range(one, one + total) if n % total in left) for one in excluded.tolist()}
    assert dict(zip(excluded.tolist(), replacements(excluded, total).tolist(), strict=True)) == behind
