"""What ``preview`` says about audio and video, in a line."""

from __future__ import annotations

from loader.format.media.metadata import AVMetadata

from ..console import plural

__all__ = ["media_facts", "probe_facts"]


def media_facts(metadata: AVMetadata) -> str:
    """Say what is known of audio or video.

    >>> media_facts(AVMetadata(video_width=640, video_height=480, video_fps=30.0, video_duration=2.5))
    'video 640×480, 30 frames/s, 2.50 s'
    >>> media_facts(AVMetadata(audio_sample_rate=16000, audio_channels=1))
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


def probe_facts(data: bytes) -> str | None:
    """Look what encoded audio or video is; None where that cannot be told, for want of PyAV or of sound bytes."""
    from loader.format.media.av_probe import probe_av

    try:
        return media_facts(AVMetadata(**probe_av(data)))  # type: ignore[arg-type] # counts are whole, as it says
    except (ImportError, ValueError):
        return None
