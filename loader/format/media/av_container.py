"""Encoded audio and video as PyAV opens it, with errors that say what the bytes are not.

PyAV is an optional package, which is imported only when something is opened.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = [
    "audio_stream",
    "import_av",
    "is_indexed",
    "media_error",
    "media_start",
    "open_av",
    "open_container",
    "video_stream",
]

_NOTHING_ELSE = {"protocol_whitelist": "none"}
"""Playlists, lists of files and descriptions of sessions name files and addresses, which FFmpeg opens."""


def import_av() -> ModuleType:
    """Import PyAV.

    Raises:
        ImportError: It is not installed; the message says how to.
    """
    try:
        import av
    except ImportError as error:
        if error.name not in (None, "av"):
            raise
        raise ImportError("audio and video need the package av (PyAV): pip install 'energon-toolkit[av]'") from None
    return av


def open_container(file: BinaryIO) -> InputContainer:
    """Open encoded audio or video from where the file stands, and nothing that it refers to.

    Raises:
        av.FFmpegError: It is no audio or video that FFmpeg knows.
        ImportError: PyAV is not installed.
    """
    container: InputContainer = import_av().open(file, "r", metadata_errors="replace", options=dict(_NOTHING_ELSE))
    return container


@contextmanager
def open_av(data: bytes | BinaryIO) -> Iterator[InputContainer]:
    """Open encoded audio or video for as long as the block runs.

    Args:
        data: The bytes of a file, or a file that can seek, which stays open; reading starts at its first byte.

    Raises:
        ValueError: It is no audio or video that FFmpeg knows, or becomes unreadable inside the block.
        ImportError: PyAV is not installed.
    """
    av = import_av()
    file = io.BytesIO(data) if isinstance(data, bytes) else data
    file.seek(0)
    try:
        container = open_container(file)
    except av.FFmpegError as error:
        file.seek(0)
        raise media_error(file.read(16), error) from error
    with container:
        try:
            yield container
        except av.FFmpegError as error:
            reason = error.strerror or type(error).__name__
            raise ValueError(f"damaged audio or video in a {container.format.name} file (FFmpeg: {reason})") from error


def media_error(head: bytes, error: OSError) -> ValueError:
    """Build the error for bytes that FFmpeg cannot read.

    Args:
        head: The first bytes.
        error: What PyAV raised.
    """
    found = f"it starts with {head[:16]!r}" if head else "it is empty"
    reason = error.strerror or type(error).__name__
    return ValueError(f"not audio or video that can be read ({found}; FFmpeg: {reason})")


def video_stream(container: InputContainer) -> VideoStream | None:
    """Give the first video stream that FFmpeg can decode and that is not the cover picture of an audio file."""
    from av.stream import Disposition

    streams = (one for one in container.streams.video if not one.disposition & Disposition.attached_pic)
    return next((one for one in streams if _is_known(one)), None)


def audio_stream(container: InputContainer) -> AudioStream | None:
    """Give the first audio stream that FFmpeg can decode."""
    return next((one for one in container.streams.audio if _is_known(one) and one.codec_context.sample_rate), None)


def _is_known(stream: VideoStream | AudioStream) -> bool:
    return getattr(stream, "codec_context", None) is not None  # which PyAV's types promise, but codecs may be missing


def media_start(container: InputContainer) -> Fraction:
    """Give the file's own time of its first frame or sample, in seconds."""
    starts = [
        stream.start_time * stream.time_base
        for stream in (video_stream(container), audio_stream(container))
        if stream is not None and stream.start_time is not None and stream.time_base is not None
    ]
    return min(starts, default=Fraction(0))


def is_indexed(container: InputContainer) -> bool:
    """Tell whether the container's header lists every frame with its time (MP4 and its kin, but for fragments)."""
    return "mp4" in container.format.name.split(",") and all(
        stream.frames for stream in (video_stream(container), audio_stream(container)) if stream is not None
    )
