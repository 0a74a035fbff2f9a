"""Open encoded audio and video with PyAV, with errors that describe the bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

from ...errors import MissingPackageError

if TYPE_CHECKING:
    from av.container import InputContainer

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
        message = "audio and video need the package av (PyAV): pip install 'energon-toolkit[av]'"
        raise MissingPackageError(message) from None
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
    fault = f"it starts with {head[:16]!r}" if head else "it is empty"
    reason = error.strerror or type(error).__name__
    return ValueError(f"not audio or video that can be read ({fault}; FFmpeg: {reason})")
