"""``probe_av`` returns the facts of the encoded file."""

from __future__ import annotations

import io
import sys
from fractions import Fraction
from typing import Any, BinaryIO

import pytest

from loader.format.media.av_probe import probe_av
from loader.format.media.import_av import open_container
from tests.unit.av.encoded_media import encode, rotated

VIDEO = {
    "video_duration": 5.0,
    "video_num_frames": 50,
    "video_fps": 10.0,
    "video_width": 64,
    "video_height": 48,
}


def facts_of(data: bytes | BinaryIO, *, exact: bool = False) -> dict[str, Any]:
    return probe_av(data, exact=exact).to_dict()


def audio_facts(**facts: float) -> dict[str, float]:
    return {f"audio_{name}": value for name, value in facts.items()}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"b_frames": 0},
        {"video": "mpeg4", "container": "avi"},
        {"video": "mpeg4", "container": "avi", "b_frames": 0},
        {"container": "matroska"},
        {"container": "mpegts"},
        {"container": "h264"},
        {"container": "mp4", "container_options": {"movflags": "frag_keyframe+empty_moov"}},
        {"pts": [number + 20 for number in range(50)]},
        {"pts": [number + 20 for number in range(50)], "container": "matroska"},
        {"video": "libvpx-vp9", "container": "webm"},
        {"video": "libvpx-vp9", "container": "ivf"},
    ],
    ids=str,
)
def test_video_is_what_was_encoded_in_any_container(arguments: dict[str, Any]) -> None:
    assert facts_of(encode(**arguments)) == VIDEO


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"container": "wav", "audio": "pcm_s16le", "sample_format": "s16"}, (5.0, 40000)),
        ({"container": "flac", "audio": "flac", "sample_format": "s16", "channels": 2}, (5.0, 40000)),
        ({"container": "mp3", "audio": "libmp3lame", "rate": 16000}, (5.0, 80000)),
        ({"container": "mp4", "audio": "aac", "rate": 16000, "channels": 2}, (5.0, 79 * 1024)),  # whole blocks
        ({"container": "ogg", "audio": "libopus", "rate": 48000, "sample_format": "flt"}, (5.0, 240000)),
        ({"container": "adts", "audio": "aac", "rate": 16000}, (5.12, 81920)),  # its format cannot state the padding
        ({"container": "matroska", "audio": "flac", "sample_format": "s16"}, (5.0, None)),  # its clock is too coarse
    ],
    ids=lambda value: value["container"] if isinstance(value, dict) else "",
)
def test_audio_is_what_was_encoded_without_padding(arguments: dict[str, Any], expected: tuple[float, Any]) -> None:
    duration, samples = expected
    facts = audio_facts(
        duration=duration, channels=arguments.get("channels", 1), sample_rate=arguments.get("rate", 8000)
    )
    if samples is not None:
        facts["audio_num_samples"] = samples
    assert facts_of(encode(video=None, **arguments)) == facts


def test_a_video_with_audio_tells_of_both() -> None:
    found = facts_of(io.BytesIO(encode(audio="aac", rate=16000, channels=2)))
    assert found == VIDEO | audio_facts(duration=5.0, channels=2, sample_rate=16000, num_samples=79 * 1024)


@pytest.mark.parametrize(("container", "audio"), [("mp4", "aac"), ("mov", "aac"), ("mp4", "libmp3lame")])
def test_samples_are_those_that_decode(container: str, audio: str) -> None:
    data = encode(container=container, audio=audio, rate=16000)
    with open_container(io.BytesIO(data)) as opened:
        decoded = sum(frame.samples for frame in opened.decode(opened.streams.audio[0]))
    assert facts_of(data)["audio_num_samples"] == facts_of(data, exact=True)["audio_num_samples"] == decoded > 80000


def test_frames_at_odd_times_give_an_average_rate() -> None:
    data = encode(frames=5, pts=[0, 1, 2, 8, 9], time_base=Fraction(1, 10))
    assert facts_of(data) == VIDEO | {"video_duration": 1.0, "video_num_frames": 5, "video_fps": 5.0}


def test_a_video_to_be_turned_is_as_wide_as_it_is_shown() -> None:
    found = facts_of(rotated(encode(frames=3), 90))
    assert (found["video_width"], found["video_height"]) == (48, 64)
    found = facts_of(rotated(encode(frames=3), 180))
    assert (found["video_width"], found["video_height"]) == (64, 48)


def test_a_file_cut_short_tells_of_what_is_left() -> None:
    data = encode(container="matroska")
    found = facts_of(data[: len(data) // 2])
    assert 0 < found["video_num_frames"] < 50
    assert found["video_duration"] < 5


@pytest.mark.parametrize("data", [b"", b"?" * 5000, encode(frames=5)[:800]], ids=["empty", "garbage", "cut"])
def test_what_is_no_media_is_refused_with_what_was_found(data: bytes) -> None:
    found = repr(data[:16]) if data else "empty"
    with pytest.raises(ValueError, match="not audio or video that can be read") as caught:
        probe_av(data)
    assert found in str(caught.value)


def test_a_stream_without_packets_has_no_length() -> None:
    empty = encode(video="libvpx", container="ivf", frames=3)[:32]  # its header
    for exact in (False, True):
        assert facts_of(empty, exact=exact) == {"video_fps": 10.0, "video_width": 64, "video_height": 48}


def test_without_pyav_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImportError, match=r"pip install 'energon-toolkit\[av\]'"):
        probe_av(b"")


def test_a_title_of_another_encoding_does_not_matter() -> None:
    title = b"INFOINAM" + (6).to_bytes(4, "little") + "Café\0".encode("latin-1").ljust(6, b"\0")
    data = encode(video=None, container="wav", audio="pcm_s16le", sample_format="s16")
    described = data + b"LIST" + len(title).to_bytes(4, "little") + title
    described = described[:4] + (len(described) - 8).to_bytes(4, "little") + described[8:]
    assert probe_av(described) == probe_av(data)


@pytest.mark.parametrize(("version", "passed"), [("14.0.1", {"metadata_errors"}), ("19.0.2", set())])
def test_the_option_for_titles_is_passed_to_versions_that_have_it(
    monkeypatch: pytest.MonkeyPatch, version: str, passed: set[str]
) -> None:
    found: list[set[str]] = []
    monkeypatch.setattr("av.__version__", version)
    monkeypatch.setattr("av.open", lambda *_, **options: found.append(set(options)))
    open_container(io.BytesIO())
    assert found == [{"options"} | passed]
