"""Encoded audio and video as PyAV opens it, with errors that say what the bytes are not.

PyAV is an optional package, which is imported only when something is opened.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = ["audio_stream", "import_av", "is_indexed", "open_av", "video_stream"]


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
        with av.open(file, "r", metadata_errors="replace") as container:
            yield container
    except av.FFmpegError as error:
        file.seek(0)
        head = file.read(16)
        found = f"it starts with {head!r}" if head else "it is empty"
        reason = error.strerror or type(error).__name__
        raise ValueError(f"not audio or video that can be read ({found}; FFmpeg: {reason})") from error


def video_stream(container: InputContainer) -> VideoStream | None:
    """Give the first video stream that is not the cover picture of an audio file."""
    from av.stream import Disposition

    return next((one for one in container.streams.video if not one.disposition & Disposition.attached_pic), None)


def audio_stream(container: InputContainer) -> AudioStream | None:
    """Give the first audio stream."""
    return next(iter(container.streams.audio), None)


def is_indexed(container: InputContainer) -> bool:
    """Tell whether the container's header lists every frame with its time (MP4 and its kin, but for fragments)."""
    return "mp4" in container.format.name.split(",") and all(
        stream.frames for stream in (*container.streams.video, *container.streams.audio)
    )
