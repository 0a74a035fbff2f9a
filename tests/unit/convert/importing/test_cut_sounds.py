"""Segments of recordings are cut exactly, or refused with the reason."""

from __future__ import annotations

import io
import json
import struct
import wave
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from loader.convert.importing import ImportPlan, run_import
from loader.convert.importing.cut_sounds import ShortenedSound, cut_sound
from loader.convert.sources import SourceOptions, open_source
from loader.errors import ConfigError, SampleError
from tests.unit.convert.importing.test_run import samples_of

RATE = 100


def wav(seconds: float = 10) -> bytes:
    data = io.BytesIO()
    with cast("Any", wave).open(data, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(struct.pack(f"<{int(seconds * RATE)}h", *range(int(seconds * RATE))))
    return data.getvalue()


def values_of(sound: bytes) -> list[int]:
    with wave.open(io.BytesIO(sound)) as file:
        return [*struct.unpack(f"<{file.getnframes()}h", file.readframes(1 << 20))]


@pytest.mark.parametrize(
    ("begin_s", "end_s", "expected"),
    [(0, 0.02, [0, 1]), (0.29, 0.31, [29, 30]), (9.98, None, [998, 999]), (0.004, 0.016, [0, 1])],
)
def test_a_segment_has_the_frames_nearest_to_its_times(begin_s: float, end_s: float, expected: list[int]) -> None:
    assert values_of(cut_sound(io.BytesIO(wav()), begin_s, end_s)) == expected


def test_segments_that_follow_each_other_have_each_frame_once() -> None:
    times = [0, 1.234, 1.235, 5.5051, 10]
    cut = [values_of(cut_sound(io.BytesIO(wav()), *span)) for span in pairwise(times)]
    assert [*chain(*cut)] == [*range(1000)]


class CountedReads(io.BytesIO):
    read_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.read_bytes += len(data)
        return data


def test_of_a_long_wav_only_the_segment_is_read() -> None:
    file = CountedReads(wav(300))
    assert values_of(cut_sound(cast("BinaryIO", file), 5, 5.1)) == [*range(500, 510)]
    assert file.read_bytes < 5000


def test_an_end_a_little_after_the_recording_is_cut_there_and_counted() -> None:
    cut = cut_sound(io.BytesIO(wav()), 9.9, 10.4)
    assert isinstance(cut, ShortenedSound)
    assert len(values_of(cut)) == 10


def changed(offset: int, data: bytes) -> Callable[[bytes], bytes]:
    return lambda sound: sound[:offset] + data + sound[offset + len(data) :]


@pytest.mark.parametrize(
    ("make", "begin_s", "end_s", "fault"),
    [
        (bytes, 9, 10.6, "expected a segment in 10 s of sound, found one from 9 s to 10.6 s"),
        (bytes, 12, None, "found one from 12 s to the end"),
        (bytes, 5, 4, "found one from 5 s to 4 s"),
        (changed(20, b"\x11\0"), 1, 2, "found the format 0x0011"),
        (changed(24, bytes(4)), 1, 2, "expected a WAV of integers"),
        (lambda sound: sound[:36], 1, 2, "it has no samples"),
        (lambda sound: sound[:12] + sound[36:], 1, 2, "no format before its samples"),
        (lambda _: b"ID3\x04" + bytes(64), 1, 2, "cut from WAV and FLAC; this is MP3"),
    ],
)
def test_what_cannot_be_cut_is_refused(
    make: Callable[[bytes], bytes], begin_s: float, end_s: float, fault: str
) -> None:
    with pytest.raises(SampleError, match=fault):
        cut_sound(io.BytesIO(make(wav())), begin_s, end_s)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF])
def test_a_wav_that_a_program_wrote_to_a_pipe_ends_with_its_file(size: int) -> None:
    assert values_of(cut_sound(io.BytesIO(changed(40, struct.pack("<I", size))(wav())), 9.99, None)) == [999]


def test_a_damaged_flac_is_refused() -> None:
    pytest.importorskip("soundfile")
    with pytest.raises(SampleError, match="this FLAC cannot be read"):
        cut_sound(io.BytesIO(b"fLaC" + bytes(100)), 0, 1)


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_all_values_of_segments_equal_what_soundfile_reads(form: Any, tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    from bench_segments import count_equal, make_recordings

    from tests.layouts.layout import packed

    folder = tmp_path / "data"
    folder.mkdir()
    make_recordings(folder, 64, seed=1)
    source = open_source(str(packed(folder, form)), kind=None, options=SourceOptions(segments="cut"))
    run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out")))
    assert count_equal(folder, tmp_path / "out") == 64


def table(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "a.wav").write_bytes(wav())
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps({'audio': 'a.wav', **row})}\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"start": 0.01, "end": 0.03}, [1, 2]),
        ({"start": 0.01, "end": 0.03, "duration": 9}, [1, 2]),
        ({"offset": 0.01, "duration": 0.02}, [1, 2]),
        ({"offset": None, "duration": 0.02}, [0, 1]),
        ({"offset": 9.99, "duration": None}, [999]),
        ({"onset": 0.01, "offset": 0.03}, [1, 2]),
        ({"start": 9.99}, [999]),
    ],
)
def test_columns_name_begins_and_ends_or_durations(row: dict[str, Any], expected: list[int], tmp_path: Path) -> None:
    others = [{name: 1.0 + at for at, name in enumerate(row)}]  # which is no segment of length 0
    path = table(tmp_path / "in", {"id": "x", **row}, *({"id": "y", **other} for other in others))
    source = open_source(str(path), kind=None, options=SourceOptions(segments="cut"))
    run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out"), max_failures=1))
    assert values_of(samples_of(tmp_path / "out")["x"]["wav"]) == expected


def test_a_lone_table_with_segments_is_refused_without_the_option(tmp_path: Path) -> None:
    path = table(tmp_path / "in", {"start": 0, "end": 1}, {"start": 1, "end": 2})
    with pytest.raises(ConfigError, match="rows name segments of recordings by start"):
        run_import(
            ImportPlan(
                sources=(open_source(str(path), kind=None, options=SourceOptions()),), output=str(tmp_path / "out")
            )
        )
    source = open_source(str(path), kind=None, options=SourceOptions(segments="whole"))
    run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out")))
    assert {parts["wav"] for parts in samples_of(tmp_path / "out").values()} == {wav()}


@pytest.mark.parametrize("segments", ["cut", "whole"])
def test_data_without_begins_is_refused_with_the_option(segments: Any, tmp_path: Path) -> None:
    path = table(tmp_path / "in", {"text": "a"}, {"text": "b"})
    source = open_source(str(path), kind=None, options=SourceOptions(segments=segments))
    with pytest.raises(ConfigError, match="no column of numbers that says where segments begin"):
        run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out")))
    path.unlink()
    source = open_source(str(tmp_path / "in"), kind=None, options=SourceOptions(segments=segments))
    fault = f"--segments {segments}: the samples are not rows of a table; .* a column such as offset, start or onset"
    with pytest.raises(ConfigError, match=fault):
        run_import(ImportPlan(sources=(source,), output=str(tmp_path / "out")))
