"""Which neighbouring samples of a dataset are used, as code written for megatron-energon says it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ...errors import ConfigError
from ...format.documents.subset import SampleRange, ShareRange, SubsetRange, resolve_subset

__all__ = ["DatasetSubset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSubset:
    """A range in numbers of samples, a range in shares of what that leaves, or both; half-open.

    Args:
        range: Shares from 0 to 1.
        absolute_range: Numbers of samples; None is the end.

    Raises:
        ConfigError: A range is reversed, or out of its bounds.

    >>> DatasetSubset(range=(0.0, 0.5), absolute_range=(10, None)).compute_subset(110)
    (10, 60)
    """

    range: tuple[float, float] | None = None
    absolute_range: tuple[int, int | None] | None = None

    def __post_init__(self) -> None:
        if self.range is not None and not 0 <= self.range[0] <= self.range[1] <= 1:
            raise ConfigError(f"expected a range of shares with 0 <= start <= stop <= 1, found {self.range}")
        if self.absolute_range is not None:
            start, stop = self.absolute_range
            if start < 0 or (stop is not None and stop < start):
                raise ConfigError(f"expected a range of samples with 0 <= start <= stop, found {self.absolute_range}")

    @property
    def ranges(self) -> tuple[SubsetRange, ...]:
        """The ranges, the inner one first."""
        found: list[SubsetRange] = []
        if self.absolute_range is not None:
            found.append(SampleRange(start=self.absolute_range[0], stop=self.absolute_range[1]))
        if self.range is not None:
            # As decimals, not as binary fractions: 0.3 of 10 samples are three.
            start, stop = (Fraction(str(share)) for share in self.range)
            found.append(ShareRange(start=start, stop=stop))
        return tuple(found)

    def compute_subset(self, total_samples: int) -> tuple[int, int]:
        """Give the half-open range of samples that it leaves of so many.

        Raises:
            ConfigError: It reaches beyond them.
        """
        return resolve_subset(self.ranges, total_samples)
