from __future__ import annotations

from fractions import Fraction

import pytest

from loader.errors import ConfigError
from loader.format.documents.subset import SampleRange, ShareRange, resolve_subset


def percent(start: str, stop: str) -> ShareRange:
    return ShareRange(start=Fraction(start) / 100, stop=Fraction(stop) / 100)


@pytest.mark.parametrize(
    ("ranges", "samples", "expected"),
    [
        ((), 7, (0, 7)),
        ((percent("0", "50"),), 7, (0, 3)),
        ((percent("50", "100"),), 7, (3, 7)),
        ((percent("12.5", "100"),), 8, (1, 8)),
        ((percent("29", "57"),), 100, (29, 57)),  # 0.29 * 100 is 28.999… in floats
        ((percent("0", "10"),), 9, (0, 0)),
        ((percent("0", "50"), percent("50", "100")), 1000, (250, 500)),
        ((percent("50", "100"), percent("0", "50")), 1000, (500, 750)),
        ((SampleRange(start=2, stop=8), percent("50", "100")), 10, (5, 8)),
        ((SampleRange(start=4, stop=None), percent("0", "50")), 10, (4, 7)),
        ((SampleRange(start=10, stop=None),), 10, (10, 10)),
        ((percent("0", "100"),), 10**12, (0, 10**12)),
    ],
    ids=str,
)
def test_ranges_are_applied_from_the_inside_out_and_rounded_down_once(
    ranges: tuple[SampleRange | ShareRange, ...], samples: int, expected: tuple[int, int]
) -> None:
    assert resolve_subset(ranges, samples) == expected


@pytest.mark.parametrize(
    ("numbers", "written"),
    [(SampleRange(start=2, stop=50), r"\[2, 50\]"), (SampleRange(start=11, stop=None), r"\[11, end\]")],
    ids=str,
)
def test_numbers_beyond_the_samples_are_an_error_that_says_how_many_there_are(
    numbers: SampleRange, written: str
) -> None:
    with pytest.raises(ConfigError, match=f"the subset {written} does not fit into 10 samples") as caught:
        resolve_subset([numbers], 10, at="splits.train")
    assert caught.value.at == "splits.train"


def test_ranges_print_as_they_are_written() -> None:
    assert str(percent("12.5", "100")) == "[12.5%, 100%]"
    assert str(SampleRange(start=1000, stop=None)) == "[1000, end]"
