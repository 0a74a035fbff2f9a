"""What comes out of audio and video: clips, and when they are."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        video = [tuple(clip.shape) for clip in self.video_clips]
        audio = [tuple(clip.shape) for clip in self.audio_clips]
        return f"AVData(video_clips={video}, audio_clips={audio})"
