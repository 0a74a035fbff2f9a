"""The first bytes of real files tell their format."""

from __future__ import annotations

import io
import wave

import pytest
from PIL import Image

from loader.convert.rows.media_extension import media_extension, with_extension
from tests.imports import picture


@pytest.mark.parametrize(
    ("form", "extension"),
    [
        ("JPEG", "jpg"),
        ("PNG", "png"),
        ("WEBP", "webp"),
        ("GIF", "gif"),
        ("BMP", "bmp"),
        ("TIFF", "tif"),
        ("AVIF", "avif"),
    ],
)
def test_pictures_that_pillow_writes(form: str, extension: str) -> None:
    if form == "AVIF" and "AVIF" not in Image.SAVE:
        pytest.skip("this Pillow writes no AVIF")
    assert media_extension(picture(1, form)) == extension


@pytest.mark.parametrize("container", ["mp4", "mov", "matroska", "webm", "flac", "mp3", "ogg", "avi"])
def test_audio_and_video_that_ffmpeg_writes(container: str) -> None:
    av = pytest.importorskip("av")
    file = io.BytesIO()
    codecs = {"flac": "flac", "mp3": "mp3", "ogg": "flac"}
    with av.open(file, "w", format=container) as output:
        if container in codecs:
            stream = output.add_stream(codecs[container], rate=44100)
            frame = av.AudioFrame(format=stream.format.name, layout=stream.layout.name, samples=1152)
            frame.rate = 44100
        else:
            stream = output.add_stream({"webm": "libvpx"}.get(container, "mpeg4"), rate=10)
            stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
            frame = av.VideoFrame(32, 32, "yuv420p")
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            output.mux(packet)
    assert media_extension(file.getvalue()) == {"matroska": "mkv"}.get(container, container)


def test_wav_and_unknown_contents() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(100))
    assert media_extension(file.getvalue()) == "wav"
    assert media_extension(b"") is None
    assert with_extension("left.jpg", b"hello") == "left.jpg"
    assert with_extension("left.jpg", file.getvalue()) == "left.wav"
