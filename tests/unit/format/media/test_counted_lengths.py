"""Lengths are those of what decodes, also where a header does not tell them, and say what they were taken from."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import cast

import pytest

from loader.av import AVDecoder, get_single_frames_uniform
from loader.format.media.av_probe import probe_av
from loader.format.media.extraction import FileRegion, extract_media
from loader.format.media.metadata import MediaFilter
from loader.storage import ReadableFile
from tests.unit.av.encoded_media import encode, numbers_in, trimmed
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

Make = Callable[[], bytes]

SOUNDS: dict[str, tuple[Make, str]] = {
    "plain": (wav, "stated"),
    "size 0": (lambda: wav_of_size(0), "counted"),
    "size 0x7FFFFFFF": (lambda: wav_of_size(0x7FFFFFFF), "counted"),
    "size 0x7FFFFFFF without a header": (lambda: wav_of_size(0x7FFFFFFF - 44), "counted"),
    "size 0xFFFFFFFF": (lambda: wav_of_size(0xFFFFFFFF), "counted"),
    "a trailing chunk": (lambda: with_trailing_chunk(wav()), "stated"),
    "RF64": (rf64, "stated"),
    "BW64": (lambda: rf64(b"BW64"), "stated"),
    "RF64 with a trailing chunk": (lambda: with_trailing_chunk(rf64()), "stated"),
}


@pytest.mark.parametrize("name", SOUNDS)
@pytest.mark.parametrize("exact", [False, True], ids=["header", "exact"])
def test_a_wav_has_the_samples_that_decode_whatever_size_it_states(name: str, *, exact: bool) -> None:
    make, basis = SOUNDS[name]
    found = probe_av(make(), exact=exact)
    assert (found.audio_duration, found.audio_num_samples) == (1.0, 8000)
    assert found.audio_basis == ("decoded" if exact else basis)
    decoder = AVDecoder(make())
    assert decoder.get_audio().audio_clips[0].shape == (1, 8000)
    assert decoder.get_spans() == (None, (0.0, 1.0))


@pytest.mark.parametrize(
    ("container", "audio"), [("wav", "pcm_s16le"), ("aiff", "pcm_s16be"), ("wav", "pcm_s24le"), ("wav", "pcm_u8")]
)
def test_half_a_file_of_samples_has_the_samples_that_are_there(container: str, audio: str) -> None:
    form = {"pcm_s24le": "s32", "pcm_u8": "u8"}.get(audio, "s16")
    data = encode(video=None, container=container, audio=audio, sample_format=form, audio_seconds=2, channels=2)
    half = data[: len(data) // 2 + 1]
    found = probe_av(half)
    assert found.audio_basis == "counted"
    assert found.audio_num_samples == AVDecoder(half).get_audio().audio_clips[0].shape[1]


VIDEOS: dict[str, tuple[Make, int]] = {
    "VP8 with hidden frames": (hidden_vp8, 55),
    "VP8 with hidden frames in IVF": (lambda: hidden_vp8("ivf"), 55),
    "VP8 with hidden frames in AVI": (lambda: hidden_vp8("avi"), 55),
    "VP9 with superframes": (hidden_vp9, 37),
    "VP9 with superframes in MP4": (lambda: hidden_vp9("mp4"), 37),
    "VP9 with hidden frames in packets": (lambda: hidden_vp9(split=True), 37),
    "MPEG-4 with packed B-frames": (packed_b_frames, 50),
    "MPEG-4 with dropped frames": (dropped_frames, 50),
    "MP4 with an edit list": (lambda: trimmed(encode(), 13), 37),
    "uneven times in Matroska": (
        lambda: encode(container="matroska", frames=6, pts=[0, 1, 2, 8, 9, 30], time_base=Fraction(1, 10)),
        6,
    ),
}


@pytest.mark.parametrize("name", VIDEOS)
def test_a_video_has_the_frames_that_decode(name: str) -> None:
    make, frames = VIDEOS[name]
    data = make()
    found, exact = probe_av(data), probe_av(data, exact=True)
    assert (found.video_num_frames, found.video_basis) == (frames, "counted")
    assert (exact.video_num_frames, exact.video_basis) == (frames, "decoded")
    assert exact.video_duration == pytest.approx(found.video_duration)
    decoder = AVDecoder(data)
    [clip], [(start, end)] = decoder.get_video_clips([(0, float("inf"))], "frames")
    assert len(clip) == frames
    assert end - start == pytest.approx(found.video_duration)
    assert decoder.get_video_duration() == (found.video_duration, frames)
    assert len(get_single_frames_uniform(decoder, 8)) == 8


def test_packed_frames_come_at_their_own_times() -> None:
    decoder = AVDecoder(packed_b_frames())
    assert numbers_in(decoder.get_video().video_clips[0]) == list(range(50))
    clips, times = decoder.get_video_clips([(2.0, 2.0), (4.45, 4.45)])
    assert [numbers_in(clip) for clip in clips] == [[20], [44]]
    assert times == [(2.0, 2.1), (4.4, 4.5)]
    assert numbers_in(get_single_frames_uniform(decoder, 8)) == [0, 7, 14, 21, 28, 35, 42, 49]


@pytest.mark.parametrize("audio", [None, "aac"])
def test_an_mp4_that_is_cut_has_the_frames_that_are_there(tmp_path: Path, audio: str | None) -> None:
    whole = faststart(encode(gop=10, b_frames=0, audio=audio, rate=16000), tmp_path / "whole.mp4")
    assert probe_av(whole).video_basis == "stated"
    for share in (0.7, 0.9):
        cut = whole[: int(len(whole) * share)]
        found, exact = probe_av(cut), probe_av(cut, exact=True)
        assert found.video_basis == "counted"
        assert found.video_num_frames == exact.video_num_frames
        assert 0 < (found.video_num_frames or 0) < 50
        frames = get_single_frames_uniform(AVDecoder(cut), 8)
        assert len(frames) == 8
        assert numbers_in(frames)[-1] == (found.video_num_frames or 0) - 1


def test_a_video_of_fewer_frames_than_packets_gives_the_number_that_is_asked_for() -> None:
    data = encode(container="h264", frames=20, gop=10, b_frames=0)
    starts = [at for at in range(len(data)) if data.startswith(b"\0\0\1\x41", at)]
    broken = data[: starts[14] + 4] + data[starts[16] :]  # the packets of two frames become one that is empty
    frames, times = get_single_frames_uniform(AVDecoder(broken), 8, return_timestamps=True)
    assert (len(frames), len(times)) == (8, 8)
    frames = get_single_frames_uniform(AVDecoder(encode(frames=3)), 8)
    assert len(frames) == 8


def test_the_header_of_a_plain_file_is_all_that_is_read() -> None:
    for data, limit in ((wav(200.0), 200_000), (encode(frames=400, b_frames=0, size=(320, 240)), 100_000)):
        name = "a.wav" if data.startswith(b"RIFF") else "a.mp4"
        region = FileRegion(cast("ReadableFile", _Bytes(data)), 0, len(data))
        found = extract_media(region, name, MediaFilter(strategy="EXTENSION"))
        assert found is not None
        assert region.bytes_read < limit


class _Bytes(io.BytesIO):
    """Bytes as a file of a storage."""

    @property
    def size_bytes(self) -> int:
        return len(self.getbuffer())

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        return bytes(self.getbuffer()[offset : offset + size_bytes])
