"""Descriptions of audio and video."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

from loader.av.av_decoder import AVDecoder
from loader.inspect import FieldView, describe_part, describe_value
from loader.samples import PictureError
from tests.unit.av.encoded_media import encode, number_in
from tests.unit.inspect.test_fields import draw, wav

pytest.importorskip("av")


@pytest.fixture(scope="module")
def video() -> bytes:
    return encode(frames=20, fps=10)


def test_an_encoded_video_is_described_by_its_streams(video: bytes) -> None:
    found = describe_part("clip.mp4", video)
    assert found.facts.startswith("mp4: video ")
    assert ", 20 frames, 10 frames/s, 2.00 s" in found.facts
    assert found.fault is None


def test_a_video_decoder_is_described_by_its_streams(video: bytes) -> None:
    found = describe_value("video", AVDecoder(io.BytesIO(video)))
    assert found.facts.startswith("AVDecoder: video ")
    assert ", 20 frames, 10 frames/s, 2.00 s" in found.facts


def test_damaged_media_is_a_fault_and_does_not_crash(video: bytes) -> None:
    assert describe_part("mp4", b"\0\0\0\x18ftyp" + bytes(100)).facts == "mp4 media, 108 B"
    found = describe_value("video", AVDecoder(io.BytesIO(bytes(100))))
    assert found.facts == "AVDecoder"
    assert "not audio or video: " in (found.fault or "")


def test_without_the_package_av_media_is_only_named(video: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    assert describe_part("mp4", video).facts.startswith("mp4 media, ")


def frame_of(field: FieldView) -> int:
    [picture] = field.pictures
    image = picture.load(100)
    assert isinstance(image, Image.Image)
    assert image.size == (picture.width, picture.height)
    return number_in(np.asarray(image).transpose(2, 0, 1))


def test_a_video_shows_a_frame_after_its_beginning() -> None:
    video = encode(frames=50, fps=10, gop=5)
    assert frame_of(describe_part("mp4", video)) == 15  # the keyframe at 30 % of the duration
    assert frame_of(describe_value("video", AVDecoder(io.BytesIO(video)))) == 15


def test_sound_shows_its_loudness() -> None:
    field = describe_part("m4a", encode(video=None, audio="aac", audio_seconds=10))
    assert field.waveform is not None
    levels = field.waveform(10)
    assert len(levels) == 10
    assert 0.1 < levels[0] < levels[-1] <= 1
    assert "█" in draw(field)


def test_silence_is_flat_and_no_sound_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = describe_part("wav", wav())
    assert silent.waveform is not None
    assert list(silent.waveform(4)) == [0.0] * 4
    broken = describe_part("wav", wav(0))
    assert broken.waveform is not None
    with pytest.raises(PictureError):
        broken.waveform(4)
    assert "no waveform" in draw(broken)
    monkeypatch.setitem(sys.modules, "av", None)
    assert "pip install" in draw(silent)
