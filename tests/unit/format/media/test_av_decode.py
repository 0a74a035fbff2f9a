"""``media_fault`` finds what is cut or damaged, and nothing in whole files."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from loader.format.media.av_decode import media_fault
from tests.unit.av.encoded_media import encode, rotated, trimmed
from tests.unit.av.odd_media import (
    dropped_frames,
    faststart,
    hidden_vp8,
    hidden_vp9,
    packed_b_frames,
    rf64,
    wav,
    wav_of_size,
    with_trailing_chunk,
)

SOUNDS: dict[str, dict[str, Any]] = {
    "wav": {"container": "wav", "audio": "pcm_s16le", "sample_format": "s16"},
    "aiff": {"container": "aiff", "audio": "pcm_s16be", "sample_format": "s16"},
    "flac": {"container": "flac", "audio": "flac", "sample_format": "s16"},
    "ogg": {"container": "ogg", "audio": "libopus", "rate": 48000, "sample_format": "flt"},
    "mp3": {"container": "mp3", "audio": "libmp3lame", "rate": 16000},
    "mp3 without a header": {
        "container": "mp3",
        "audio": "libmp3lame",
        "rate": 16000,
        "container_options": {"write_xing": "0"},
    },
    "mp3 of varying rate": {
        "container": "mp3",
        "audio": "libmp3lame",
        "rate": 44100,
        "audio_options": {"global_quality": "118", "flags": "+qscale"},
    },
    "aac": {"container": "adts", "audio": "aac", "rate": 16000},
    "m4a": {"container": "mp4", "audio": "aac", "rate": 16000},
}


@cache
def sound(name: str) -> bytes:
    return encode(video=None, audio_seconds=10, **SOUNDS[name])


@pytest.mark.parametrize("name", SOUNDS)
def test_half_a_sound_is_a_fault_and_a_whole_one_is_not(name: str) -> None:
    whole = sound(name)
    assert media_fault(whole) is None
    assert media_fault(whole[: len(whole) // 2 + 3]) is not None


@pytest.mark.parametrize("name", SOUNDS)
@pytest.mark.parametrize("tail", [b"TAG" + b"t" * 125, bytes(range(256)) * 3, bytes(5000)], ids=["tag", "bytes", "nul"])
def test_bytes_behind_a_whole_sound_are_no_fault(name: str, tail: bytes) -> None:
    assert media_fault(sound(name) + tail) is None


def test_tags_before_an_mp3_are_no_fault() -> None:
    tags = b"Xing in a title".ljust(20_000, b"\0")
    size = bytes(len(tags) >> 7 * place & 0x7F for place in (3, 2, 1, 0))
    for name in ("mp3", "mp3 without a header"):
        assert media_fault(b"ID3\x03\0\0" + size + tags + sound(name)) is None


@pytest.mark.parametrize("size_bytes", [0, 0x7FFFFFFF, 0x7FFFFFFF - 36, 0xFFFFFFFF])
def test_a_wav_that_states_no_size_is_whole(size_bytes: int) -> None:
    assert media_fault(wav_of_size(size_bytes)) is None


WHOLE: dict[str, Callable[[], bytes]] = {
    "wav with a trailing chunk": lambda: with_trailing_chunk(wav()),
    "RF64": rf64,
    "mp4": encode,
    "mp4 with an edit list": lambda: trimmed(encode(), 13),
    "mp4 to be turned": lambda: rotated(encode(frames=5), 90),
    "mp4 in fragments": lambda: encode(container_options={"movflags": "frag_keyframe+empty_moov"}),
    "mkv": lambda: encode(container="matroska"),
    "mkv without a duration": lambda: encode(container="matroska", container_options={"live": "1"}),
    "avi": lambda: encode(container="avi", video="mpeg4"),
    "transport stream": lambda: encode(container="mpegts"),
    "VP8 with hidden frames": hidden_vp8,
    "VP9 with hidden frames": hidden_vp9,
    "packed B-frames": packed_b_frames,
    "dropped frames": dropped_frames,
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_has_no_fault(name: str) -> None:
    assert media_fault(WHOLE[name]()) is None
    assert media_fault(WHOLE[name]() + bytes(range(256))) is None


@pytest.mark.parametrize("container", ["matroska", "avi", "webm", "fragments"])
def test_a_video_that_is_cut_is_a_fault(container: str) -> None:
    codec = {"avi": "mpeg4", "webm": "libvpx-vp9"}.get(container, "libx264")
    options: dict[str, Any] = {"container": "mp4", "container_options": {"movflags": "frag_keyframe+empty_moov"}}
    data = encode(video=codec, **(options if container == "fragments" else {"container": container}))
    assert media_fault(data[: len(data) * 2 // 3]) is not None


def test_a_cut_mp4_is_a_fault_with_both_ends(tmp_path: Path) -> None:
    whole = faststart(encode(), tmp_path / "whole.mp4")
    assert media_fault(whole) is None
    cut = whole[:-1]
    assert media_fault(cut) == f"it is cut short: it ends at byte {len(cut):,}, its header says {len(whole):,}"


def test_damage_inside_a_file_is_a_fault_that_names_the_packet() -> None:
    flac = bytearray(sound("flac"))
    flac[len(flac) // 2 : len(flac) // 2 + 3000] = bytes(3000)
    assert re.match(r"audio packet \d+ does not decode|it is cut short", media_fault(bytes(flac)) or "")


def test_what_is_no_media_is_a_fault_with_what_it_begins_with() -> None:
    assert "<!DOCTYPE" in (media_fault(b"<!DOCTYPE html>" + bytes(50)) or "")
