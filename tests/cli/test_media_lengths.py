"""Commands agree on the lengths of sound and video, say what they were taken from, and lint decodes to the ends."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loader.format.media.metadata import AVMetadata, MediaMetadataReader
from loader.format.media.tables import read_media_filter
from loader.storage import open_storage
from tests.cli.make_dataset import write_shard
from tests.cli.run_energon import RunEnergon
from tests.unit.av.encoded_media import encode
from tests.unit.av.odd_media import faststart, hidden_vp8, wav, wav_of_size

EXTENSION = "--media-metadata-by-extension"
PREPARE = ("--yes", "--num-workers", 1)


def dataset(folder: Path, samples: dict[str, dict[str, bytes]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_shard(folder / "shard.tar", samples)
    return folder


@pytest.fixture
def lengths(tmp_path: Path, energon: RunEnergon) -> Path:
    samples = {
        "a": {"webm": hidden_vp8(), "wav": wav_of_size(0)},
        "b": {"webm": hidden_vp8(), "wav": wav()},
        "c": {"mp4": encode(frames=20)},
    }
    folder = dataset(tmp_path / "lengths", samples)
    assert energon("prepare", folder, EXTENSION, *PREPARE).code == 0
    return folder


def test_all_commands_give_the_same_lengths_and_what_they_were_taken_from(lengths: Path, energon: RunEnergon) -> None:
    with closing(MediaMetadataReader(open_storage(lengths))) as reader:
        stored = dict(reader)
    video, sound, plain, short = stored["a.webm"], stored["a.wav"], stored["b.wav"], stored["c.mp4"]
    for found in (video, sound, plain, short):
        assert isinstance(found, AVMetadata)
    assert isinstance(video, AVMetadata)
    assert (video.video_num_frames, video.video_duration, video.video_basis) == (55, 5.9, "counted")
    assert isinstance(sound, AVMetadata)
    assert (sound.audio_num_samples, sound.audio_duration, sound.audio_basis) == (8000, 1.0, "counted")

    lines = energon("preview", lengths, "--crude", "--json", "-n", 3).out.splitlines()
    fields = {(sample["key"], each["name"]): each for sample in map(json.loads, lines) for each in sample["fields"]}
    media = fields["a", "webm"]["media"]
    assert (media["video_num_frames"], media["video_duration"], media["video_basis"]) == (55, 5.9, "counted")
    assert "55 frames (counted), 9.322 frames/s, 5.90 s" in fields["a", "webm"]["facts"]
    assert "1.00 s (counted)" in fields["a", "wav"]["facts"]
    assert fields["a", "wav"]["media"]["audio_num_samples"] == 8000
    assert fields["b", "wav"]["media"]["audio_basis"] == "stated"
    assert "(" not in fields["b", "wav"]["facts"]

    stats = energon("stats", lengths, "--json").json
    assert stats["numbers"]["webm.num_frames"]["max"] == 55
    assert stats["numbers"]["wav.duration"]["min"] == stats["numbers"]["wav.duration"]["max"] == 1.0
    texts = {
        name: {each["value"]: each["count"] for each in stats["texts"][name]["top"]}
        for name in ("webm.basis", "wav.audio_basis", "mp4.basis")
    }
    assert texts == {
        "webm.basis": {"counted": 2},
        "wav.audio_basis": {"counted": 1, "stated": 1},
        "mp4.basis": {"stated": 1},
    }

    info = energon("info", lengths, "--json").json["media_metadata"]
    assert (info["videos"]["basis"], info["sounds"]["basis"]) == (
        {"counted": 2, "stated": 1},
        {"counted": 1, "stated": 1},
    )
    assert "13.8 s (2 counted)" in energon("info", lengths).out


def test_the_json_of_the_table_has_no_names_that_other_readers_refuse(lengths: Path) -> None:
    with closing(sqlite3.connect(lengths / ".nv-meta/index.sqlite")) as database:
        texts = database.execute("SELECT metadata_json FROM media_metadata").fetchall()
    assert texts
    for (text,) in texts:
        assert all("basis" not in name for name in json.loads(text))


def test_exact_metadata_is_decoded_and_kept_by_later_runs(lengths: Path, energon: RunEnergon) -> None:
    assert energon("prepare", lengths, EXTENSION, "--media-metadata-exact", *PREPARE).code == 0
    storage = open_storage(lengths)
    recorded = read_media_filter(storage)
    assert recorded is not None
    assert recorded.exact
    with closing(MediaMetadataReader(storage)) as reader:
        assert {found.video_basis for _, found in reader if isinstance(found, AVMetadata)} == {"decoded", None}
    write_shard(lengths / "more.tar", {"d": {"mp4": encode(frames=5)}})
    done = energon("prepare", lengths, *PREPARE, "--json")
    assert done.code == 0, done.err
    assert done.json["media_metadata"] == {
        "strategy": "EXTENSION", "patterns": [], "exact": True, "entries": 6, "collected": 1, "broken": 0,
    }  # fmt: skip
    with closing(MediaMetadataReader(open_storage(lengths))) as reader:
        found = reader.get("d.mp4")
        assert isinstance(found, AVMetadata)
        assert found.video_basis == "decoded"
    assert energon("lint", lengths).code == 0


def test_exact_needs_a_flag_that_selects_files(lengths: Path, energon: RunEnergon) -> None:
    done = energon("prepare", lengths, "--media-metadata-exact", *PREPARE)
    assert done.code == 2
    assert "--media-metadata-exact needs one of --media-metadata-by-glob" in done.err


def test_metadata_of_other_tools_has_no_basis_and_is_updated(lengths: Path, energon: RunEnergon) -> None:
    with closing(sqlite3.connect(lengths / ".nv-meta/index.sqlite")) as database:
        database.execute("DROP TABLE media_basis")
        database.commit()
    with closing(MediaMetadataReader(open_storage(lengths))) as reader:
        found = reader.get("a.webm")
    assert isinstance(found, AVMetadata)
    assert (found.video_num_frames, found.video_basis) == (55, None)
    assert energon("info", lengths, "--json").json["media_metadata"]["videos"]["basis"] == {"unknown": 3}
    write_shard(lengths / "more.tar", {"d": {"mp4": encode(frames=5)}})
    assert energon("prepare", lengths, *PREPARE).code == 0
    assert energon("info", lengths, "--json").json["media_metadata"]["videos"]["basis"] == {"unknown": 3, "stated": 1}


def test_a_folder_of_files_is_counted_and_compared_as_it_was_collected(tmp_path: Path, energon: RunEnergon) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.webm").write_bytes(hidden_vp8())
    (folder / "b.wav").write_bytes(wav_of_size(0xFFFFFFFF))
    for flags in ((), ("--media-metadata-exact",)):
        assert energon("prepare-media", EXTENSION, *flags, "--num-workers", 1, folder).code == 0
        done = energon("lint", folder)
        assert (done.code, done.err) == (0, "")
        assert "no findings: 2 files, level decode, 2 of sound or video decoded to the end" in done.out
    assert "(1 decoded)" in energon("info", folder).out


def halves(tmp_path: Path) -> dict[str, bytes]:
    sounds = {
        "wav": wav(),
        "flac": encode(video=None, container="flac", audio="flac", sample_format="s16", audio_seconds=10),
        "ogg": encode(video=None, container="ogg", audio="libopus", rate=48000, sample_format="flt", audio_seconds=10),
        "mp3": encode(video=None, container="mp3", audio="libmp3lame", rate=16000, audio_seconds=10),
        "mp4": faststart(encode(), tmp_path / "whole.mp4"),
    }
    return {name: data[: len(data) * 2 // 3] for name, data in sounds.items()}


@pytest.mark.parametrize("is_prepared", [True, False], ids=["prepared", "tars"])
def test_lint_finds_halves_of_files_and_says_what_it_decoded(
    tmp_path: Path, energon: RunEnergon, *, is_prepared: bool
) -> None:
    samples = {f"half_{name}": {name: data} for name, data in halves(tmp_path).items()}
    folder = dataset(tmp_path / "halves", {**samples, "whole": {"wav": wav(), "mp4": encode()}})
    if is_prepared:
        assert energon("prepare", folder, *PREPARE).code == 0
    target = folder if is_prepared else folder / "shard.tar"
    done = energon("lint", target, "--json")
    assert done.code == 1
    found: list[dict[str, Any]] = done.json["findings"]
    assert {finding["key"] for finding in found if finding["code"] == "E302"} == set(samples)
    assert done.json["decoded_media"] == 7
    text = energon("lint", target).out
    assert "level decode, 7 of sound or video decoded to the end" in text
    assert "part 'wav' is damaged audio or video: it is cut short: it ends at byte" in text


@pytest.mark.parametrize("level", ["headers", "bytes"])
def test_lint_names_the_media_that_it_does_not_decode(lengths: Path, energon: RunEnergon, level: str) -> None:
    done = energon("lint", lengths, "--level", level)
    assert done.code == 0
    assert f"note: sound and video were not decoded (mp4, wav, webm): level {level}" in done.err
    document = energon("lint", lengths, "--level", level, "--json").json
    assert (document["decoded_media"], "not decoded" in document["media_note"]) == (0, True)


def test_lint_without_pyav_says_that_media_were_only_read(
    lengths: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    done = energon("lint", lengths, "--parallel", 1)
    assert done.code == 0, done.out
    assert "note: sound and video were not decoded (mp4, wav, webm): PyAV is missing, pip install" in done.err
