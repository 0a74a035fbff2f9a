"""What is wrong where samples don't make a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from ..errors import SampleError

__all__ = ["UnlikeError", "key_of", "kind_of"]


class UnlikeError(Exception):
    """Two values that should be alike are not: on its way up to whoever knows what they belong to.

    Args:
        first: The number of one sample, or batch, in the list that is to be joined.
        second: The number of the other.
        found: What the first has.
        other: What the second has.
    """

    def __init__(self, first: int, second: int, found: str, other: str) -> None:
        super().__init__(found, other)
        self._numbers = first, second
        self._found = found, other
        self._place: list[str] = []

    def inside(self, name: object) -> Self:
        """Say in which field the values are."""
        self._place.insert(0, str(name))
        return self

    def of(self, samples: Sequence[Any]) -> SampleError:
        """Make the error that names the samples.

        Args:
            samples: What was to be joined.
        """
        keys = [key_of(samples[number]) for number in self._numbers]
        names = [
            f"number {number}" if key is None else repr(key) for key, number in zip(keys, self._numbers, strict=True)
        ]
        place = f"{'.'.join(self._place)!r} is " if self._place else ""
        return SampleError(
            f"{names[0]} and {names[1]} don't fit into one batch: {place}{self._found[0]} in the first, "
            f"{self._found[1]} in the second",
            key=key_of(samples[self._numbers[1]]),
            do="make them alike in encode_sample, or define batch in the task encoder",
        )


def key_of(sample: Any) -> str | None:
    """Get the key of a sample, or the first one of a batch; None where it has none."""
    key = sample.get("__key__") if isinstance(sample, Mapping) else getattr(sample, "__key__", None)
    if isinstance(key, list):  # a batch
        key = key[0] if key else None
    return None if key is None else str(key)


def kind_of(value: Any) -> str:
    """Name a value's class for a sentence.

    >>> kind_of(3), kind_of(None)
    ('of type int', 'None')
    """
    return "None" if value is None else f"of type {type(value).__name__}"


def _name(sample: Any, number: int) -> str:
    key = key_of(sample)
    return f"number {number}" if key is None else repr(key)
