"""The decoder as a whole: metadata, damage, pickling, uniform clips, and parts of samples."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from functools import cache
from pathlib import Path
from typing import Any

import av
import pytest
import torch

from loader.av import AVData, AVDecoder, get_clips_uniform, get_single_frames_uniform
from loader.errors import ConfigError, SampleError
from loader.format.media.metadata import AVMetadata
from loader.samples import SampleDecoder, generic_batch
from tests.unit.av.encoded_media import encode, numbers_in

WAV: dict[str, Any] = {"video": None, "container": "wav", "audio": "pcm_s16le", "sample_format": "s16"}


@cache
def both() -> bytes:
    return encode(audio="aac", rate=16000, channels=2)


@cache
def silent() -> bytes:
    return encode()


@cache
def wav() -> bytes:
    return encode(**WAV)


# ------------------------------------------------------------------------------------------------------ facts


def test_metadata_holds_what_was_asked_for() -> None:
    everything = AVMetadata(
        video_duration=5.0,
        video_num_frames=50,
        video_fps=10.0,
        video_width=64,
        video_height=48,
        audio_duration=5.0,
        audio_channels=2,
        audio_sample_rate=16000,
        audio_num_samples=79 * 1024,  # whole blocks
    )
    decoder = AVDecoder(both())
    assert decoder.get_metadata(get_audio_num_samples=True) == everything
    assert decoder.get_metadata().audio_num_samples is None
    assert decoder.get_metadata(get_video=False) == AVMetadata(
        audio_duration=5.0, audio_channels=2, audio_sample_rate=16000
    )
    assert decoder.get_metadata(get_audio=False, get_video_frame_count=False, get_video_frame_size=False) == AVMetadata(
        video_duration=5.0, video_fps=10.0
    )


def test_samples_are_counted_where_the_container_does_not() -> None:
    data = encode(video=None, container="matroska", audio="flac", sample_format="s16", rate=22050)
    assert AVDecoder(data).get_metadata(get_audio_num_samples=True).audio_num_samples == 5 * 22050


def test_single_facts() -> None:
    decoder = AVDecoder(io.BytesIO(both()))
    assert (decoder.has_video_stream(), decoder.has_audio_stream()) == (True, True)
    assert (decoder.get_video_fps(), decoder.get_video_duration()) == (10.0, (5.0, 50))
    assert (decoder.get_audio_duration(), decoder.get_audio_samples_per_second()) == (5.0, 16000)
    decoder = AVDecoder(wav())
    assert (decoder.has_video_stream(), decoder.has_audio_stream()) == (False, True)
    assert decoder.get_video_duration() == (None, None)
    assert AVDecoder(silent()).get_audio_duration() is None


def test_all_of_a_file() -> None:
    data = AVDecoder(both()).get_video_with_audio()
    assert (data.video_clips[0].shape, data.audio_clips[0].shape) == ((50, 3, 48, 64), (2, 80000))
    assert repr(data) == "AVData(video_clips=[(50, 3, 48, 64)], audio_clips=[(2, 80000)])"
    assert repr(AVDecoder(both()).get_frames()) == "AVData(video_clips=[(50, 3, 48, 64)], audio_clips=[])"
    assert repr(AVDecoder(both()).get_frames(video_decode_audio=True)) == repr(data)
    assert repr(AVDecoder(silent()).get_frames(video_decode_audio=True)) == (
        "AVData(video_clips=[(50, 3, 48, 64)], audio_clips=[])"
    )
    assert repr(AVDecoder(wav()).get_frames()) == "AVData(video_clips=[], audio_clips=[(1, 40000)])"


def test_a_batch_of_decoded_media_shows_the_clips_of_each_sample() -> None:
    batch = generic_batch([AVDecoder(wav()).get_frames(), AVDecoder(both()).get_frames()])
    assert repr(batch) == "AVData(video_clips=[[], [(50, 3, 48, 64)]], audio_clips=[[(1, 40000)], []])"


def test_a_decoder_can_be_used_again_and_its_copies_take_the_bytes_along() -> None:
    decoder = AVDecoder(io.BytesIO(silent()))
    first = decoder.get_video_clips([(3, 5)], "frames")[0][0]
    copy = pickle.loads(pickle.dumps(decoder))
    for again in (decoder, copy):
        assert torch.equal(again.get_video_clips([(3, 5)], "frames")[0][0], first)
    assert repr(copy) == f"AVDecoder({len(silent())} bytes)"


def test_a_cover_picture_is_no_video() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp3") as output:
        sound = output.add_stream("libmp3lame", rate=16000, layout="mono")
        cover = output.add_stream("png", rate=1)
        cover.width, cover.height, cover.pix_fmt = 16, 16, "rgb24"
        cover.disposition = av.stream.Disposition.attached_pic
        frame = av.VideoFrame(16, 16, "rgb24")
        output.mux(cover.encode(frame))
        blank = av.AudioFrame(format="fltp", layout="mono", samples=8000)
        blank.sample_rate = 16000
        output.mux([*sound.encode(blank), *sound.encode(None), *cover.encode(None)])
    decoder = AVDecoder(file.getvalue())
    assert (decoder.has_video_stream(), decoder.has_audio_stream()) == (False, True)
    assert decoder.get_metadata().video_width is None


# ----------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("data", [b"", b"\0" * 1000, b"?" * 100_000], ids=["empty", "zeros", "garbage"])
@pytest.mark.parametrize(
    "method", ["get_video", "get_audio", "get_frames", "get_metadata", "get_video_fps", "has_audio_stream"]
)
def test_what_is_no_media_is_refused(data: bytes, method: str) -> None:
    with pytest.raises(ValueError, match="not audio or video that can be read"):
        getattr(AVDecoder(data), method)()


def test_a_stream_that_is_not_there_is_named() -> None:
    for method in ("get_video", "get_video_with_audio"):
        with pytest.raises(ValueError, match="there is no video in this wav file"):
            getattr(AVDecoder(wav()), method)()
    with pytest.raises(ValueError, match="there is no audio in this mov,mp4"):
        AVDecoder(silent()).get_audio()
    with pytest.raises(ValueError, match="the file has no video"):
        AVDecoder(wav()).get_video_fps()
    with pytest.raises(ValueError, match="the file has no audio"):
        AVDecoder(silent()).get_audio_samples_per_second()


def test_a_file_cut_short_gives_what_is_left_of_clips_and_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "index_first.mp4"
    with av.open(io.BytesIO(silent()), "r") as source, av.open(path, "w", options={"movflags": "faststart"}) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    data = path.read_bytes()
    cut = AVDecoder(data[: len(data) - 700])
    assert numbers_in(cut.get_video_clips([(3, 5)], "frames")[0][0]) == [3, 4, 5]
    with pytest.raises(ValueError, match=r"cut short: its video ends at .* s, its header says 5.000 s|damaged"):
        cut.get_video()


@pytest.mark.parametrize("container", ["matroska", "mp4", "mpegts", "avi"])
def test_damage_anywhere_ends_in_frames_or_a_clear_error(container: str) -> None:
    data = encode(container=container, video="mpeg4", b_frames=0, frames=20, gop=5)
    before = len(os.listdir("/dev/fd"))
    for at in range(0, len(data), max(len(data) // 25, 1)):
        for damaged in (data[:at], data[:at] + bytes(40) + data[at + 40 :]):
            decoder = AVDecoder(damaged)
            for ask in (decoder.get_video, decoder.get_metadata, lambda one=decoder: one.get_video_clips([(1, 1.5)])):
                with contextlib.suppress(ValueError):  # anything else, or a hang, is a failure
                    ask()
    assert len(os.listdir("/dev/fd")) == before


# ---------------------------------------------------------------------------------------------------- uniform


def test_uniform_clips_cover_the_file_from_start_to_end() -> None:
    data = get_clips_uniform(AVDecoder(both()), 1, 3, request_video=True, request_audio=True)
    assert [numbers_in(clip) for clip in data.video_clips] == [
        list(range(11)),
        list(range(20, 31)),
        list(range(40, 50)),
    ]
    assert data.audio_timestamps == [(0, 1), (2, 3), (4, 5)]
    assert [clip.shape for clip in data.audio_clips] == [(2, 16000)] * 3


def test_uniform_clips_longer_than_the_file_are_the_file() -> None:
    data = get_clips_uniform(AVDecoder(silent()), 10, 2, request_video=True, video_out_frame_size=(32, 24))
    assert [tuple(clip.shape) for clip in data.video_clips] == [(50, 3, 24, 32)] * 2


def test_uniform_clips_of_no_duration_are_single_frames() -> None:
    data = get_clips_uniform(AVDecoder(silent()), 0, 3, request_video=True)
    assert [numbers_in(clip) for clip in data.video_clips] == [[0], [25], [49]]


def test_uniform_clips_of_what_is_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="neither video nor audio is requested"):
        get_clips_uniform(AVDecoder(silent()), 1, 1)
    with pytest.raises(ValueError, match="audio is requested, but the file has no audio"):
        get_clips_uniform(AVDecoder(silent()), 1, 1, request_audio=True)
    with pytest.raises(ValueError, match="video is requested, but the file has no video"):
        get_clips_uniform(AVDecoder(wav()), 1, 1, request_video=True)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, [0]), (2, [0, 49]), (5, [0, 12, 25, 37, 49]), (10, [0, 5, 11, 16, 22, 27, 33, 38, 44, 49])],
    ids=str,
)
def test_single_frames_are_evenly_spread(count: int, expected: list[int]) -> None:
    for arguments in ({}, {"container": "matroska"}, {"pts": [number + 20 for number in range(50)]}):
        frames, times = get_single_frames_uniform(AVDecoder(encode(**arguments)), count, return_timestamps=True)
        assert numbers_in(frames) == expected
        assert times == pytest.approx([number / 10 for number in expected])
    assert get_single_frames_uniform(AVDecoder(silent()), count, video_out_frame_size=(32, 24)).shape[2:] == (24, 32)


def test_more_single_frames_than_there_are_repeat_some() -> None:
    frames = get_single_frames_uniform(AVDecoder(encode(frames=3)), 6)
    assert numbers_in(frames) == [0, 0, 1, 1, 2, 2]


def test_no_single_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="num_frames is 0"):
        get_single_frames_uniform(AVDecoder(silent()), 0)


# ----------------------------------------------------------------------------------------------- sample parts


def test_parts_become_decoders_by_their_names() -> None:
    decoder = SampleDecoder()
    for name in ("mp4", "MP4", "seg.mp4", "avi", "mov", "mkv", "webm", "flv", "mp3", "wav", "flac"):
        assert isinstance(decoder.decode_part(name, silent()), AVDecoder), name
    for name in ("ogg", "m4a", "m4v", "ts", "bin"):
        assert decoder.decode_part(name, silent()) == silent(), name


def test_parts_become_tensors_where_asked() -> None:
    data = SampleDecoder(av_decode="torch")({"mp4": both(), "wav": wav()})
    assert isinstance(data["mp4"], AVData)
    assert (len(data["mp4"].video_clips), len(data["mp4"].audio_clips)) == (1, 0)
    assert data["wav"].audio_clips[0].shape == (1, 40000)
    with_audio = SampleDecoder(av_decode="torch", video_decode_audio=True).decode_part("mp4", both())
    assert with_audio.audio_clips[0].shape == (2, 80000)


def test_parts_become_containers_or_bytes_where_asked() -> None:
    container = SampleDecoder(av_decode="pyav").decode_part("mp4", silent())
    assert container.streams.video[0].frames == 50
    container.close()
    for form in ("bytes", None):
        assert SampleDecoder(av_decode=form).decode_part("mp4", silent()) == silent()


@pytest.mark.parametrize("form", ["torch", "pyav"])
def test_a_part_that_is_no_media_is_a_sample_error(form: str) -> None:
    with pytest.raises(SampleError, match="part 'mp4' does not decode as mp4: not audio or video that can be read"):
        SampleDecoder(av_decode=form).decode_part("mp4", b"no video")


def test_an_unknown_av_decode_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="there is no av_decode 'AVdecoder'; did you mean 'AVDecoder'"):
        SampleDecoder(av_decode="AVdecoder")


def test_without_pyav_parts_stay_bytes_and_what_was_asked_for_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = silent()  # encoded while PyAV can be imported
    monkeypatch.setattr("loader.samples.decoding.decoder.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "av", None)
    assert SampleDecoder().decode_part("mp4", data) == data
    for form in ("torch", "pyav"):
        with pytest.raises(ImportError, match=r"pip install 'energon-toolkit\[av\]'"):
            SampleDecoder(av_decode=form).decode_part("mp4", data)
    with pytest.raises(ImportError, match=r"pip install 'energon-toolkit\[av\]'"):
        AVDecoder(data).get_video()


def test_the_limits_by_default_fit_into_a_machine_of_16_gb() -> None:
    assert AVDecoder.max_video_pixels is not None
    assert AVDecoder.max_audio_samples is not None
    assert AVDecoder.max_video_pixels * 3 <= 4 << 30
    assert AVDecoder.max_audio_samples * 4 <= 2 << 30
    assert AVDecoder.max_video_pixels >= 512 * 1920 * 1080


def test_frames_of_videos_have_the_limit_of_images(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = AVDecoder(encode(frames=3))
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 64 * 48)
    assert decoder.get_video().video_clips
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 64 * 48 - 1)
    with pytest.raises(ValueError, match=r"a frame of 64 x 48 has 3,072 pixels.* raise PIL\.Image\.MAX_IMAGE_PIXELS"):
        decoder.get_video()


@pytest.mark.parametrize("kind", ["sound", "sound of a video"])
def test_the_samples_of_all_clips_and_channels_count(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    video = {"video": None, "container": "wav", "audio": "pcm_s16le", "sample_format": "s16"}
    arguments: dict[str, Any] = video if kind == "sound" else {"audio": "aac"}
    decoder = AVDecoder(encode(**arguments, rate=8000, channels=2))
    ranges = [(0.0, 1.0), (0.5, 1.5), (3.0, 4.0)]  # 3 × 8,000 samples of 2 channels; a part is in two clips
    monkeypatch.setattr(AVDecoder, "max_audio_samples", 48_000)
    assert [clip.shape for clip in decoder.get_audio_clips(ranges)[0]] == [(2, 8000)] * 3
    monkeypatch.setattr(AVDecoder, "max_audio_samples", 47_999)
    message = r"have 48,000 samples of audio or more, the limit is 47,999.* raise AVDecoder\.max_audio_samples"
    for decode in (
        lambda: decoder.get_audio_clips(ranges),
        lambda: decoder.get_clips(audio_clip_ranges=ranges),
    ):
        with pytest.raises(ValueError, match=message):
            decode()
    with pytest.raises(ValueError, match=r"raise AVDecoder\.max_audio_samples"):
        decoder.get_frames(video_decode_audio=True)
    monkeypatch.setattr(AVDecoder, "max_audio_samples", None)
    assert decoder.get_audio().audio_clips[0].shape[0] == 2


def test_the_pixels_and_samples_of_a_call_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = AVDecoder(encode(audio="aac"))
    pixels = sum(clip.shape[0] * clip.shape[2] * clip.shape[3] for clip in decoder.get_video().video_clips)
    samples = decoder.get_audio().audio_clips[0].numel()
    monkeypatch.setattr(AVDecoder, "max_video_pixels", pixels)
    monkeypatch.setattr(AVDecoder, "max_audio_samples", samples)
    assert decoder.get_video_with_audio().video_clips
    monkeypatch.setattr(AVDecoder, "max_video_pixels", pixels - 1)
    monkeypatch.setattr(AVDecoder, "max_audio_samples", samples - 1)
    with pytest.raises(ValueError, match=r"raise AVDecoder\.max_video_pixels"):
        decoder.get_video()
    with pytest.raises(ValueError, match=r"raise AVDecoder\.max_video_pixels"):
        decoder.get_video_clips([(0, 3), (0, 3)])  # frames of both clips count
    assert decoder.get_video_clips([(0, 1)])[0]
    with pytest.raises(ValueError, match=r"raise AVDecoder\.max_audio_samples"):
        decoder.get_audio()
    monkeypatch.setattr(AVDecoder, "max_video_pixels", None)
    assert decoder.get_video().video_clips
