"""Open encoded audio and video with PyAV, with errors that describe the bytes.

PyAV is an optional package. It is imported when the first file is opened.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

# Options that stop FFmpeg from opening the files and addresses named in playlists, file lists and session files.
_NO_OTHER_FILES = {"protocol_whitelist": "none"}

_READS_ALL_TITLES = 19  # major version of PyAV


def import_av() -> ModuleType:
    """Import PyAV.

    Raises:
        ImportError: PyAV is not installed; the message has the command that installs it.
    """
    try:
        import av
    except ImportError as error:
        if error.name not in (None, "av"):
            raise
        raise ImportError("audio and video need the package av (PyAV): pip install 'energon-toolkit[av]'") from None
    return av


def open_container(file: BinaryIO) -> InputContainer:
    """Open encoded audio or video at the current position of the file, but no files that it refers to.

    Raises:
        av.FFmpegError: The bytes are not audio or video in a format of FFmpeg.
    """
    av = import_av()
    # Titles may have another encoding than UTF-8. Versions since 19 read them all, and have no such option.
    encoding = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < _READS_ALL_TITLES else {}
    container: InputContainer = av.open(file, "r", options=dict(_NO_OTHER_FILES), **encoding)
    return container


@contextmanager
def open_av(data: bytes | BinaryIO) -> Iterator[InputContainer]:
    """Open encoded audio or video for the duration of a ``with`` block.

    Args:
        data: Bytes of a file, or a seekable file. It is read from its first byte, and stays open.

    Raises:
        ValueError: The bytes are not audio or video in a format of FFmpeg, or reading fails inside the block.
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
    """Build the error for bytes that FFmpeg cannot read."""
    found = f"it starts with {head[:16]!r}" if head else "it is empty"
    reason = error.strerror or type(error).__name__
    return ValueError(f"not audio or video that can be read ({found}; FFmpeg: {reason})")


def video_stream(container: InputContainer) -> VideoStream | None:
    """Return the first video stream that FFmpeg can decode, or None. Cover pictures of audio files are skipped."""
    from av.stream import Disposition

    streams = (one for one in container.streams.video if not one.disposition & Disposition.attached_pic)
    return next((one for one in streams if _is_known(one)), None)


def audio_stream(container: InputContainer) -> AudioStream | None:
    """Return the first audio stream that FFmpeg can decode, or None."""
    return next((one for one in container.streams.audio if _is_known(one) and one.codec_context.sample_rate), None)


def check_frame_size(stream: VideoStream) -> None:
    """Refuse a video whose frames are larger than Pillow's limit of images; decoders keep up to 16 frames.

    Raises:
        ValueError: The frames are larger.
    """
    from PIL import Image

    limit, pixels = Image.MAX_IMAGE_PIXELS, stream.width * stream.height
    if limit is not None and pixels > limit:
        raise ValueError(
            f"a frame of {stream.width} x {stream.height} has {pixels:,} pixels, the limit is {limit:,}: if the file "
            "is right, raise PIL.Image.MAX_IMAGE_PIXELS"
        )


def _is_known(stream: VideoStream | AudioStream) -> bool:
    # PyAV's types say that it is never None, but it is if FFmpeg was built without the codec.
    return getattr(stream, "codec_context", None) is not None


def media_start(container: InputContainer) -> Fraction:
    """Return the time of the first frame or audio sample, in seconds of the file's own clock."""
    starts = [
        stream.start_time * stream.time_base
        for stream in (video_stream(container), audio_stream(container))
        if stream is not None and stream.start_time is not None and stream.time_base is not None
    ]
    return min(starts, default=Fraction(0))


def packet_time(container: InputContainer, packet: Packet[Any]) -> int | None:
    """Return the display time of a packet's frame; in AVI, which has no display times, its decoding time.

    FFmpeg numbers the frames of an AVI file as they are decoded, and guesses their display times. The decoding times of
    all frames, sorted, are their display times.
    """
    return packet.dts if container.format.name == "avi" else packet.pts


def is_indexed(container: InputContainer) -> bool:
    """Return True if the container's header lists every frame with its time (the MP4 family, without fragments)."""
    return "mp4" in container.format.name.split(",") and all(
        stream.frames for stream in (video_stream(container), audio_stream(container)) if stream is not None
    )
