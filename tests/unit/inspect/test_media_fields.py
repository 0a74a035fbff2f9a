"""Descriptions of audio and video."""

from __future__ import annotations

import io
import sys

import pytest

from loader.av.av_decoder import AVDecoder
from loader.inspect import describe_part, describe_value
from tests.unit.av.encoded_media import encode

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
