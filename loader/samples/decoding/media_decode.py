"""The bytes of an audio or video part to its value, by the part's name.

As in megatron-energon, only some names are decoded; the other names that tell of audio or video stay bytes, which
``AVDecoder`` opens as well.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

from ...errors import ConfigError
from ...format.documents.messages import did_you_mean
from ...format.documents.part_kinds import part_extension

__all__ = ["MEDIA_EXTENSIONS", "MediaForm", "MediaFormName", "media_decoder", "media_form"]

MediaFormName = Literal["AVDecoder", "bytes", "pyav", "torch"]

MEDIA_EXTENSIONS = frozenset({"avi", "flac", "flv", "mkv", "mov", "mp3", "mp4", "wav", "webm"})
"""Ends of the names of parts that are decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaForm:
    """What audio and video become.

    Args:
        name: An ``AVDecoder``, which decodes what it is asked for; an ``AVData`` of tensors (``torch``); a container
            that PyAV opened (``pyav``); or the bytes.
        with_audio: Put the audio of a video into the ``AVData``, too.
    """

    name: MediaFormName
    with_audio: bool = False


def media_form(av_decode: str | None, *, video_decode_audio: bool = False) -> MediaForm:
    """Find what audio and video become; None means bytes.

    Raises:
        ConfigError: There is no such ``av_decode``.
    """
    names: tuple[MediaFormName, ...] = get_args(MediaFormName)
    for name in names:
        if name == (av_decode or "bytes"):
            return MediaForm(name=name, with_audio=video_decode_audio)
    raise ConfigError(f"there is no av_decode {av_decode!r}{did_you_mean(str(av_decode), names)}")


def media_decoder(part_name: str, form: MediaForm) -> Callable[[bytes], Any] | None:
    """Find what decodes audio or video parts of a name; None where they stay bytes.

    Without PyAV, parts that are to become an ``AVDecoder`` stay bytes: that is the default, and what a dataset's other
    parts are good for should not hang on an optional package. The other forms raise ImportError when they decode.
    """
    if part_extension(part_name).lower() not in MEDIA_EXTENSIONS or form.name == "bytes":
        return None
    if form.name == "AVDecoder":
        return _av_decoder if _has_pyav() else None
    if form.name == "torch":
        return _av_data_with_audio if form.with_audio else _av_data
    return _container


def _has_pyav() -> bool:
    return find_spec("av") is not None


def _av_decoder(data: bytes) -> Any:
    from ...av import AVDecoder

    return AVDecoder(data)


def _av_data(data: bytes) -> Any:
    from ...av import AVDecoder

    return AVDecoder(data).get_frames()


def _av_data_with_audio(data: bytes) -> Any:
    from ...av import AVDecoder

    return AVDecoder(data).get_frames(video_decode_audio=True)


def _container(data: bytes) -> Any:
    from ...format.media.av_container import import_av, media_error, open_container

    av = import_av()
    try:
        return open_container(io.BytesIO(data))
    except av.FFmpegError as error:
        raise media_error(data, error) from error
