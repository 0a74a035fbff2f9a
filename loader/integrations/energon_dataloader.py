"""``EnergonDataloader`` of seed page 000: a loader in the shape that Megatron's training loop takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ..errors import ConfigError
from ..training.loaders.data_loader import SavableDataLoader

__all__ = ["EnergonDataloader", "cyclic_iter"]

T = TypeVar("T")


class EnergonDataloader(Generic[T]):
    """Give a loader's micro-batches without end: after the last one of a pass comes the first of the next.

    It is its own iterator, so that what ``iter()`` gives can be saved, too. Worker processes start with the first
    micro-batch.

    Args:
        dataloader: What ``get_savable_loader`` gave. It stays usable by itself, but for one thing: only one iteration
            of it is live at a time.
    """

    def __init__(self, dataloader: SavableDataLoader[T]) -> None:
        self.dataloader = dataloader
        self._batches = cyclic_iter(dataloader)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """Give the next micro-batch.

        Raises:
            ConfigError: There is none for this rank.
        """
        try:
            return next(self._batches)
        except BaseException:
            # A generator that raised is over, and would only say so from now on. The loader itself goes on.
            self._batches = cyclic_iter(self.dataloader)
            raise

    def reset(self) -> None:
        """Begin a pass over validation data anew; a loader for training goes on where it is."""
        self._batches = cyclic_iter(self.dataloader)

    def save_state(self) -> dict[str, Any]:
        """Give where this rank stands, behind the last micro-batch that it was given.

        Returns:
            Plain data, as :meth:`.SavableDataLoader.save_state_rank` gives it. Ranks need
            not call this together: Megatron calls it on one rank of each data-parallel rank.
        """
        return self.dataloader.save_state_rank()

    def restore_state(self, state: dict[str, Any] | Sequence[dict[str, Any]] | None) -> None:
        """Go on where a run stood.

        Args:
            state: What :meth:`save_state` gave on the same rank of as many ranks; or the list of what it gave on all
                ranks, with which a run goes on on another number of them; None starts at the beginning.

        Raises:
            StateError: The state is of other data, of another pipeline, or of other ranks.
        """
        if state is None or isinstance(state, dict):
            self.dataloader.restore_state_rank(state)
        else:
            self.dataloader.restore_state_global(state)
        self._batches = cyclic_iter(self.dataloader)


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
        hint="pass a loader or a list, not an iterator, which is used up after one pass; or see to it that there is at "
        "least one micro-batch for each rank: smaller batches, fewer ranks, or a larger part of the split",
    )
