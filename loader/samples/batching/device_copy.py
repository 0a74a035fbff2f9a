"""Copy whole micro-batches to a device, by a stream of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from ...lazy_torch import torch

__all__ = ["DeviceCopies", "PendingCopy", "map_values"]


@dataclass(frozen=True, slots=True)
class PendingCopy:
    """A micro-batch whose copy was started.

    Attributes:
        batch: The copy.
        source: What it is copied from, which has to stay until the copy is done; None if there is no such.
        event: Recorded after the copy in its stream; None if the copy is done.
    """

    batch: Any
    source: Any = None
    event: Any = None


class DeviceCopies:
    """Copies of micro-batches to a device.

    To a CUDA device, tensors are copied from page-locked memory by a side stream, so that the copies overlap with
    computations. To the CPU nothing is copied. To other devices torch copies in its own way.

    Args:
        device: The device of the copies.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = None

    def start(self, batch: Any) -> PendingCopy:
        """Start the copy of a micro-batch."""
        if self._device.type == "cpu":
            return PendingCopy(batch)
        if self._device.type != "cuda":
            return PendingCopy(self._moved(batch))
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream):
            moved = self._moved(batch)
            return PendingCopy(moved, batch, self._stream.record_event())

    def finish(self, pending: PendingCopy) -> Any:
        """Return the copy, which the current stream of the device may use from now on."""
        if pending.event is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(pending.event)
            for tensor in _tensors(pending.batch):
                if tensor.is_cuda:
                    # Its memory belongs to the side stream, which must not use it again before this one is done.
                    tensor.record_stream(current)
        return pending.batch

    def _moved(self, batch: Any) -> Any:
        done: dict[int, Any] = {}  # a tensor that comes twice is copied once

        def move(value: Any) -> Any:
            if id(value) not in done:
                done[id(value)] = self._copy(value)
            return done[id(value)]

        return map_values(batch, move)

    def _copy(self, value: Any) -> Any:
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            return value.to(self._device, non_blocking=True)  # type: ignore[arg-type] # torch's annotation lacks devices
        if not isinstance(value, torch.Tensor):
            return value
        if self._device.type == "cuda" and value.device.type == "cpu" and not value.is_pinned():
            value = value.pin_memory()  # the host would wait for a copy from other memory
        return value.to(self._device, non_blocking=True)


def map_values(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to the values in nested dicts, lists, tuples, NamedTuples and dataclasses.

    Containers of which no value changes are returned as they are; others are copied, with their classes.

    >>> map_values({"a": [1, "x"], "b": (2,)}, lambda value: value + 1 if isinstance(value, int) else value)
    {'a': [2, 'x'], 'b': (3,)}
    """
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):  # a NamedTuple, part of which stays on the CPU
        return function(value)
    if isinstance(value, Mapping):
        changed = {key: new for key, old in value.items() if (new := map_values(old, function)) is not old}
        if not changed:
            return value
        if type(value) is dict:
            return value | changed
        copied: Any = copy.copy(value)
        for key, new in changed.items():
            copied[key] = new
        return copied
    if isinstance(value, list | tuple):
        items = [map_values(item, function) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        return _mapped_fields(value, function)
    return function(value)


def _mapped_fields(value: Any, function: Callable[[Any], Any]) -> Any:
    copied = value
    for field in fields(value):
        old = getattr(value, field.name, None)
        new = map_values(old, function)
        if new is not old:
            copied = copy.copy(value) if copied is value else copied
            object.__setattr__(copied, field.name, new)  # also of a frozen class
    return copied


def _tensors(batch: Any) -> Iterator[Any]:
    """Return the tensors of a micro-batch."""
    found: list[Any] = []

    def note(value: Any) -> Any:
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            found.append(value.data)
        elif isinstance(value, torch.Tensor):
            found.append(value)
        return value

    map_values(batch, note)
    return iter(found)
