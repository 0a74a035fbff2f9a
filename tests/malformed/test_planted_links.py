"""An untrusted dataset may contain links and pipes."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from loader.dataset.opening import folder_at
from loader.errors import EnergonError, StorageError
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from loader.storage import LocalStorage


def make_dataset(folder: Path) -> Path:
    folder.mkdir()
    with tarfile.open(folder / "s.tar", "w") as tar:
        member = tarfile.TarInfo("a.txt")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    return folder


def prepare(folder: Path, **options: Any) -> None:
    run_prepare(PreparePlan(path=str(folder), split=SplitRequest(ratio={"train": 1.0}), **options))


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    for name in ("staged", "Documents"):
        (folder / name).mkdir(parents=True)
        (folder / name / "layout.json").write_text("as it was")
    return folder


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("link", [".nv-meta/.prepare", ".nv-meta/index"])
def test_prepare_follows_no_link_in_nv_meta(tmp_path: Path, victim: Path, link: str) -> None:
    dataset = make_dataset(tmp_path / "dataset")
    (dataset / ".nv-meta").mkdir()
    (dataset / link).symlink_to(victim)
    before = tree(victim)
    with pytest.raises(StorageError, match="found a link to another folder"):
        prepare(dataset, force=True)
    assert tree(victim) == before


def test_opening_follows_no_link_to_build_an_index(tmp_path: Path, victim: Path) -> None:
    dataset = make_dataset(tmp_path / "dataset")
    prepare(dataset)
    os.rename(dataset / ".nv-meta/index", tmp_path / "moved")
    (dataset / ".nv-meta/index").symlink_to(victim)
    (dataset / ".nv-meta/index.uuid").write_text("Documents")
    before = tree(victim)
    with pytest.raises(EnergonError):
        _ = folder_at(dataset).index
    assert tree(victim) == before


def test_nv_meta_itself_may_be_a_link(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "dataset")
    (tmp_path / "elsewhere").mkdir()
    (dataset / ".nv-meta").symlink_to(tmp_path / "elsewhere")
    prepare(dataset)
    assert folder_at(dataset).read_parts(0) == {"txt": b"x"}


@pytest.mark.parametrize("name", [".info.json", "index.uuid", "split.yaml"])
def test_a_pipe_in_the_place_of_a_file_is_told_at_once(tmp_path: Path, name: str) -> None:
    dataset = make_dataset(tmp_path / "dataset")
    prepare(dataset)
    (dataset / ".nv-meta" / name).unlink()
    os.mkfifo(dataset / ".nv-meta" / name)

    def read() -> None:
        opened = folder_at(dataset)
        _ = opened.index, opened.documents.split

    with pytest.raises(StorageError, match="found a directory, pipe or device"):
        read()


@pytest.mark.parametrize("name", ["/etc/passwd", "../victim/x", "a/../../victim/x", ".."])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    storage = LocalStorage(tmp_path / "dataset")
    for action in (storage.read, storage.stat, storage.exists, storage.remove):
        with pytest.raises(StorageError, match="leads out of this folder"):
            action(name)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for action in (storage.read, storage.stat, storage.exists, storage.remove):
        with pytest.raises(StorageError, match="no file has the name"):
            action("a\0b.tar")


def test_folders_of_links_to_folders_of_links_end(tmp_path: Path) -> None:
    for depth in range(30):
        folder = tmp_path / f"f{depth:02d}"
        folder.mkdir()
        (folder / "x.tar").touch()
        for name in "ab":
            (folder / name).symlink_to(tmp_path / f"f{depth + 1:02d}")
    top = tmp_path / "f00"
    assert 30 < len(list(LocalStorage(top).list())) < 1000


def test_a_folder_in_the_place_of_a_file_stops_a_prepare_before_anything_changes(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "dataset")
    (dataset / "s.tar.idx").mkdir()
    with pytest.raises(StorageError, match="expected a file or a free name to write to, found a folder"):
        prepare(dataset)
    (dataset / "s.tar.idx").rmdir()
    prepare(dataset)
    assert folder_at(dataset).read_parts(0) == {"txt": b"x"}
