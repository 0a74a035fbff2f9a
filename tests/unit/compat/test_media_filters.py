"""Functions and types under the names of megatron-energon."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from loader import BaseWebdatasetFactory, ConfigError, DatasetFileStore, EPath, SystemFileStore
from loader.compat.media_filters import MediaFilterConfig, MediaFilterStrategy, prepare_filesystem_dataset
from loader.format.media.metadata import (
    AVMetadata,
    ImageMetadata,
    MediaMetadataBase,
    MediaMetadataType,
    deserialize_media_metadata,
    serialize_media_metadata,
)
from tests.e2e.dataset_tree import write_shard

PICTURE = ImageMetadata(width=4, height=3, format="PNG", mode="RGB")


def test_metadata_are_written_with_a_type_and_read_by_it_or_its_text() -> None:
    kind, text = serialize_media_metadata(PICTURE)
    assert kind == "image"
    assert kind is MediaMetadataType.IMAGE
    assert deserialize_media_metadata(kind, text) == deserialize_media_metadata("image", text) == PICTURE
    assert isinstance(PICTURE, MediaMetadataBase)
    sound = AVMetadata(audio_channels=2)
    assert isinstance(sound, MediaMetadataBase)
    assert deserialize_media_metadata(*serialize_media_metadata(sound)) == sound
    with pytest.raises(ValueError, match="expected a type"):
        deserialize_media_metadata("text", "{}")


def test_metadata_have_the_fields_of_megatron_energon() -> None:
    sound = AVMetadata(audio_channels=2)
    counted = sound.with_bases(audio_basis="counted")
    of_video = ["video_duration", "video_num_frames", "video_fps", "video_width", "video_height"]
    of_sound = ["audio_duration", "audio_channels", "audio_sample_rate", "audio_num_samples"]
    assert [field.name for field in dataclasses.fields(counted)] == of_video + of_sound
    assert counted == sound
    assert (counted.audio_basis, pickle.loads(pickle.dumps(counted)).audio_basis) == ("counted", "counted")
    assert (counted.video_basis, sound.audio_basis) == (None, None)


def test_metadata_are_plain_data() -> None:
    assert ImageMetadata.from_dict(PICTURE.to_dict()) == PICTURE
    assert AVMetadata(video_fps=2.0).to_dict() == {"video_fps": 2.0}
    assert MediaMetadataType.from_string("av") is AVMetadata.metadata_type
    with pytest.raises(ValueError, match="'text' is not a valid MediaMetadataType"):
        MediaMetadataType.from_string("text")


@pytest.mark.parametrize("source", ["bytes", "file", "path"])
def test_metadata_are_read_from_what_a_filter_selects(source: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 3)).save(path)
    with path.open("rb") as file:
        given: Any = {"bytes": path.read_bytes(), "file": file, "path": EPath(path)}[source]
        by_name = MediaFilterConfig(MediaFilterStrategy.EXTENSION)
        assert by_name.extract_metadata(given, "a.png") == PICTURE
        assert by_name.extract_metadata(given, "a.txt") is None
        assert MediaFilterConfig(MediaFilterStrategy.HEADER).extract_metadata(given, "a") == PICTURE
        if source == "path":
            assert by_name.extract_metadata(given) == PICTURE
        else:
            with pytest.raises(ConfigError, match="expected the name of the file"):
                by_name.extract_metadata(given)
    assert by_name.extract_metadata(b"no picture", "a.png") is None


def test_a_filter_is_parsed_from_flags() -> None:
    assert MediaFilterConfig.parse("*.jpg, *.png", False, False).patterns == ("*.jpg", "*.png")
    assert MediaFilterConfig.parse(None, True, False).should_consider_all()
    extension = MediaFilterConfig.parse(None, False, True)
    assert extension == MediaFilterConfig(MediaFilterStrategy.EXTENSION)
    assert [extension.should_consider_media(name) for name in ("a/b.jpg", "a/b.txt")] == [True, False]
    assert not extension.should_consider_all()
    with pytest.raises(ConfigError, match="found 2"):
        MediaFilterConfig.parse("*.jpg", True, False)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "files/sub/a.png"
    path.parent.mkdir(parents=True)
    Image.new("RGB", (4, 3)).save(path)
    (tmp_path / "files/b.txt").write_text("no picture")
    return path


def test_the_files_of_a_folder_are_read(picture: Path) -> None:
    folder = picture.parent.parent
    media = MediaFilterConfig(MediaFilterStrategy.HEADER)
    assert prepare_filesystem_dataset(EPath(folder), media, progress=False, workers=1) == 1
    assert SystemFileStore(folder).get_media_metadata("sub/a.png") == PICTURE


def test_the_parts_of_a_dataset_are_read_then_or_later(picture: Path, tmp_path: Path) -> None:
    write_shard(tmp_path / "ds/s.tar", {"0": {"png": picture.read_bytes(), "txt": b"a cat"}})
    prepared: dict[str, Any] = {"split_parts_ratio": [("train", 1.0)], "workers": 1}
    BaseWebdatasetFactory.prepare_dataset(tmp_path / "ds", ["s.tar"], **prepared)
    glob = MediaFilterConfig(MediaFilterStrategy.GLOB, ["*.png"])
    assert BaseWebdatasetFactory.add_media_metadata(tmp_path / "ds", media_filter=glob, workers=1) == 1
    assert DatasetFileStore(tmp_path / "ds").get_media_metadata("0.png") == PICTURE
    write_shard(tmp_path / "other/s.tar", {"0": {"png": picture.read_bytes()}})
    BaseWebdatasetFactory.prepare_dataset(tmp_path / "other", ["s.tar"], media_filter=glob, **prepared)
    assert DatasetFileStore(tmp_path / "other").get_media_metadata("0.png") == PICTURE
