"""Format counts, sizes and facts about audio and video for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import plural as plural  # noqa: PLC0414 - a name of loader.inspect, too

if TYPE_CHECKING:
    from ..format.media.metadata import AVMetadata
    from ..storage import RequestNeeds


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


def format_percent(share: float) -> str:
    """Format a share with one decimal; only 0 and 1 themselves are shown as 0 and 100 %.

    >>> format_percent(0.125), format_percent(1), format_percent(0.99999), format_percent(1e-6)
    ('12.5 %', '100.0 %', '>99.9 %', '<0.1 %')
    """
    if 0 < share < 0.0005:
        return "<0.1 %"
    return ">99.9 %" if 0.9995 <= share < 1 else f"{100 * share:.1f} %"


def requests_text(needs: RequestNeeds) -> str:
    """Return one line about the requests to the Hugging Face Hub that a run needs."""
    listing = f"{plural(needs.listing_pages, 'request')} for a listing; " if needs.listing_pages else ""
    shares = ", ".join(f"{plan.name} {format_percent(plan.share)}" for plan in needs.plans)
    return (
        f"{listing}{plural(needs.nodes, 'node')}: {needs.api:,} to the API at the start, at most "
        f"{needs.resolver_an_hour:,} to the resolver an hour; of each plan's limits: {shares}"
    )


def av_text(metadata: AVMetadata) -> str:
    """Format metadata of audio or video in one line, with a note where a length was not taken from the header.

    >>> from loader.format.media.metadata import AVMetadata
    >>> av_text(AVMetadata(video_width=640, video_height=480, video_fps=30.0, video_duration=2.5))
    'video 640×480, 30 frames/s, 2.50 s'
    >>> av_text(AVMetadata(audio_channels=1, audio_duration=0.5).with_bases(audio_basis="counted"))
    '1 channel, 0.50 s (counted)'
    """
    video_note, audio_note = (
        f" ({basis})" if basis in ("counted", "decoded") else ""
        for basis in (metadata.video_basis, metadata.audio_basis)
    )
    video = [
        None if metadata.video_num_frames is None else plural(metadata.video_num_frames, "frame") + video_note,
        None if metadata.video_fps is None else f"{metadata.video_fps:.4g} frames/s",
        None if metadata.video_duration is None else f"{metadata.video_duration:.2f} s",
    ]
    if metadata.video_width is not None and metadata.video_height is not None:
        video.insert(0, f"video {metadata.video_width}×{metadata.video_height}")
    audio = [
        None if metadata.audio_sample_rate is None else f"audio {metadata.audio_sample_rate:,} Hz",
        None if metadata.audio_channels is None else plural(metadata.audio_channels, "channel"),
        None if metadata.audio_duration is None else f"{metadata.audio_duration:.2f} s{audio_note}",
    ]
    return ", ".join(fact for fact in (*video, *audio) if fact is not None)
