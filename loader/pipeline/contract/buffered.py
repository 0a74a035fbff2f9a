"""Samples that wait in a buffer: a state names them, and after a restore they are made again when their turn comes."""

from __future__ import annotations

from typing import Any, Final

from .lane import Lane
from .ref import Ref, as_ref, plain
from .reload import reload_item
from .stage import Running

__all__ = ["Waiting"]

_NOT_MADE: Final = object()


class Waiting:
    """A sample in a buffer.

    Args:
        ref: What names it.
        batch: The micro-batch for which it was made, as hooks saw it.
        value: The sample itself; left out where it is to be made again.
    """

    __slots__ = ("_value", "batch", "ref")

    def __init__(self, ref: Ref, batch: int | None, value: Any = _NOT_MADE) -> None:
        self.ref = ref
        self.batch = batch
        self._value = value

    @classmethod
    def of_state(cls, saved: Any) -> Waiting:
        """Read what :meth:`to_state` gave."""
        ref, batch = saved
        return cls(as_ref(ref), batch)

    def to_state(self) -> list[Any]:
        """Give what a state holds of it."""
        return [plain(self.ref), self.batch]

    def value(self, source: Running, lane: Lane) -> Any:
        """Give the sample; :data:`SKIPPED` where it could not be made again and that is tolerated.

        Args:
            source: What gave it.
            lane: The lane.
        """
        if self._value is _NOT_MADE:
            context = lane.context
            now, context.batch_index = context.batch_index, self.batch
            try:
                self._value = reload_item(source, lane, self.ref)
            finally:
                context.batch_index = now
        return self._value
