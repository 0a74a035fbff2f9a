"""The frames of a video, listed from its packets."""

from __future__ import annotations

import io

import av
import pytest
from megatron.energon.av.av_reader import AVProbeIndex

from tests.unit.av.encoded_media import encode


@pytest.mark.parametrize("container", ["avi", "matroska"])
def test_frames_are_found_by_their_time(container: str) -> None:
    codec = "mpeg4" if container == "avi" else "libx264"
    file = encode(container=container, video=codec, frames=35, gop=10, b_frames=0 if container == "avi" else 2)
    with av.open(io.BytesIO(file)) as opened:
        assert isinstance(opened, av.container.InputContainer)
        index = AVProbeIndex(opened)
        entries = [index[number] for number in range(len(index))]
        first = next(opened.decode(video=0))
    times = sorted(entry.timestamp for entry in entries)
    keys = sorted(entry.timestamp for entry in entries if entry.is_keyframe)
    assert (len(times), first.pts) == (35, times[0])
    assert 4 <= len(keys) < 35
    for time in (times[0], times[7], times[8] + 1, keys[2], keys[2] - 1):
        found = {
            (backward, any_frame): index.search_timestamp(time, backward=backward, any_frame=any_frame)
            for backward in (True, False)
            for any_frame in (True, False)
        }
        for (backward, any_frame), number in found.items():
            among = times if any_frame else keys
            near = [other for other in among if (other <= time if backward else other >= time)]
            assert entries[number].timestamp == (max(near) if backward else min(near))
    assert entries[index.search_timestamp(times[0] - 5)].timestamp == keys[0]
    assert index.search_timestamp(times[-1] + 1, backward=False, any_frame=True) == -1


def test_a_file_without_video_has_no_index() -> None:
    file = encode(video=None, container="wav", audio="pcm_s16le", sample_format="s16", audio_seconds=1)
    with av.open(io.BytesIO(file)) as opened, pytest.raises(IndexError):
        AVProbeIndex(opened)
