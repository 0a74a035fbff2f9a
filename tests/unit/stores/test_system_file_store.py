"""Read the files of a folder by path."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from PIL import Image

from loader import ConfigError, EnergonError, SourceInfo, StorageError
from loader.format.media.metadata import ImageMetadata, MediaFilter
from loader.prepare.media_folder import prepare_media_folder
from loader.storage import LocalStorage
from loader.stores import MissingFileError, SystemFileStore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"a")
    (folder / "sub/b.txt").write_bytes(b"b")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "files-next").mkdir()
    (tmp_path / "files-next/c.txt").write_bytes(b"c")
    (folder / "inside").symlink_to("sub/b.txt")
    (folder / "outside").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    return folder


@pytest.mark.parametrize(
    ("key", "value"), [("a.txt", b"a"), ("sub/b.txt", b"b"), ("sub/../a.txt", b"a"), ("inside", b"b")]
)
def test_a_file_is_found_by_its_path(folder: Path, key: str, value: bytes) -> None:
    assert SystemFileStore(folder)[key] == (value, SourceInfo(str(folder), key, None, (key,)))


@pytest.mark.parametrize("key", ["../secret", "sub/../../secret", "outside", "up/secret", "../files-next/c.txt"])
def test_a_key_that_leads_out_of_the_folder_is_refused(folder: Path, key: str) -> None:
    with pytest.raises(StorageError, match="leads out of this folder"):
        SystemFileStore(folder)[key]


def test_an_absolute_path_is_refused_even_of_a_file_in_the_folder(folder: Path) -> None:
    with pytest.raises(StorageError, match="leads out of this folder"):
        SystemFileStore(folder)[str(folder / "a.txt")]


def test_without_a_folder_any_path_is_served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SystemFileStore()
    assert store.get(str(folder / "a.txt")) == b"a"
    monkeypatch.chdir(folder)
    assert store.get("sub/b.txt") == b"b"
    with pytest.raises(MissingFileError, match="there is no file 'gone' on this machine"):
        store["gone"]


@pytest.mark.parametrize(
    "key", ["gone.txt", "a.txt/b", "nul\0", "half a character \ud800", "x/" * 100_000], ids=lambda key: ascii(key)[:20]
)
def test_a_missing_file_is_told(folder: Path, key: str) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file") as caught:
        SystemFileStore(folder)[key]
    assert len(str(caught.value)) < 500
    with pytest.raises(FileNotFoundError, match="there is no file"):
        SystemFileStore()[key]


def test_a_folder_is_no_file(folder: Path) -> None:
    with pytest.raises(StorageError, match="expected a file, found a directory"):
        SystemFileStore(folder)["sub"]


def test_a_folder_that_is_reached_by_a_link_serves_its_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("files")
    store = pickle.loads(pickle.dumps(SystemFileStore(tmp_path / "link")))
    assert store.get("sub/b.txt") == b"b"
    assert store == SystemFileStore(tmp_path / "link") != SystemFileStore(folder)


def test_media_metadata_of_a_folder_is_found_by_path(folder: Path) -> None:
    Image.new("L", (3, 2)).save(folder / "sub/p.png")
    store = SystemFileStore(folder)
    with pytest.raises(ConfigError, match="no media metadata was collected here"):
        store.get_media_metadata("sub/p.png")
    prepare_media_folder(LocalStorage(folder), MediaFilter(strategy="EXTENSION"), workers=1)
    expected = ImageMetadata(width=3, height=2, format="PNG", mode="L")
    assert store.get_media_metadata("sub/p.png") == store.get_media_metadata("./sub//p.png") == expected
    with pytest.raises(StorageError, match="leads out of this folder"):
        store.get_media_metadata("../p.png")
    with pytest.raises(EnergonError, match="a SystemFileStore without a folder has no media metadata"):
        SystemFileStore().get_media_metadata("p.png")
