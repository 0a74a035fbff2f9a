"""Copy whole micro-batches to a device, by a stream of their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ...lazy_torch import torch
from ..nested_values import map_values
from .encoded_batch import decode_images


@dataclass(frozen=True, slots=True)
class PendingCopy:
    """A micro-batch whose copy was started.

    Attributes:
        batch: The copy.
        event: Recorded after the copy in its stream; None if the copy is done.
    """

    batch: Any
    event: Any = None


class DeviceCopies:
    """Copies of micro-batches to a device.

    To a CUDA device, tensors are copied from page-locked memory by a side stream, so that the copies overlap with
    computations, and the JPEGs of a micro-batch are decoded there together. To the CPU nothing is copied. To other
    devices torch copies in its own way. There, images are decoded on the CPU.

    Args:
        device: The device of the copies.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = None
        self._decoder: Any = None
        self._kept: deque[tuple[Any, ...]] = deque()  # events, and what their streams read

    def start(self, batch: Any) -> PendingCopy:
        """Start the copy of a micro-batch.

        Raises:
            ConfigError: This machine has no such GPU, or no package that decodes JPEGs there is installed.
            SampleError: An image is damaged.
        """
        if self._device.type == "cpu":
            return PendingCopy(decode_images(batch, self._device, None)[0])
        if self._device.type != "cuda":
            if self._stream is None:
                self._check(lambda: torch.empty(0, device=self._device))
                self._stream = "that of torch"
            return PendingCopy(self._moved(decode_images(batch, self._device, None)[0]))
        if self._stream is None:
            self._stream = self._check(lambda: torch.cuda.Stream(self._device))  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self._stream):
            decoded, kept = decode_images(batch, self._device, self._jpeg_decoder)
            moved = self._moved(decoded)
            event = self._stream.record_event()
        while self._kept and self._kept[0][0].query():
            self._kept.popleft()
        self._kept.append((event, batch, kept))
        return PendingCopy(moved, event)

    def _check(self, use: Callable[[], Any]) -> Any:
        """Return the result of a first use of the device.

        Raises:
            ConfigError: This machine has no such device.
        """
        try:
            return use()
        except (RuntimeError, NotImplementedError) as error:
            cause = str(error).partition("\n")[0]
            raise ConfigError(
                f"cannot copy micro-batches to the device {str(self._device)!r}: {cause}",
                hint="this machine has no such device, or torch was installed without it; pass to_device('cpu'), or "
                "see what torch.cuda.is_available() says",
            ) from error

    def _jpeg_decoder(self) -> Any:
        if self._decoder is None:
            from ..decoding.jpeg_devices import jpeg_decoder

            self._decoder = jpeg_decoder(self._device)
        return self._decoder

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
            if not isinstance(value, torch.Tensor):
                return self._copy(value)
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
