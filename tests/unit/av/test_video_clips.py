"""Decoded frames are the requested ones: each has its number painted on it."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from functools import cache
from typing import Any

import av
import pytest
import torch
from hypothesis import given, settings, strategies as st

from loader.av import AVDecoder
from loader.av.video_reader import VideoReader
from loader.format.media.import_av import open_av
from tests.unit.av.encoded_media import encode, hevc_in_avi, in_avi, number_in, numbers_in, rotated, trimmed

LATE = [number + 20 for number in range(50)]
VIDEOS: dict[str, dict[str, Any]] = {
    "h264 with B-frames": {},
    "h264 without B-frames": {"b_frames": 0},
    "h264 with one keyframe": {"gop": 1000},
    "h264 in fragments": {"container_options": {"movflags": "frag_keyframe+empty_moov"}},
    "h264 in Matroska": {"container": "matroska"},
    "h264 in a transport stream": {"container": "mpegts"},
    "h264 without container": {"container": "h264"},
    "h264 that begins late": {"pts": LATE},
    "h264 in Matroska that begins late": {"pts": LATE, "container": "matroska"},
    "mpeg4": {"video": "mpeg4"},
    "mpeg4 in AVI": {"video": "mpeg4", "container": "avi", "b_frames": 0},
    "mpeg4 with B-frames in AVI": {"video": "mpeg4", "container": "avi", "b_frames": 2},
    "mpeg4 with one keyframe in AVI": {"video": "mpeg4", "container": "avi", "b_frames": 2, "gop": 1000},
    "mpeg2 in AVI": {"video": "mpeg2video", "container": "avi"},
    "mjpeg in AVI": {"video": "mjpeg", "container": "avi"},
    "h264 in AVI": {"container": "avi"},
    "h264 with three B-frames in AVI": {"container": "avi", "b_frames": 3, "gop": 25},
    "h264 without B-frames in AVI": {"container": "avi", "b_frames": 0},
    "h264 with one keyframe in AVI": {"container": "avi", "b_frames": 3, "gop": 1000},
    "h264 with open groups in AVI": {"container": "avi", "video_options": {"x264-params": "open-gop=1:bframes=3"}},
    "vp9": {"video": "libvpx-vp9", "container": "webm"},
    "vp9 in IVF": {"video": "libvpx-vp9", "container": "ivf"},
}
PAUSES = [number + 60 * (number // 7) for number in range(50)]  # every seventh frame stays for six seconds
UNEVEN = [0, 1, 2, 5, 6, 10, 11, 12, 13, 20, 21, 25, 30, 31, 32]
by_video = pytest.mark.parametrize("name", VIDEOS)


@cache
def video(name: str = "h264 with B-frames") -> bytes:
    return encode(**VIDEOS[name])


@cache
def uneven() -> bytes:
    return encode(frames=len(UNEVEN), pts=UNEVEN, time_base=Fraction(1, 10))


def clips(data: bytes, *ranges: tuple[float, float], **arguments: Any) -> tuple[list[list[int]], list[Any]]:
    frames, times = AVDecoder(data).get_video_clips(ranges, **arguments)
    return [numbers_in(clip) for clip in frames], [(round(start, 6), round(end, 6)) for start, end in times]


@by_video
@pytest.mark.sampled(3)
def test_all_frames_come_once_and_in_order(name: str) -> None:
    data = AVDecoder(video(name)).get_video()
    assert [numbers_in(clip) for clip in data.video_clips] == [list(range(50))]
    assert data.video_timestamps == [(0.0, 5.0)]
    assert data.video_clips[0].dtype == torch.uint8
    assert data.video_clips[0].shape == (50, 3, 48, 64)
    assert (data.audio_clips, data.audio_timestamps) == ([], [])


@by_video
@pytest.mark.sampled(3)
def test_a_range_of_frames_includes_both_ends(name: str) -> None:
    assert clips(video(name), (3, 5), video_unit="frames") == ([[3, 4, 5]], [(0.3, 0.6)])
    assert clips(video(name), (47, math.inf), video_unit="frames") == ([[47, 48, 49]], [(4.7, 5.0)])


@by_video
@pytest.mark.sampled(3)
def test_a_range_of_seconds_gives_the_frames_seen_in_it(name: str) -> None:
    assert clips(video(name), (0.35, 0.5)) == ([[3, 4, 5]], [(0.3, 0.6)])
    assert clips(video(name), (2.01, 2.01)) == ([[20]], [(2.0, 2.1)])
    assert clips(video(name), (4.75, math.inf)) == ([[47, 48, 49]], [(4.7, 5.0)])


@by_video
@pytest.mark.sampled(3)
def test_clips_come_in_the_order_in_which_they_are_asked_for(name: str) -> None:
    found, _ = clips(video(name), (40, 42), (3, 8), (5, 10), (0, 0), (5, 10), video_unit="frames")
    assert found == [[40, 41, 42], [3, 4, 5, 6, 7, 8], [5, 6, 7, 8, 9, 10], [0], [5, 6, 7, 8, 9, 10]]


def test_what_lies_behind_the_end_is_left_out() -> None:
    assert clips(video(), (48, 60), (60, 70), (3, 3), video_unit="frames") == ([[48, 49], [3]], [(4.8, 5), (0.3, 0.4)])
    assert clips(video(), (4.95, 4.97), (5.0, 9)) == ([[49]], [(4.9, 5.0)])
    assert clips(video()) == ([], [])


def test_what_lies_before_the_start_is_cut_off() -> None:
    assert clips(video(), (-2, 1), video_unit="frames")[0] == [[0, 1]]
    assert clips(video(), (-0.5, 0.1))[0] == [[0, 1]]


def test_frames_at_uneven_times_last_until_the_next() -> None:
    assert clips(uneven(), (0.3, 0.5)) == ([[2, 3]], [(0.2, 0.6)])
    assert clips(uneven(), (1.9, 1.9), (1.0, 1.05)) == ([[8], [5]], [(1.3, 2.0), (1.0, 1.1)])
    assert clips(uneven(), (3, 5), (10, 12), video_unit="frames") == (
        [[3, 4, 5], [10, 11, 12]],
        [(0.5, 1.1), (2.1, 3.1)],
    )


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 12)), min_size=1, max_size=4), st.sampled_from(sorted(VIDEOS))
)
def test_any_ranges_give_the_frames_that_they_name(ranges: list[tuple[int, int]], name: str) -> None:
    wanted = [(start, start + more) for start, more in ranges]
    expected = [list(range(start, min(end, 49) + 1)) for start, end in wanted if start < 50]
    assert clips(video(name), *wanted, video_unit="frames")[0] == expected
    assert clips(video(name), *[(start / 10, end / 10) for start, end in wanted])[0] == expected


@pytest.mark.parametrize("b_frames", [0, 2])
def test_frames_that_an_edit_list_cuts_off_are_not_there(b_frames: int) -> None:
    data = trimmed(encode(b_frames=b_frames), 15)
    assert clips(data, (0, math.inf)) == ([list(range(15, 50))], [(0.0, 3.5)])
    assert clips(data, (0, 2), (10, 12), video_unit="frames")[0] == [[15, 16, 17], [25, 26, 27]]
    assert clips(data, (0.35, 0.35), (1.0, 1.2))[0] == [[18], [25, 26, 27]]
    metadata = AVDecoder(data).get_metadata()
    assert (metadata.video_num_frames, metadata.video_duration) == (35, 3.5)


def test_a_frame_rate_that_the_clock_cannot_express_gives_the_frames_meant() -> None:
    data = encode(fps=Fraction(30000, 1001), frames=90, container="matroska")
    times = [number * 1001 / 30000 for number in (0, 1, 2, 44, 45, 46, 88)]
    assert clips(data, *[(time, time) for time in times])[0] == [[0], [1], [2], [44], [45], [46], [88]]


def test_video_and_audio_are_of_the_same_time_where_one_begins_late() -> None:
    data = AVDecoder(encode(pts=LATE, audio="aac", rate=16000, audio_seconds=7)).get_clips(
        video_clip_ranges=[(2.5, 2.95)], audio_clip_ranges=[(2.5, 2.95)]
    )
    assert (numbers_in(data.video_clips[0]), data.video_timestamps) == ([5, 6, 7, 8, 9], [(2.5, 3.0)])
    assert data.audio_timestamps == [(2.5, 2.95)]


def test_the_first_frame_stands_for_the_time_before_it() -> None:
    data = encode(pts=LATE, audio="aac", rate=16000, audio_seconds=7)
    assert clips(data, (0, 1), (0.5, 2.1)) == ([[0], [0, 1]], [(2.0, 2.1), (2.0, 2.2)])


@pytest.mark.parametrize("options", ["open-gop=1:bframes=4", "open-gop=0:bframes=4"])
def test_hevc_in_avi_gives_the_frames_of_each_time(options: str) -> None:
    data = hevc_in_avi(video_options={"x265-params": f"log-level=none:{options}"})
    assert clips(data, (0, math.inf)) == ([list(range(50))], [(0.0, 5.0)])
    for number in range(50):
        assert clips(data, (number / 10, number / 10)) == ([[number]], [(number / 10, (number + 1) / 10)])


@pytest.mark.parametrize("b_frames", [0, 2])
def test_h264_in_avi_that_is_cut_inside_a_group_begins_at_its_first_keyframe(b_frames: int) -> None:
    file = io.BytesIO()
    whole = av.open(io.BytesIO(encode(container="avi", gop=20, b_frames=b_frames)), "r")
    with whole, av.open(file, "w", format="avi") as output:
        stream = output.add_stream_from_template(whole.streams.video[0])
        for packet in whole.demux(video=0):
            if packet.dts is not None and packet.dts >= 5:
                packet.pts = packet.dts = packet.dts - 5
                packet.stream = stream
                output.mux(packet)
    data = file.getvalue()
    assert clips(data, (0, math.inf))[0] == [list(range(20, 50))]
    assert clips(data, (1.6, 2.1)) == ([[21, 22, 23, 24, 25, 26]], [(1.6, 2.2)])
    assert clips(data, (0, 1.6), (4.4, 5)) == ([[20, 21], [49]], [(1.5, 1.7), (4.4, 4.5)])


@pytest.mark.parametrize("b_frames", [2, 3])
def test_each_frame_of_h264_in_avi_is_that_of_mp4(b_frames: int) -> None:
    """At 10 s between keyframes, with sound."""
    file = encode(b_frames=b_frames, gop=100, frames=230, audio="mp3", audio_seconds=22, rate=16000)
    avi, mp4 = AVDecoder(in_avi(file, "h264")), AVDecoder(file)
    assert torch.equal(avi.get_video().video_clips[0], mp4.get_video().video_clips[0])
    for name in ("video_num_frames", "video_fps", "video_duration"):
        assert getattr(avi.get_metadata(), name) == getattr(mp4.get_metadata(), name)
    numbers = [0, 1, 50, 99, 100, 101, 102, 150, 199, 200, 203, 229]
    for unit, ranges in (("frames", [(n, n) for n in numbers]), ("seconds", [(n / 10, n / 10) for n in numbers])):
        for wanted in (ranges, ranges[::-1], [ranges[8]], [ranges[5]]):
            found, expected = (decoder.get_video_clips(wanted, unit)[0] for decoder in (avi, mp4))  # type: ignore[arg-type]
            assert torch.equal(torch.cat(found), torch.cat(expected))


def test_frames_are_resized_to_width_and_height() -> None:
    frames, _ = AVDecoder(video()).get_video_clips([(7, 8)], "frames", (32, 24))
    assert frames[0].shape == (2, 3, 24, 32)
    assert numbers_in(frames[0]) == [7, 8]


def test_a_video_is_turned_as_a_player_would() -> None:
    upright = AVDecoder(encode(frames=3)).get_video().video_clips[0]
    for degrees in (90, 180, 270):
        turned = AVDecoder(rotated(encode(frames=3), degrees))
        frames = turned.get_video().video_clips[0]
        assert torch.equal(frames, torch.rot90(upright, -degrees // 90, dims=(2, 3))), degrees
        metadata = turned.get_metadata()
        assert (metadata.video_height, metadata.video_width) == frames.shape[2:]
    turned = AVDecoder(rotated(encode(frames=3), 270))
    assert turned.get_video_clips([(0, 0)], "frames", (24, 32))[0][0].shape == (1, 3, 32, 24)


def test_only_what_lies_between_a_keyframe_and_the_clip_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.av import video_reader

    decoded = []
    decode_next = video_reader.VideoReader._decode_next

    def counted(self: Any, expected: int) -> None:
        decode_next(self, expected)
        decoded.append(self._next_frame)

    monkeypatch.setattr(video_reader.VideoReader, "_decode_next", counted)
    for name in ("h264 with B-frames", "h264 in Matroska", "mpeg4 in AVI", "h264 in AVI", "vp9"):
        decoded.clear()
        data = video(name) if name != "vp9" else encode(video="libvpx-vp9", container="webm", gop=10)
        assert clips(data, (45, 46), video_unit="frames")[0] == [[45, 46]]
        assert len(decoded) < 12, name
    decoded.clear()
    assert clips(video(), (1, 2), (41, 42), (22, 23), video_unit="frames")[0] == [[1, 2], [41, 42], [22, 23]]
    assert len(decoded) < 20


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([(5, 3)], r"video_clip_ranges\[0\] ends at 3, before it starts at 5"),
        ([(0, 1), (math.nan, 1)], r"video_clip_ranges\[1\] is \(nan, 1\)"),
        ([(math.inf, math.inf)], "only the end is inf"),
    ],
    ids=["backwards", "nan", "infinite start"],
)
def test_ranges_that_mean_nothing_are_refused(ranges: list[tuple[float, float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AVDecoder(video()).get_video_clips(ranges)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="video_unit is 'minutes'; expected 'frames' or 'seconds'"):
        AVDecoder(video()).get_video_clips([(0, 1)], "minutes")  # type: ignore[arg-type]


def test_one_thread_decodes_unless_more_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from loader.av import video_reader

    seen = []
    attach = video_reader.VideoReader._attach

    def spied(self: Any, container: Any) -> None:
        attach(self, container)
        seen.append(self.stream.codec_context.thread_count)

    monkeypatch.setattr(video_reader.VideoReader, "_attach", spied)
    AVDecoder(video()).get_video()
    AVDecoder(video(), threads=2).get_video()
    assert seen == [1, 2]


def test_the_pixels_are_those_of_pyav() -> None:
    with av.open(io.BytesIO(video()), "r") as container:
        expected = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    found = AVDecoder(video()).get_video().video_clips[0]
    assert torch.equal(found, torch.stack([torch.from_numpy(frame) for frame in expected]).permute(0, 3, 1, 2))
    assert number_in(found[7]) == 7


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
@pytest.mark.parametrize("gop", [10, 1000])
def test_frames_that_stay_long_are_found_although_frames_before_a_clip_are_skipped(codec: str, gop: int) -> None:
    data = encode(video=codec, container="matroska", pts=PAUSES, gop=gop)
    for number, start in enumerate(PAUSES[:-1]):
        for time in (start, PAUSES[number + 1] - 1):
            assert clips(data, (time / 10 + 0.01, time / 10 + 0.01))[0] == [[number]], time
    times = [(start / 10 + 0.01, start / 10 + 0.01) for start in PAUSES]
    assert clips(data, *times)[0] == [[number] for number in range(50)]


@pytest.mark.parametrize("name", ["h264 with one keyframe", "mpeg4 with one keyframe in AVI"])
def test_frames_that_no_other_needs_are_not_decoded_on_the_way_to_a_clip(name: str) -> None:
    file = io.BytesIO(video(name))
    with open_av(file) as container:
        reader = VideoReader(container, file)
        wanted = round(Fraction(40, 10) / reader.clock)
        reader.advance_to(wanted)
        read = [frame for frame in iter(reader.read, None) if frame.end <= wanted]
    assert len(read) < 35
    assert max(frame.end for frame in read) == wanted
