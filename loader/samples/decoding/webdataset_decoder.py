"""Decode audio and video in pipelines of webdataset."""

from __future__ import annotations

from typing import Any

from ...accounting.kinds import part_extension
from .decoder import MEDIA_EXTENSIONS, media_decoder, media_form


class AVWebdatasetDecoder:
    """Decoder of audio and video for ``WebDataset.decode`` of webdataset.

    Args:
        video_decode_audio: With ``torch``, also decode the audio of videos.
        av_decode: The form, as for :class:`~loader.samples.decoding.decoder.SampleDecoder`.

    Raises:
        ConfigError: There is no such ``av_decode``.

    >>> AVWebdatasetDecoder(video_decode_audio=False)("0001.txt", b"a cat") is None
    True
    """

    def __init__(self, video_decode_audio: bool, av_decode: str | None = "AVDecoder") -> None:
        self.video_decode_audio = video_decode_audio
        self.av_decode = av_decode
        self._form = media_form(av_decode, video_decode_audio=video_decode_audio)

    def __call__(self, key: str, data: bytes) -> Any:
        """Decode a part.

        Args:
            key: Its name, ``"0001.mp4"`` or ``"mp4"``.
            data: Its bytes.

        Returns:
            None if it is not audio or video, so that the next decoder is asked.

        Raises:
            ImportError: PyAV is not installed.
            SampleError: The bytes are no audio or video.
        """
        if part_extension(key) not in MEDIA_EXTENSIONS:
            return None
        if self._form.name == "AVDecoder":
            return self.read_av_data(data)
        decode = media_decoder(key, self._form)
        return None if decode is None else decode(data)

    def read_av_data(self, data: bytes) -> Any:
        """Return the :class:`~loader.av.av_decoder.AVDecoder` of a part.

        Raises:
            ImportError: PyAV is not installed.
        """
        from ...av import AVDecoder

        return AVDecoder(data)
