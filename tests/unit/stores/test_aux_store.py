"""The stores that the code of a sample reads from."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import StorageError
from loader.stores import DatasetFileStore, MissingFileError, PrimaryFileStore, SystemFileStore, open_aux_store
from tests.e2e.dataset_tree import prepare, write_shard, write_shards


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = write_shards(tmp_path / "dataset", 1)
    prepare(folder)
    return folder


def test_a_url_names_its_store(dataset: Path, tmp_path: Path) -> None:
    assert open_aux_store(dataset) == open_aux_store(str(dataset)) == DatasetFileStore(dataset)
    assert open_aux_store(f"filesystem://{tmp_path}") == SystemFileStore(tmp_path)


@pytest.mark.parametrize("protocol", ["ftp", "filesystem+ftp"])
def test_a_protocol_that_is_not_served_is_told_with_those_that_are(protocol: str) -> None:
    with pytest.raises(StorageError, match=r"cannot read ftp:// URLs(\n.*)*supported are abfs"):
        open_aux_store(f"{protocol}://profile/bucket/ds")


def test_a_folder_that_is_not_prepared_may_be_meant_as_files(tmp_path: Path) -> None:
    (tmp_path / "0.tar").touch()
    with pytest.raises(StorageError) as caught:
        open_aux_store(tmp_path)
    assert caught.value.hint == f"run: energon prepare {tmp_path}; or, for plain files, write filesystem://{tmp_path}"


@pytest.mark.parametrize(
    ("scheme", "message"), [("", "this file is not a dataset"), ("filesystem://", "this is a file")]
)
def test_a_file_is_no_folder(tmp_path: Path, scheme: str, message: str) -> None:
    (tmp_path / "data.csv").touch()
    with pytest.raises(StorageError, match=message):
        open_aux_store(f"{scheme}{tmp_path}/data.csv")


@pytest.mark.parametrize("scheme", ["", "filesystem://"])
def test_a_folder_that_is_missing_is_told_when_the_store_is_opened(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(StorageError, match="this folder does not exist"):
        open_aux_store(f"{scheme}{tmp_path}/gone")


def test_a_dot_names_a_part_of_the_current_sample(tmp_path: Path) -> None:
    write_shard(tmp_path / "parts/s1.tar", {"3": {"txt": b"three"}, "both": {"txt": b"of s1", "jpg": b"picture"}})
    write_shard(tmp_path / "parts/s2.tar", {"both": {"txt": b"of s2"}})
    prepare(tmp_path)
    primary = PrimaryFileStore(DatasetFileStore(tmp_path), "parts/s2.tar/both")
    assert primary.get(".txt") == b"of s2"
    assert primary.get("parts/s1.tar/both.txt") == b"of s1"
    assert primary.get("3.txt") == b"three"
    assert primary.get_path() == str(tmp_path)
    with pytest.raises(MissingFileError, match=r"'parts/s2\.tar/both' has no part 'jpg'"):
        primary[".jpg"]
