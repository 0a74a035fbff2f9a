from __future__ import annotations

import gc
import json
import os
import pickle
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loader.errors import ConfigError, FormatError, SampleError
from loader.format.media.metadata import (
    AVMetadata,
    ImageMetadata,
    MediaMetadataReader,
    deserialize_media_metadata,
    serialize_media_metadata,
)
from loader.storage import open_storage

IMAGE = ImageMetadata(width=20, height=10, format="JPEG", mode="RGB")
SOUND = AVMetadata(audio_duration=0.5, audio_channels=1, audio_sample_rate=16000, audio_num_samples=8000)
# As megatron-energon writes them, byte for byte.
IMAGE_JSON = '{"width":20,"height":10,"format":"JPEG","mode":"RGB"}'
SOUND_JSON = '{"audio_duration":0.5,"audio_channels":1,"audio_sample_rate":16000,"audio_num_samples":8000}'


@pytest.mark.parametrize(
    ("metadata", "kind", "text"), [(IMAGE, "image", IMAGE_JSON), (SOUND, "av", SOUND_JSON)], ids=["image", "av"]
)
def test_metadata_are_written_and_read_as_the_format_says(
    metadata: AVMetadata | ImageMetadata, kind: str, text: str
) -> None:
    assert serialize_media_metadata(metadata) == (kind, text)
    assert deserialize_media_metadata(kind, text) == metadata


def test_what_a_file_has_not_is_left_out_of_the_json() -> None:
    assert serialize_media_metadata(AVMetadata()) == ("av", "{}")


def test_fields_of_a_later_format_are_ignored_and_whole_floats_are_counts() -> None:
    assert deserialize_media_metadata("av", '{"video_num_frames": 25.0, "colour": "red"}') == AVMetadata(
        video_num_frames=25
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("image", '{"width": 3}'),
        ("image", '{"width": "wide", "height": 1, "format": "PNG", "mode": "L"}'),
        ("av", "[]"),
        ("av", "{"),
        ("text", "{}"),
    ],
)
def test_what_is_no_metadata_is_refused_with_what_was_found(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        deserialize_media_metadata(kind, text)


def write_index(folder: Path, rows: list[tuple[str, int | str, bytes | str]]) -> MediaMetadataReader:
    (folder / ".nv-meta").mkdir(exist_ok=True)
    with closing(sqlite3.connect(folder / ".nv-meta/index.sqlite")) as database, database:
        database.execute("CREATE TABLE media_metadata (entry_key TEXT PRIMARY KEY, metadata_type, metadata_json)")
        database.executemany("INSERT INTO media_metadata VALUES (?, ?, ?)", rows)
    return MediaMetadataReader(open_storage(folder))


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[MediaMetadataReader]:
    with closing(write_index(tmp_path, [("a.jpg", "image", IMAGE_JSON), ("b.wav", "av", SOUND_JSON)])) as reader:
        yield reader


def test_an_entry_is_looked_up_by_its_key(reader: MediaMetadataReader) -> None:
    assert reader.get("a.jpg") == IMAGE
    assert reader.get("b.wav") == SOUND
    assert dict(reader) == {"a.jpg": IMAGE, "b.wav": SOUND}


@pytest.mark.parametrize("key", ["c.jpg", "a", "", "' OR 1=1 --", "\udcff.jpg"])
def test_an_unknown_entry_is_an_error_that_names_it_and_the_command(reader: MediaMetadataReader, key: str) -> None:
    with pytest.raises(SampleError) as caught:
        reader.get(key)
    assert repr(key) in caught.value.message
    assert "energon prepare-media" in (caught.value.hint or "")


def test_threads_share_a_reader(reader: MediaMetadataReader) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(reader.get, ["a.jpg", "b.wav"] * 500)) == [IMAGE, SOUND] * 500


def test_a_forked_process_reads_by_a_connection_of_its_own(reader: MediaMetadataReader) -> None:
    assert reader.get("a.jpg") == IMAGE
    assert reader._opened is not None
    with reader._opened.lock:  # as another thread may hold it at the time of the fork
        child = os.fork()
        if not child:
            os._exit(0 if reader.get("b.wav") == SOUND else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_pickled_reader_reads(reader: MediaMetadataReader) -> None:
    assert reader.get("a.jpg") == IMAGE
    with closing(pickle.loads(pickle.dumps(reader))) as copy:
        assert copy.get("b.wav") == SOUND


def test_a_reader_that_was_closed_opens_the_file_again(reader: MediaMetadataReader) -> None:
    reader.close()
    assert reader.get("a.jpg") == IMAGE


@pytest.mark.parametrize("info", [None, ".info.json", ".info.yaml"])
def test_where_nothing_was_collected_the_right_command_is_named(tmp_path: Path, info: str | None) -> None:
    (tmp_path / ".nv-meta").mkdir()
    if info:
        (tmp_path / ".nv-meta" / info).touch()
    with pytest.raises(ConfigError) as caught:
        MediaMetadataReader(open_storage(tmp_path)).get("a.jpg")
    command = "energon prepare " if info else "energon prepare-media "
    assert command in (caught.value.hint or "")
    assert (caught.value.hint or "").endswith(f" {tmp_path}")


def test_an_index_without_media_tables_is_the_same(tmp_path: Path) -> None:
    (tmp_path / ".nv-meta").mkdir()
    with closing(sqlite3.connect(tmp_path / ".nv-meta/index.sqlite")) as database, database:
        database.execute("CREATE TABLE samples(sample_key)")
    with pytest.raises(ConfigError, match="no table"):
        MediaMetadataReader(open_storage(tmp_path)).get("a")


def test_a_damaged_file_is_a_format_error(tmp_path: Path) -> None:
    (tmp_path / ".nv-meta").mkdir()
    (tmp_path / ".nv-meta/index.sqlite").write_bytes(b"SQLite format 3\0" + b"\xa5" * 5000)
    with pytest.raises(FormatError, match="cannot be read"):
        MediaMetadataReader(open_storage(tmp_path)).get("a.jpg")


@pytest.mark.parametrize(
    "row",
    [
        ("image", json.dumps({"width": 3})),
        ("table", "{}"),
        (3, b"\xff"),
        ("image", "x" * (2 << 20)),
        ("av", '{"x":' + "[" * 100_000),
    ],
    ids=["fields", "type", "bytes", "endless", "deep"],
)
def test_damaged_rows_are_format_errors(tmp_path: Path, row: tuple[int | str, bytes | str]) -> None:
    with closing(write_index(tmp_path, [("a.jpg", *row)])) as reader, pytest.raises(FormatError):
        reader.get("a.jpg")


def test_a_view_in_place_of_the_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".nv-meta").mkdir()
    with closing(sqlite3.connect(tmp_path / ".nv-meta/index.sqlite")) as database, database:
        database.execute("CREATE VIEW media_metadata AS SELECT 'a' entry_key, 'av' metadata_type, '{}' metadata_json")
    with pytest.raises(FormatError, match="views"):
        MediaMetadataReader(open_storage(tmp_path)).get("a")


def test_a_reader_that_is_dropped_in_a_cycle_closes_the_file(tmp_path: Path) -> None:
    reader: Any = write_index(tmp_path, [("a.jpg", "image", IMAGE_JSON)])
    assert reader.get("a.jpg") == IMAGE
    database = reader._opened.database
    reader.itself = reader
    del reader
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        database.execute("SELECT 1")
