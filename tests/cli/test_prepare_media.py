"""``prepare-media`` on folders of files, and the same flags of ``prepare`` for parts of shards."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import wave
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.make_dataset import caption_parts, picture, write_captions, write_shard
from tests.cli.run_energon import Done, RunEnergon

HEADER = "--media-metadata-by-header"
EXTENSION = "--media-metadata-by-extension"
GLOB = "--media-metadata-by-glob"


def rows(folder: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(folder / ".nv-meta/index.sqlite")) as database:
        return {
            key: json.loads(text)
            for key, text in database.execute("SELECT entry_key, metadata_json FROM media_metadata")
        }


def filters(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / ".nv-meta/index.sqlite")) as database:
        return database.execute("SELECT strategy, patterns FROM media_filters").fetchall()


def write_sound(path: Path, *, seconds: float = 0.5) -> None:
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(int(2 * 8000 * seconds)))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Three images (one without an extension), a sound, a text, a broken image and hidden files."""
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "a.jpg").write_bytes(picture(1))
    (folder / 'sub/it\'s "b".PNG').write_bytes(picture(2, size=(5, 7), form="PNG"))
    (folder / "c").write_bytes(picture(3, size=(6, 8), form="GIF"))
    write_sound(folder / "d.wav")
    (folder / "e.txt").write_text("a text")
    (folder / "f.jpg").write_bytes(picture(4)[:100])
    (folder / "._a.jpg").write_bytes(b"a resource fork")
    (folder / ".hidden/g.jpg").write_bytes(picture(5))
    return folder


def prepare_media(energon: RunEnergon, folder: Path, *flags: object) -> Done:
    return energon("prepare-media", folder, "--num-workers", 1, *flags)


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ([HEADER], {"a.jpg", 'sub/it\'s "b".PNG', "c", "d.wav"}),
        ([EXTENSION], {"a.jpg", 'sub/it\'s "b".PNG', "d.wav"}),
        ([GLOB, "*.png, c"], {'sub/it\'s "b".PNG', "c"}),
        ([GLOB, "sub/*"], {'sub/it\'s "b".PNG'}),
    ],
    ids=["header", "extension", "glob", "folder"],
)
def test_the_flag_selects_the_files_to_read(
    energon: RunEnergon, files: Path, flags: list[str], found: set[str]
) -> None:
    done = prepare_media(energon, files, *flags)
    assert done.code == 0, done.err
    assert set(rows(files)) == found
    assert rows(files)['sub/it\'s "b".PNG'] == {"width": 5, "height": 7, "format": "PNG", "mode": "RGB"}
    assert filters(files) == [(flags[0].rpartition("-")[2].upper(), ",".join(flags[1:]).replace(" ", ""))]


def test_a_broken_file_is_skipped_with_a_warning_that_names_it(energon: RunEnergon, files: Path) -> None:
    done = prepare_media(energon, files, HEADER)
    assert "4 files" in done.out
    assert "warning: no metadata of 1 media file that cannot be read: f.jpg" in done.err


def test_the_report_as_json_has_its_keys_and_nothing_else_on_stdout(energon: RunEnergon, files: Path) -> None:
    report = prepare_media(energon, files, HEADER, "--json").json
    assert set(report) == {
        "path", "strategy", "patterns", "exact", "entries", "collected", "broken", "seconds", "warnings",
    }  # fmt: skip
    assert (report["strategy"], report["entries"], report["broken"]) == ("HEADER", 4, 1)


def test_a_second_run_drops_deleted_files(energon: RunEnergon, files: Path) -> None:
    assert prepare_media(energon, files, HEADER).code == 0
    (files / "a.jpg").unlink()
    assert prepare_media(energon, files, HEADER).code == 0
    assert set(rows(files)) == {'sub/it\'s "b".PNG', "c", "d.wav"}


def test_names_that_are_not_utf8_are_skipped_with_a_warning(energon: RunEnergon, files: Path) -> None:
    (files / os.fsdecode(b"\xff.jpg")).write_bytes(picture(1))
    done = prepare_media(energon, files, EXTENSION)
    assert done.code == 0
    assert "no metadata of 1 file with names that are not UTF-8" in done.err
    assert "\\xff" in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_skipped_with_a_warning(energon: RunEnergon, files: Path) -> None:
    (files / "a.jpg").chmod(0)
    done = prepare_media(energon, files, EXTENSION)
    assert done.code == 0
    assert "a.jpg: cannot open this file" in done.out


def test_a_file_that_vanishes_after_the_listing_is_skipped_with_a_warning(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from loader.format.media.metadata import MediaFilter
    from loader.prepare import media_folder
    from loader.storage import open_storage

    plan = media_folder._files_to_read

    def plan_and_remove(*arguments: Any) -> Any:
        names = plan(*arguments)
        (files / "a.jpg").unlink()
        return names

    monkeypatch.setattr(media_folder, "_files_to_read", plan_and_remove)
    report = media_folder.prepare_media_folder(open_storage(files), MediaFilter(strategy="EXTENSION"))
    assert report.broken == 2
    assert "a.jpg: cannot open this file" in report.warnings[0]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "Choose the files to read"),
        ([HEADER, EXTENSION], "mutually exclusive"),
        ([GLOB, ","], "expected patterns"),
    ],
    ids=["none", "two", "empty"],
)
def test_wrong_usage_exits_2_and_writes_nothing(
    energon: RunEnergon, files: Path, flags: list[str], message: str
) -> None:
    done = prepare_media(energon, files, *flags)
    assert done.code == 2
    assert message in done.err
    assert not (files / ".nv-meta").exists()


@pytest.mark.parametrize(
    ("folder", "message"), [("nowhere", "does not exist"), ("empty", "found no media in this folder")]
)
def test_a_folder_without_media_exits_1_and_writes_nothing(
    energon: RunEnergon, tmp_path: Path, folder: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    done = prepare_media(energon, tmp_path / folder, HEADER)
    assert done.code == 1
    assert message in done.err
    assert not (tmp_path / folder / ".nv-meta/index.sqlite").exists()


def test_a_dataset_gets_a_hint_to_prepare(energon: RunEnergon, prepared: Path) -> None:
    done = prepare_media(energon, prepared, HEADER)
    assert done.code == 1
    assert "with the same flags: energon prepare " in done.err


def test_a_run_that_is_killed_or_stopped_leaves_the_old_file(energon: RunEnergon, files: Path) -> None:
    assert prepare_media(energon, files, HEADER).code == 0
    before = (files / ".nv-meta/index.sqlite").read_bytes()
    for number in range(6000):
        (files / f"more{number:05}.jpg").hardlink_to(files / "a.jpg")
    for kind, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        (files / ".nv-meta/index.sqlite.partial").unlink(missing_ok=True)
        command = [sys.executable, "-m", "energon_cli", "prepare-media", HEADER, "--num-workers", "1", str(files)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while not (files / ".nv-meta/index.sqlite.partial").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(kind)
        assert process.wait(timeout=20) == code
        assert (files / ".nv-meta/index.sqlite").read_bytes() == before
    assert not (files / ".nv-meta/index.sqlite.partial").exists()
    (files / "a.jpg").unlink()
    assert prepare_media(energon, files, GLOB, "c,d.wav").code == 0
    assert set(rows(files)) == {"c", "d.wav"}


# ------------------------------------------------------------------------------------------------------- prepare


def prepare(energon: RunEnergon, folder: Path, *flags: object) -> dict[str, Any]:
    done = energon("prepare", folder, "--num-workers", 1, "--yes", "--json", *flags)
    assert done.code == 0, done.err
    media: dict[str, Any] = done.json["media_metadata"]
    return media


def test_parts_of_shards_are_found_under_key_and_part_name(energon: RunEnergon, captions: Path) -> None:
    media = prepare(energon, captions, EXTENSION)
    assert (media["entries"], media["collected"], media["broken"]) == (12, 12, 0)
    assert rows(captions) == {
        f"{number:06d}.jpg": {"width": 24, "height": 16, "format": "JPEG", "mode": "RGB"} for number in range(12)
    }


def test_a_second_prepare_with_the_same_flag_has_nothing_to_do(energon: RunEnergon, captions: Path) -> None:
    prepare(energon, captions, HEADER)
    done = energon("prepare", captions, "--yes", "--num-workers", 1, HEADER, "--json")
    assert not done.json["changed"]
    assert len(rows(captions)) == 12


def test_another_flag_collects_again(energon: RunEnergon, captions: Path) -> None:
    prepare(energon, captions, HEADER)
    assert prepare(energon, captions, GLOB, "00000?.jpg")["collected"] == 10
    assert filters(captions) == [("GLOB", "00000?.jpg")]
    assert len(rows(captions)) == 10


def test_metadata_is_added_to_a_prepared_dataset(energon: RunEnergon, prepared: Path) -> None:
    assert prepare(energon, prepared, HEADER)["collected"] == 12


def change_one_shard(captions: Path) -> set[str]:
    write_shard(captions / "shard_001.tar", {"new": caption_parts(77), "000004": caption_parts(4)})
    return {f"{number:06d}.jpg" for number in range(12)} - {"000003.jpg", "000005.jpg"} | {"new.jpg"}


def remove_first_shard(captions: Path) -> set[str]:
    (captions / "shard_000.tar").unlink()
    return {f"{number:06d}.jpg" for number in range(3, 12)}


@pytest.mark.parametrize(("change", "collected"), [(change_one_shard, 2), (remove_first_shard, 0)])
def test_a_later_prepare_updates_the_metadata_of_changed_shards(
    energon: RunEnergon, captions: Path, change: Callable[[Path], set[str]], collected: int
) -> None:
    prepare(energon, captions, HEADER)
    expected = change(captions)
    media = prepare(energon, captions)
    assert (media["collected"], media["entries"]) == (collected, len(expected))
    assert set(rows(captions)) == expected
    assert filters(captions) == [("HEADER", "")]


def test_force_overwrite_reads_all_again(energon: RunEnergon, captions: Path) -> None:
    prepare(energon, captions, HEADER)
    assert prepare(energon, captions, "--force-overwrite")["collected"] == 12


def test_worker_processes_find_the_same(energon: RunEnergon, tmp_path: Path) -> None:
    folder = write_captions(tmp_path / "many", shards=2, samples=60)
    done = energon("prepare", folder, "--num-workers", 2, "--yes", HEADER)
    assert done.code == 0
    assert "media metadata of 120 parts" in done.out
    assert len(rows(folder)) == 120


def test_broken_parts_are_counted_and_the_first_named(energon: RunEnergon, tmp_path: Path) -> None:
    def parts(number: int) -> dict[str, bytes]:
        return caption_parts(number) | ({"jpg": b"no image"} if number % 2 else {})

    folder = write_captions(tmp_path / "broken", shards=1, samples=10, parts=parts)
    done = energon(
        "prepare", folder, "--non-interactive", "--split-ratio", "1", "--num-workers", 1, EXTENSION, "--json"
    )
    assert done.code == 0, done.err
    assert done.json["media_metadata"]["broken"] == 5
    assert any("000001.jpg" in text and "…" in text for text in done.json["warnings"])


def test_the_flag_fails_if_index_sqlite_cannot_be_written(energon: RunEnergon, tmp_path: Path) -> None:
    for shard in ("a", "b"):
        write_shard(tmp_path / f"{shard}.tar", {"same": caption_parts(1)})
    done = energon("prepare", tmp_path, "--yes", "--num-workers", 1, HEADER)
    assert done.code == 1
    assert "drop --media-metadata-by-header" in done.err
    assert not (tmp_path / ".nv-meta/.info.json").exists()


def test_jsonl_files_have_no_media(energon: RunEnergon, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("{}\n")
    assert energon("prepare", tmp_path / "x.jsonl", HEADER).code == 2


# ---------------------------------------------------------------------------------------------------------- info


def test_info_summarises_a_folder_of_files(energon: RunEnergon, files: Path) -> None:
    assert prepare_media(energon, files, HEADER).code == 0
    media = energon("info", files, "--json").json["media_metadata"]
    assert media["entries"] == 4
    assert media["images"] == {
        "count": 3,
        "formats": {"JPEG": 1, "GIF": 1, "PNG": 1},
        "width": {"min": 5, "median": 6, "max": 24},
        "height": {"min": 7, "median": 8, "max": 16},
    }
    assert media["sounds"] == {"count": 1, "sample_rates": {"8000": 1}, "seconds": 0.5, "basis": {"stated": 1}}
    text = energon("info", files).out
    assert "5–24 (median 6) × 7–16 (median 8)" in text
    assert "1 track (8000 Hz), 0.5 s" in text


def test_info_summarises_the_media_of_a_dataset(energon: RunEnergon, captions: Path) -> None:
    prepare(energon, captions, HEADER)
    assert "12 images (JPEG 12), all 24×16" in energon("info", captions).out
    assert energon("info", captions, "--json").json["media_metadata"]["images"]["count"] == 12


def test_info_of_very_many_files_reports_that_it_read_the_first(
    energon: RunEnergon, captions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from loader.inspect import facts_of_media

    prepare(energon, captions, HEADER)
    monkeypatch.setattr(facts_of_media, "_MAX_ENTRIES", 5)
    assert not energon("info", captions, "--json").json["media_metadata"]["complete"]
    assert "of the first 5 media files: 5 images" in energon("info", captions).out


def test_info_of_a_folder_with_a_foreign_index_fails(energon: RunEnergon, tmp_path: Path) -> None:
    (tmp_path / ".nv-meta").mkdir()
    sqlite3.connect(tmp_path / ".nv-meta/index.sqlite").close()
    done = energon("info", tmp_path)
    assert done.code == 1
    assert "not a prepared dataset, and has no media metadata" in done.err
