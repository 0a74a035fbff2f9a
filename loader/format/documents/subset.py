"""Subsets, ranges of neighbouring samples: ``subset: {range: [0%, 80%]}`` and ``{range: [1000, end]}``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from ...errors import ConfigError, plural
from .messages import short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRange:
    """The half-open range ``[start, stop)`` in shares of what it is applied to, ``0 <= start <= stop <= 1``.

    Shares are exact fractions, so that ranges that meet in a document also meet in samples.
    """

    start: Fraction
    stop: Fraction

    def __str__(self) -> str:
        return f"[{_percentage(self.start)}, {_percentage(self.stop)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRange:
    """The half-open range ``[start, stop)`` in numbers of samples; ``stop`` None is the end."""

    start: int
    stop: int | None

    def __str__(self) -> str:
        return f"[{self.start}, {'end' if self.stop is None else self.stop}]"


SubsetRange = ShareRange | SampleRange  # one ``subset``, as a document writes it


_PERCENTAGE = re.compile(r"\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*%\s*")

EXPECTED_RANGE = "two percentages such as [0%, 80%], or two numbers of samples such as [1000, 2000] or [1000, end]"


def parse_range(value: object) -> SubsetRange:
    """Parse a range as a document writes it.

    Raises:
        ValueError: The value has another form, or the range is empty or reversed.

    >>> str(parse_range(["0%", "80%"])), str(parse_range([1000, "end"]))
    ('[0%, 80%]', '[1000, end]')
    """
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"expected {EXPECTED_RANGE}, found {short_repr(value)}")
    first, last = (_share(bound) for bound in value)
    if first is not None and last is not None:
        if 0 <= first < last <= 1:
            return ShareRange(start=first, stop=last)
        written = ", ".join(value)
        raise ValueError(f"expected percentages from 0% to 100%, the first below the second, found [{written}]")
    start, stop = value
    if not _is_count(start) or not (stop == "end" or _is_count(stop)):
        raise ValueError(f"expected {EXPECTED_RANGE}, found {short_repr(value)}")
    subset = SampleRange(start=start, stop=None if stop == "end" else stop)
    if start < 0 or (subset.stop is not None and subset.stop <= start):
        raise ValueError(f"expected a start of at least 0 and an end behind it, found {subset}")
    return subset


def _share(bound: object) -> Fraction | None:
    match = _PERCENTAGE.fullmatch(bound) if isinstance(bound, str) else None
    return Fraction(match[1]) / 100 if match else None


def _is_count(bound: object) -> bool:
    return isinstance(bound, int) and not isinstance(bound, bool)


def resolve_subset(ranges: Sequence[SubsetRange], samples: int, *, at: str | None = None) -> tuple[int, int]:
    """Return the half-open range of a source's samples that subsets leave.

    Shares are multiplied exactly and rounded down once, so that ranges that meet share no sample and leave none out:
    ``[0%, 50%]`` and ``[50%, 100%]`` of 7 samples are 3 and 4.

    Args:
        ranges: The subsets from the leaf's own to the outermost; each is applied within what the ones before it leave.
        samples: How many samples the leaf has.
        at: Where the leaf is, for messages.

    Raises:
        ConfigError: A range of sample numbers reaches beyond the leaf's samples.

    >>> half, last = (ShareRange(start=Fraction(a), stop=Fraction(b)) for a, b in (("0", "1/2"), ("9/10", "1")))
    >>> resolve_subset([half, last], 1000)
    (450, 500)
    >>> resolve_subset([SampleRange(start=100, stop=None), half], 1000)
    (100, 550)
    """
    start, stop = Fraction(0), Fraction(samples)
    for applied in ranges:
        inside = stop - start
        if isinstance(applied, ShareRange):
            start, stop = start + inside * applied.start, start + inside * applied.stop
            continue
        end = inside if applied.stop is None else applied.stop
        if not applied.start <= end <= inside:
            raise ConfigError(
                f"the subset {applied} does not fit into {plural(floor(inside), 'sample')}",
                at=at,
                hint="give a range within them, or one in percent",
            )
        start, stop = start + applied.start, start + end
    return floor(start), floor(stop)


def bounds_of(subset: SubsetRange) -> list[str | int]:
    """Return a range as a document writes it; the inverse of :func:`parse_range`."""
    if isinstance(subset, ShareRange):
        return [_percentage(subset.start), _percentage(subset.stop)]
    return [subset.start, "end" if subset.stop is None else subset.stop]


def _percentage(share: Fraction) -> str:
    return f"{float(share * 100):.15g}%"


def do_overlap(first: Sequence[SubsetRange], other: Sequence[SubsetRange]) -> bool:
    """Return True if two subsets of one source may share samples; the number of samples is unknown here.

    >>> first, second = (ShareRange(start=Fraction(a), stop=Fraction(b)) for a, b in (("0", "1/2"), ("1/2", "1")))
    >>> do_overlap([first], [second]), do_overlap([first], []), do_overlap([first], [SampleRange(start=0, stop=9)])
    (False, True, False)
    """
    numbers = [ranges[0] if ranges and isinstance(ranges[0], SampleRange) else None for ranges in (first, other)]
    if numbers[0] is None and numbers[1] is None:
        (start, stop), (other_start, other_stop) = _shares(first), _shares(other)
        return start < other_stop and other_start < stop
    if numbers[0] is None or numbers[1] is None:
        return not first or not other  # all samples overlap with any
    # Subsets applied within them are ignored: they only make them smaller.
    ends = [float("inf") if subset.stop is None else subset.stop for subset in numbers if subset is not None]
    return numbers[0].start < ends[1] and numbers[1].start < ends[0]


def _shares(ranges: Sequence[SubsetRange]) -> tuple[Fraction, Fraction]:
    start, stop = Fraction(0), Fraction(1)
    for applied in ranges:
        if isinstance(applied, ShareRange):
            start, stop = start + (stop - start) * applied.start, start + (stop - start) * applied.stop
    return start, stop
