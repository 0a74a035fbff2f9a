"""Count the samples that all readers of a lane have read, for weights that change at numbers of samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.running import Running, State

_READ = "read"


class LaneSamples:
    """The samples of a lane so far, excluded and skipped ones included.

    Args:
        read: Their number.
    """

    __slots__ = ("read",)

    def __init__(self, read: int) -> None:
        self.read = read

    @classmethod
    def begin(cls, lane: Lane, own: Mapping[str, Any]) -> LaneSamples:
        """Begin to count, from the state of the outermost blend: by its count, or by the positions of its readers."""
        found = lane.shared[cls] = cls(own.get(_READ, _positions(own)))
        return found


def _positions(state: Mapping[str, Any]) -> int:
    """Return the sum of the positions of all readers below a blend."""
    return sum(
        _positions(value)
        if isinstance(value, Mapping)
        else value
        if key.endswith(f" {_READ}") and type(value) is int
        else 0
        for key, value in state.items()
    )


class CountedReader:
    """A running reader, whose samples are counted.

    Args:
        reader: The reader; its ``position`` is the next sample's.
        samples: The count.
    """

    def __init__(self, reader: Any, samples: LaneSamples) -> None:
        self._reader = reader
        self._samples = samples
        self.state = reader.state
        self.load = reader.load

    def next(self) -> tuple[Any, ItemId]:
        """Return the next sample."""
        reader = self._reader
        before = reader.position
        try:
            found: tuple[Any, ItemId] = reader.next()
        finally:
            self._samples.read += reader.position - before
        return found


class CountedBlend:
    """The outermost blend of a lane, whose state has the count.

    Args:
        blend: The running blend.
        key: Its key.
        samples: The count.
    """

    def __init__(self, blend: Running, key: str, samples: LaneSamples) -> None:
        self._blend = blend
        self._key = key
        self._samples = samples
        self.next = blend.next
        self.load = blend.load

    def state(self) -> State:
        """Return the state of the blend, with the count."""
        found = self._blend.state()
        return found | {self._key: {_READ: self._samples.read} | found[self._key]}
