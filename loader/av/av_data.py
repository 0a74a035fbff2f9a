"""What comes out of audio and video: clips, and when they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

__all__ = ["AVData"]


@dataclass(kw_only=True, slots=True, eq=False)
class AVData:
    """Clips of one file. Times are seconds since the file's first frame or sample, and ranges are half-open.

    Args:
        video_clips: uint8 tensors (frames, 3, height, width).
        video_timestamps: For each of them, when its first frame is shown and when its last one is over.
        audio_clips: Tensors (channels, samples), in the numbers in which the audio is stored: float32 in [-1, 1] for
            most codecs, int16 or int32 for WAV and FLAC, uint8 for WAV of 8 bits.
        audio_timestamps: For each of them, when its first sample begins and its last one ends.
    """

    video_clips: list[Tensor] = field(default_factory=list)
    video_timestamps: list[tuple[float, float]] = field(default_factory=list)
    audio_clips: list[Tensor] = field(default_factory=list)
    audio_timestamps: list[tuple[float, float]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"AVData(video_clips={_shapes(self.video_clips)}, audio_clips={_shapes(self.audio_clips)})"


def _shapes(clips: Sequence[Any]) -> list[Any]:
    """Give the shapes of clips; a batch has a list of clips for each sample."""
    return [tuple(clip.shape) if isinstance(clip, Tensor) else _shapes(clip) for clip in clips]
