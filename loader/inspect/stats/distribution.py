"""Distributions of values that are added in any number, in constant memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

_BINS_PER_OCTAVE = 8  # so that a quantile is right to 9 %
_MIN_EXPONENT = -30  # smaller magnitudes count as 0
_MAX_EXPONENT = math.nextafter(1024, 0)  # of 64-bit floats
_MAX_DISTINCT = 20_000  # texts that are counted one by one: bounds memory
_Z_95 = 1.959964  # of the normal distribution


class Distribution(msgspec.Struct):
    """Numbers by magnitude: exact count, extremes and mean, and a histogram of logarithmic bins.

    Attributes:
        total: Their sum.
        is_whole: All are integers.
        squares: Sum of squared distances from the mean.
        bins: Bin → count.

    >>> sizes = Distribution()
    >>> sizes.add(np.array([1, 10, 100]))
    >>> sizes.count, sizes.mean, sizes.minimum, sizes.maximum
    (3, 37.0, 1.0, 100.0)
    """

    count: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    total: float = 0.0
    is_whole: bool = True
    squares: float = 0.0
    bins: dict[int, int] = {}

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Distribution:
        """Return the distribution of numbers; NaN and infinities are skipped."""
        numbers = values.astype(np.float64)
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest one: their squares are infinite
            squares = float(((numbers - numbers.mean()) ** 2).sum())
            total = float(numbers.sum())
        bins, counts = np.unique(_bin_of(numbers), return_counts=True)
        return cls(
            count=len(numbers),
            minimum=float(numbers.min()),
            maximum=float(numbers.max()),
            total=total,
            is_whole=bool((numbers == np.floor(numbers)).all()),
            squares=squares,
            bins=dict(zip(bins.tolist(), counts.tolist(), strict=True)),
        )

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add numbers; NaN and infinities are skipped."""
        self.join(self.of(values))

    def join(self, other: Distribution) -> None:
        """Add the numbers of another distribution; the order of joins may change the last digits."""
        if not other.count:
            return
        if self.count:
            apart = other.mean - self.mean
            self.squares += apart * apart * self.count * other.count / (self.count + other.count)
        self.squares += other.squares
        self.total += other.total
        self.count += other.count
        self.is_whole = self.is_whole and other.is_whole
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        for bin_index, count in other.bins.items():
            self.bins[bin_index] = self.bins.get(bin_index, 0) + count

    @property
    def mean(self) -> float:
        """The mean; NaN without numbers."""
        return self.total / self.count if self.count else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation of the sample; NaN for fewer than two numbers."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else math.nan

    def mean_interval(self, population: int) -> tuple[float, float]:
        """Return the 95 % confidence interval of the mean of a population, from this random sample.

        Normal approximation with the correction for finite populations.
        """
        if self.count < 2 or population <= self.count:
            return self.mean, self.mean
        rest = (population - self.count) / max(1, population - 1)
        half = _Z_95 * self.deviation / math.sqrt(self.count) * math.sqrt(rest)
        return self.mean - half, self.mean + half

    def quantile(self, share: float) -> float:
        """Return a number below which this share of the numbers is, to the width of a bin (9 %)."""
        if not self.count:
            return math.nan
        # Walk through the bins to the one that holds the quantile, and return its middle.
        left = share * self.count
        for bin_index in sorted(self.bins):
            left -= self.bins[bin_index]
            if left <= 0:
                low, high = _ends_of(bin_index)
                middle = low / 2 + high / 2
                return min(max(round(middle) if self.is_whole else middle, self.minimum), self.maximum)
        return self.maximum

    def histogram(self, bars: int = 24) -> list[tuple[float, float, int]]:
        """Return bars (low, high, count), of equal width on the axis of the bins."""
        if not self.bins:
            return []
        # Join neighbouring bins to as many bars as fit.
        first, last = min(self.bins), max(self.bins)
        width = max(1, -(-(last - first + 1) // bars))
        counts: Counter[int] = Counter()
        for bin_index, count in self.bins.items():
            counts[(bin_index - first) // width] += count
        drawn = []
        for bar in range(max(counts) + 1):
            low, high = _ends_of(first + bar * width)[0], _ends_of(first + (bar + 1) * width - 1)[1]
            drawn.append((max(low, self.minimum), min(high, self.maximum), counts[bar]))
        return drawn

    def document(self, population: int | None = None) -> dict[str, Any]:
        """Return the numbers as plain data.

        Args:
            population: Adds the confidence interval of the mean; see :meth:`mean_interval`.
        """
        if not self.count:
            return {"count": 0}
        numbers: dict[str, Any] = {
            "count": self.count,
            "min": self.minimum,
            "p5": self.quantile(0.05),
            "median": self.quantile(0.5),
            "p95": self.quantile(0.95),
            "max": self.maximum,
            "mean": self.mean,
            "sum": self.total,
            "histogram": [{"low": low, "high": high, "count": count} for low, high, count in self.histogram()],
        }
        if population is not None:
            numbers["mean_95"] = list(self.mean_interval(population))
        # Sums of numbers near the largest one are infinite, which JSON cannot say.
        return {name: None if value in (math.inf, -math.inf) else value for name, value in numbers.items()}


def _bin_of(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the bin of each number: 0 for zero, and negative bins for negative numbers."""
    # Bins are equally wide on a logarithmic axis, on both sides of zero.
    magnitude = np.abs(numbers)
    is_zero = magnitude < 2.0**_MIN_EXPONENT
    exponent = np.log2(np.where(is_zero, 1.0, magnitude))
    bin_index = 1 + np.floor((exponent - _MIN_EXPONENT) * _BINS_PER_OCTAVE).astype(np.int64)
    return np.where(is_zero, 0, np.sign(numbers).astype(np.int64) * bin_index)


def _ends_of(bin_index: int) -> tuple[float, float]:
    if bin_index == 0:
        return 0.0, 0.0
    exponents = ((abs(bin_index) - 1 + step) / _BINS_PER_OCTAVE + _MIN_EXPONENT for step in (0, 1))
    low, high = (2.0 ** min(exponent, _MAX_EXPONENT) for exponent in exponents)
    return (low, high) if bin_index > 0 else (-high, -low)


class TopValues:
    """The most frequent texts. The first 20,000 different ones are counted, and the others together."""

    def __init__(self) -> None:
        self.count = 0
        self.others = 0
        self._counts: Counter[str] = Counter()

    def add(self, counts: Mapping[str, int]) -> None:
        """Add texts with the number of times that each occurs."""
        for text, count in counts.items():
            self.count += count
            if text in self._counts or len(self._counts) < _MAX_DISTINCT:
                self._counts[text] += count
            else:
                self.others += count

    @property
    def distinct(self) -> int:
        """Number of different texts that were counted."""
        return len(self._counts)

    def most_common(self, count: int = 10) -> Iterator[tuple[str, int]]:
        """Yield the most frequent texts and their counts."""
        yield from sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[:count]

    def document(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        top = [{"value": text, "count": count} for text, count in self.most_common()]
        return {"count": self.count, "distinct": self.distinct, "complete": not self.others, "top": top}
