"""Decoded samples are the requested ones: no two places of the tone are alike."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from loader.av import AVDecoder
from tests.unit.av.encoded_media import encode, tone

SECONDS = 6
AUDIO: dict[str, dict[str, Any]] = {
    "wav of 16 bits": {"container": "wav", "audio": "pcm_s16le", "sample_format": "s16", "channels": 2},
    "wav of floats": {"container": "wav", "audio": "pcm_f32le", "sample_format": "flt", "channels": 2},
    "wav of 8 bits": {"container": "wav", "audio": "pcm_u8", "sample_format": "u8"},
    "flac": {"container": "flac", "audio": "flac", "sample_format": "s16", "channels": 2},
    "mp3": {"container": "mp3", "audio": "libmp3lame", "rate": 16000, "channels": 2},
    "aac": {"container": "mp4", "audio": "aac", "rate": 16000},
    "opus": {"container": "ogg", "audio": "libopus", "rate": 48000, "sample_format": "flt"},
    "flac in Matroska": {"container": "matroska", "audio": "flac", "sample_format": "s16", "rate": 22050},
    "mp3 in Matroska": {"container": "matroska", "audio": "libmp3lame", "rate": 22050},
}
LOSSLESS = {"wav of 16 bits": 32767, "wav of floats": 1, "flac": 32767, "flac in Matroska": 32767}
by_audio = pytest.mark.parametrize("name", AUDIO)


@cache
def audio(name: str) -> bytes:
    return encode(video=None, audio_seconds=SECONDS, **AUDIO[name])


@cache
def whole(name: str) -> torch.Tensor:
    return AVDecoder(audio(name)).get_audio().audio_clips[0]


def rate_of(name: str) -> int:
    return int(AUDIO[name].get("rate", 8000))


@by_audio
def test_all_samples_come_without_the_padding_of_the_encoder(name: str) -> None:
    rate, channels = rate_of(name), AUDIO[name].get("channels", 1)
    data = AVDecoder(audio(name)).get_audio()
    assert data.audio_clips[0].shape == (channels, SECONDS * rate)
    assert data.audio_timestamps == [(0, SECONDS)]
    assert (data.video_clips, data.video_timestamps) == ([], [])
    heard = data.audio_clips[0].numpy().astype(np.float64)
    heard = heard - heard.mean(axis=1, keepdims=True)
    expected = tone(SECONDS * rate, rate=rate, channels=channels)
    for mine, other in zip(heard, expected, strict=True):
        lags = range(-3, 4)
        likeness = [np.dot(mine[rate : 2 * rate], other[rate + lag : 2 * rate + lag]) for lag in lags]
        assert abs(lags[int(np.argmax(likeness))]) <= 1  # Opus filters


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_codecs_give_what_was_encoded(name: str) -> None:
    expected = tone(SECONDS * rate_of(name), rate=rate_of(name), channels=AUDIO[name].get("channels", 1))
    assert np.array_equal(whole(name).numpy(), np.round(expected * LOSSLESS[name]) if LOSSLESS[name] > 1 else expected)


def test_the_numbers_are_those_that_are_stored() -> None:
    kinds = {"wav of 16 bits": torch.int16, "wav of 8 bits": torch.uint8, "flac": torch.int16, "mp3": torch.float32}
    assert {name: whole(name).dtype for name in kinds} == kinds
    assert whole("mp3").abs().max() <= 1


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(sorted(AUDIO)),
    st.lists(st.tuples(st.floats(0, SECONDS - 0.01), st.floats(0, 2)), min_size=1, max_size=3),
)
def test_clips_are_exact_to_the_sample(name: str, places: list[tuple[float, float]]) -> None:
    rate = rate_of(name)
    ranges = [(round(start * rate), round((start + length) * rate)) for start, length in places]
    clips, times = AVDecoder(audio(name)).get_audio_clips(ranges, "samples")
    assert len(clips) == len(ranges)
    for clip, (start, end), (first, last) in zip(clips, ranges, times, strict=True):
        expected = whole(name)[:, start:end]
        assert clip.shape == expected.shape
        assert clip.dtype == expected.dtype
        # AAC fills in noise, different at each run.
        assert torch.allclose(clip.double(), expected.double(), atol=0.02 if name == "aac" else 0)
        assert (first * rate, last * rate) == pytest.approx((start, min(end, SECONDS * rate)))


def test_seconds_become_the_nearest_sample() -> None:
    decoder = AVDecoder(audio("flac"))
    clips, times = decoder.get_audio_clips([(0.1, 0.3), (1.0, 1.0001), (5.5, math.inf), (-1, 0.001)])
    assert [clip.shape[1] for clip in clips] == [1600, 1, 4000, 8]
    assert torch.equal(clips[0], whole("flac")[:, 800:2400])
    assert times == [(0.1, 0.3), (1.0, 1.000125), (5.5, 6.0), (0.0, 0.001)]


@pytest.mark.parametrize("samples", [100_000, 98 * 1024 + 90, 98 * 1024 - 5, 98 * 1024, 99_999])
@pytest.mark.parametrize("video", [None, "libx264"])
def test_aac_ends_with_the_last_encoded_sample(video: str | None, samples: int) -> None:
    """MP4 states the length of a stream in milliseconds, and that of its last block in samples."""
    file = encode(video=video, audio="aac", rate=44100, audio_seconds=(samples + 0.5) / 44100)
    data = AVDecoder(file).get_audio()
    assert data.audio_clips[0].shape == (1, samples)
    assert data.audio_timestamps[0][1] == pytest.approx(samples / 44100)


def test_clips_of_one_length_have_one_number_of_samples() -> None:
    file = encode(video=None, container="wav", audio="pcm_s16le", sample_format="s16", rate=44100, audio_seconds=3)
    starts = [number * 0.0301 for number in range(90)]
    clips, _ = AVDecoder(file).get_audio_clips([(start, start + 0.0301) for start in starts])
    assert {clip.shape[1] for clip in clips} == {1327}
    (clip,), _ = AVDecoder(file).get_audio_clips([(0.145, 0.3)])
    assert torch.equal(clip, AVDecoder(file).get_audio().audio_clips[0][:, 6395 : 6395 + 6836])


def test_a_range_of_nothing_gives_no_samples_and_one_behind_the_end_no_clip() -> None:
    clips, times = AVDecoder(audio("wav of 16 bits")).get_audio_clips([(2, 2), (7, 8), (1, 1.5)])
    assert [tuple(clip.shape) for clip in clips] == [(2, 0), (2, 4000)]
    assert times == [(2.0, 2.0), (1.0, 1.5)]


def test_a_clip_near_the_end_does_not_decode_all_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.av import audio_clips

    blocks = []
    read = audio_clips.AudioReader.read

    def counted(self: Any) -> Any:
        blocks.append(read(self))
        return blocks[-1]

    monkeypatch.setattr(audio_clips.AudioReader, "read", counted)
    for name in ("mp3", "aac", "flac", "opus", "wav of 16 bits", "mp3 in Matroska"):
        blocks.clear()
        AVDecoder(audio(name)).get_audio_clips([(SECONDS - 0.5, SECONDS)])
        samples = sum(block[1].shape[1] for block in blocks if block)
        assert samples < 2 * rate_of(name), name


def test_ranges_and_units_that_mean_nothing_are_refused() -> None:
    decoder = AVDecoder(audio("flac"))
    with pytest.raises(ValueError, match=r"audio_clip_ranges\[0\] ends at 3, before it starts at 5"):
        decoder.get_audio_clips([(5, 3)])
    with pytest.raises(ValueError, match="audio_unit is 'frames'; expected 'samples' or 'seconds'"):
        decoder.get_audio_clips([(0, 1)], "frames")  # type: ignore[arg-type]
