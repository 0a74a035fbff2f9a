"""Format counts, sizes and facts about audio and video for people."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..format.media.metadata import AVMetadata

__all__ = ["av_text", "format_bytes", "format_count", "plural", "wav_text"]


def format_bytes(size_bytes: float) -> str:
    """Format a size in the largest unit that keeps a digit before the decimal point.

    >>> format_bytes(1_536)
    '1.5 kB'
    """
    if size_bytes < 1000:
        return f"{size_bytes:.0f} B"
    size = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} PB"


def format_count(count: int) -> str:
    """Format a count with thousands separators.

    >>> format_count(1000000)
    '1,000,000'
    """
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    """Format a count and its noun, in the plural unless the count is 1.

    >>> plural(1, "shard"), plural(1200, "shard")
    ('1 shard', '1,200 shards')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def av_text(metadata: AVMetadata) -> str:
    """Format metadata of audio or video in one line.

    >>> from loader.format.media.metadata import AVMetadata
    >>> av_text(AVMetadata(video_width=640, video_height=480, video_fps=30.0, video_duration=2.5))
    'video 640×480, 30 frames/s, 2.50 s'
    >>> av_text(AVMetadata(audio_sample_rate=16000, audio_channels=1))
    'audio 16,000 Hz, 1 channel'
    """
    video = [
        None if metadata.video_num_frames is None else plural(metadata.video_num_frames, "frame"),
        None if metadata.video_fps is None else f"{metadata.video_fps:.4g} frames/s",
        None if metadata.video_duration is None else f"{metadata.video_duration:.2f} s",
    ]
    if metadata.video_width is not None and metadata.video_height is not None:
        video.insert(0, f"video {metadata.video_width}×{metadata.video_height}")
    audio = [
        None if metadata.audio_sample_rate is None else f"audio {metadata.audio_sample_rate:,} Hz",
        None if metadata.audio_channels is None else plural(metadata.audio_channels, "channel"),
        None if metadata.audio_duration is None else f"{metadata.audio_duration:.2f} s",
    ]
    return ", ".join(fact for fact in (*video, *audio) if fact is not None)


def wav_text(data: bytes) -> str:
    """Format the header of a WAV in one line: the format chunk, 16 bytes after ``fmt `` and its length."""
    place = data.find(b"fmt ", 12, 4096)
    if place < 0 or place + 24 > len(data):
        return "wav audio"
    _tag, channels, rate, bytes_per_s = struct.unpack_from("<HHII", data, place + 8)
    start = data.find(b"data", place)
    text = f"wav audio, {rate:,} Hz, {plural(channels, 'channel')}"
    if start < 0 or not bytes_per_s:
        return text
    size_bytes = int.from_bytes(data[start + 4 : start + 8], "little")
    return f"{text}, {min(len(data) - start - 8, size_bytes) / bytes_per_s:.2f} s"
