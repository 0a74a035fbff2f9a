"""The input and output of decoding: ranges of clips, checked, and ``AVData``, the decoded clips with their times."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from ..format.media.import_av import open_container
from ..lazy_torch import torch

if TYPE_CHECKING:
    from av.container import InputContainer


VideoUnit = Literal["frames", "seconds"]
AudioUnit = Literal["samples", "seconds"]


@dataclass(kw_only=True, slots=True, eq=False)
class AVData:
    """Clips of one file. Times are seconds since the file's first frame or sample, and ranges are half-open.

    Args:
        video_clips: uint8 tensors (frames, 3, height, width).
        video_timestamps: For each video clip, the start of its first frame and the end of its last one.
        audio_clips: Tensors (channels, samples) of the stored type: float32 in [-1, 1] for most codecs, int16 or int32
            for WAV and FLAC, uint8 for WAV of 8 bits.
        audio_timestamps: For each audio clip, the start of its first sample and the end of its last one.
    """

    video_clips: list[torch.Tensor] = field(default_factory=list)
    video_timestamps: list[tuple[float, float]] = field(default_factory=list)
    audio_clips: list[torch.Tensor] = field(default_factory=list)
    audio_timestamps: list[tuple[float, float]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"AVData(video_clips={_shapes(self.video_clips)}, audio_clips={_shapes(self.audio_clips)})"


def _shapes(clips: Sequence[Any]) -> list[Any]:
    """Return the shapes of clips; a batch has a list of clips for each sample."""
    return [tuple(clip.shape) if isinstance(clip, torch.Tensor) else _shapes(clip) for clip in clips]


def check_ranges(ranges: Sequence[tuple[float, float]], name: str) -> list[tuple[float, float]]:
    """Check that each range has a start and an end, in this order; the end may be ``math.inf``.

    Returns:
        The ranges; those that start before 0 start at 0.
    """
    faults = []
    checked = []
    for index, (start, end) in enumerate(ranges):
        if math.isnan(start) or math.isnan(end) or math.isinf(start):
            faults.append(f"{name}[{index}] is ({start}, {end}); expected two numbers, of which only the end is inf")
        elif end < start:
            faults.append(f"{name}[{index}] ends at {end}, before it starts at {start}")
        checked.append((max(start, 0), end))
    if faults:
        raise ValueError("; ".join(faults))
    return checked


def check_unit(unit: str, expected: Sequence[str], name: str) -> None:
    """Check that a unit is one of the expected ones."""
    if unit not in expected:
        raise ValueError(f"{name} is {unit!r}; expected {' or '.join(repr(choice) for choice in expected)}")


class MediaReader(ABC):
    """A reader of one stream of an open file. It skips ahead by seeking; if the container cannot seek, by decoding.

    Args:
        container: An open file that was not read from.
        file: The bytes of the container; opened again if a seek fails.
    """

    def __init__(self, container: InputContainer, file: BinaryIO, *, threads: int = 1) -> None:
        self._file = file
        self._threads = threads
        self._reopened: InputContainer | None = None
        self._can_seek = True
        self._attach(container)

    def close(self) -> None:
        """Close the container if this reader opened it again."""
        if self._reopened is not None:
            self._reopened.close()

    def advance_to(self, position: int) -> None:
        """Move to a point from which ``position`` decodes correctly, if that is faster than decoding up to it."""
        if not self._is_worth_a_seek(position):
            return
        if self._can_seek and not self._seek(position):
            self._can_seek = False
            self._rewind()

    @abstractmethod
    def _attach(self, container: InputContainer) -> None:
        """Start at a container's first sample or frame."""

    @abstractmethod
    def _is_worth_a_seek(self, position: int) -> bool: ...

    @abstractmethod
    def _seek(self, position: int) -> bool:
        """Try to continue from a point before a place; return False if the container cannot."""

    def _rewind(self) -> None:
        """Open the file again, because some formats cannot even seek to their start."""
        self.close()
        self._file.seek(0)
        self._reopened = open_container(self._file)
        self._attach(self._reopened)
