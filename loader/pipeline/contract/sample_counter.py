"""Count the samples that a user's dataset has yielded, as in megatron-energon 7 and 8."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class SampleIndex:
    """Counter of the samples that a user's dataset has yielded; name it in ``_savable_fields``.

    Args:
        worker_config: Ranks and workers of the dataset; not used.
        src: The dataset; not used.

    >>> index = SampleIndex(None, src=None)
    >>> [number for number, _ in index.iter_ctx("ab")], index.save_state()
    ([0, 1], 2)
    """

    def __init__(self, worker_config: Any, *, src: Any) -> None:  # noqa: ARG002 - documented
        self.worker_config = worker_config
        self.current_idx = 0
        self.actives = 0

    def get_next(self) -> int:
        """Return the next number, and count it."""
        self.current_idx += 1
        return self.current_idx - 1

    @contextmanager
    def ctx(self, sample_idx: int | None = None) -> Iterator[int]:
        """Return a context manager around the work on a sample, with its number: ``sample_idx``, or the next one."""
        self.actives += 1
        try:
            yield self.get_next() if sample_idx is None else sample_idx
        finally:
            self.actives -= 1

    def iter_ctx(self, it: Iterable[T], sample_idx: int | None = None) -> Generator[tuple[int, T], None, None]:
        """Yield the items of an iterable with their numbers: ``sample_idx`` for all, or the next ones."""
        items = iter(it)
        while True:
            with self.ctx(sample_idx) as sample_index:
                try:
                    item = next(items)
                except StopIteration:
                    self.current_idx -= sample_idx is None
                    return
            yield sample_index, item

    def save_state(self) -> int:
        """Return the count."""
        return self.current_idx

    def restore_state(self, state: int | None) -> None:
        """Continue counting at ``state``; None starts at 0."""
        self.current_idx = state or 0
