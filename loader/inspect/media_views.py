"""Describe encoded audio and video: a frame as a picture, sound as a waveform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from ..format.media.metadata import AVMetadata
from ..samples.picture import Picture, PictureError, shrink_to_rgb
from .text import av_text

if TYPE_CHECKING:
    from PIL.Image import Image


Waveform = Callable[[int], Sequence[float]]
"""Returns the loudness, from 0 to 1, of a number of equal spans of sound; raises ``PictureError``."""

OpenMedia = Callable[[], AbstractContextManager["bytes | BinaryIO"]]
"""Opens a file for a ``with`` block, or returns its bytes."""

_T = TypeVar("_T")
_FRAME_AT = 0.3  # share of the duration: first frames are often black
_MAX_PACKETS = 300  # decoded until a frame comes
_LONGEST_SOUND_S = 60.0  # that is decoded for a waveform: an hour of sound would take seconds


def encoded_media_views(extension: str, data: bytes) -> tuple[str, dict[str, Any]]:
    """Return what :func:`media_views` does for the bytes of a file.

    Only the extension is named if the header is damaged, or if PyAV is missing.
    """
    from ..format.media.av_probe import probe_av

    try:
        metadata = probe_av(data)
    except (ImportError, ValueError):
        return f"{extension} media", {}
    facts, shown = media_views(metadata, lambda: nullcontext(data))
    return f"{extension}: {facts}", shown


def media_views(metadata: AVMetadata, open_media: OpenMedia) -> tuple[str, dict[str, Any]]:
    """View audio or video whose metadata is known; a frame or the loudness is decoded when it is drawn.

    Returns:
        Its metadata in one line, and the views as fields of a ``FieldView``.
    """
    shown: dict[str, Any] = {"media": {name: value for name, value in vars(metadata).items() if value is not None}}
    if metadata.video_width and metadata.video_height:
        shown["pictures"] = (_frame_picture(metadata, open_media),)
    elif metadata.audio_sample_rate:
        shown["waveform"] = lambda spans: _decoded(open_media, lambda data: _decode_levels(data, spans))
    return av_text(metadata), shown


def _decoded(open_media: OpenMedia, decode: Callable[[bytes | BinaryIO], _T]) -> _T:
    try:
        with open_media() as data:
            return decode(data)
    except (ImportError, ValueError, OSError) as error:
        raise PictureError(str(error)) from error


def _frame_picture(metadata: AVMetadata, open_media: OpenMedia) -> Picture:
    """Return a picture of the keyframe before 30 % of the duration."""

    def load(longest: int) -> Image:
        duration_s = metadata.video_duration or 0.0
        return _decoded(open_media, lambda data: shrink_to_rgb(_decode_frame(data, duration_s), longest))

    return Picture(width=metadata.video_width or 1, height=metadata.video_height or 1, load=load)


def _decode_frame(data: bytes | BinaryIO, duration_s: float) -> Image:
    from ..format.media.av_container import check_frame_size, video_stream
    from ..format.media.import_av import open_av

    with open_av(data) as container:
        video = video_stream(container)
        if video is None:
            raise ValueError("a file without video")
        check_frame_size(video)
        if duration_s > 1 and video.time_base:
            start = video.start_time or 0
            container.seek(start + int(_FRAME_AT * duration_s / video.time_base), stream=video)
        for packet_index, packet in enumerate(container.demux(video)):
            for frame in packet.decode():
                image: Image = frame.to_image()  # type: ignore[no-untyped-call]
                return image.rotate(frame.rotation, expand=True)
            if packet_index > _MAX_PACKETS:
                break
    raise ValueError("no frame can be decoded")


def _decode_levels(data: bytes | BinaryIO, spans: int) -> Sequence[float]:
    import numpy as np

    from ..format.media.av_container import audio_stream
    from ..format.media.import_av import import_av, open_av

    # Decode the sound as mono, the first minute if it is longer.
    av = import_av()
    with open_av(data) as container:
        audio = audio_stream(container)
        if audio is None:
            raise ValueError("a file without audio")
        rate = 8_000  # enough for loudness
        resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
        blocks = []
        left = int(_LONGEST_SOUND_S * rate)
        for frame in container.decode(audio):
            for mono in resampler.resample(frame):
                blocks.append(mono.to_ndarray().ravel()[:left])  # (samples,)
                left -= len(blocks[-1])
            if left <= 0:
                break
    # Take the loudest sample of each span.
    samples = np.concatenate(blocks) if blocks else np.zeros(0)
    if not len(samples):
        raise ValueError("no sound can be decoded")
    spans = min(spans, len(samples))
    ends = np.linspace(0, len(samples), spans + 1).astype(int)
    return [float(min(1.0, peak)) for peak in np.maximum.reduceat(np.abs(np.nan_to_num(samples)), ends[:-1])]
