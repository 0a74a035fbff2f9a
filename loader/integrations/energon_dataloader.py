"""``EnergonDataloader`` (seed page 000): an endless loader with the interface of Megatron's training loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ..errors import ConfigError
from ..training.loaders.data_loader import SavableDataLoader

T = TypeVar("T")


class EnergonDataloader(Generic[T]):
    """Iterator over a loader's micro-batches without end: after the last one of a pass comes the first of the next.

    ``iter()`` returns the object itself, so the iterator can be saved as well. Worker processes start at the first
    micro-batch.

    Args:
        dataloader: A loader from ``get_savable_loader``. It can still be used directly, but only one iteration over it
            can be active at a time.
    """

    def __init__(self, dataloader: SavableDataLoader[T]) -> None:
        self.dataloader = dataloader
        self._batches = cyclic_iter(dataloader)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """Return the next micro-batch.

        Raises:
            ConfigError: Two passes in a row had no micro-batch for this rank.
        """
        try:
            return next(self._batches)
        except BaseException:
            # A generator that raised is exhausted, while the loader can continue: iterate it with a new generator.
            self._batches = cyclic_iter(self.dataloader)
            raise

    def reset(self) -> None:
        """Restart the pass over validation data; a training loader continues at its position."""
        self._batches = cyclic_iter(self.dataloader)

    def save_state(self) -> dict[str, Any]:
        """Return the state of this rank after the last micro-batch that it received.

        Returns:
            Plain data from :meth:`.SavableDataLoader.save_state_rank`. Not a collective call: Megatron calls it on one
            rank of each data-parallel group.
        """
        return self.dataloader.save_state_rank()

    def restore_state(self, state: dict[str, Any] | Sequence[dict[str, Any]] | None) -> None:
        """Restore a saved state, and continue behind it.

        Args:
            state: The state that :meth:`save_state` returned on this rank, for a run with the same number of ranks. Or
                the list of the states of all ranks, which restores on any number of ranks. None starts at the
                beginning.

        Raises:
            StateError: The state is of other data, of another pipeline, or of other ranks.
        """
        if state is None or isinstance(state, dict):
            self.dataloader.restore_state_rank(state)
        else:
            self.dataloader.restore_state_global(state)
        self._batches = cyclic_iter(self.dataloader)


def cyclic_iter(iter: Iterable[T]) -> Iterator[T]:  # noqa: A002 - the name on the seed page
    """Iterate over an iterable repeatedly, without end.

    Args:
        iter: An iterable that can be iterated more than once, such as a loader or a list. Items are not buffered.

    Yields:
        The items of each pass in turn.

    Raises:
        ConfigError: Two passes in a row had no items.

    >>> from itertools import islice
    >>> list(islice(cyclic_iter([1, 2, 3]), 7))
    [1, 2, 3, 1, 2, 3, 1]
    """
    empty_passes = 0  # one is allowed: a loader that was restored at the end of its pass has no items left in it
    while empty_passes < 2:
        empty_passes += 1
        for item in iter:
            empty_passes = 0
            yield item
    raise ConfigError(
        "expected an iterable that yields items in each pass, found two empty passes in a row",
        hint="pass a loader or a list, not an iterator, which is exhausted after one pass; or provide at least one "
        "micro-batch for each rank: use smaller batches, fewer ranks, or a larger part of the split",
    )
