"""``cyclic_iter`` of seed page 000."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from ..errors import ConfigError

__all__ = ["cyclic_iter"]

T = TypeVar("T")


def cyclic_iter(iter: Iterable[T]) -> Iterator[T]:  # noqa: A002 - the name on the seed page
    """Iterate something again and again, without end.

    Args:
        iter: What can be iterated more than once: a loader, a list. Nothing of it is kept.

    Yields:
        Its items; after the last one those of the next pass.

    Raises:
        ConfigError: Two passes in a row gave nothing, so that the next one would not either.

    >>> from itertools import islice
    >>> list(islice(cyclic_iter([1, 2, 3]), 7))
    [1, 2, 3, 1, 2, 3, 1]
    """
    empty_passes = 0  # one may be: a loader that was restored at the end of its pass has nothing left of that
    while empty_passes < 2:
        empty_passes += 1
        for item in iter:
            empty_passes = 0
            yield item
    raise ConfigError(
        "expected something that gives items each time it is iterated; found none, twice in a row",
        do="pass a loader or a list, not an iterator, which is used up after one pass; or see to it that there is at "
        "least one micro-batch for each rank: smaller batches, fewer ranks, or a larger part of the split",
    )
