"""Files of a folder are grouped to samples by their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loader.convert.rows.row import FileRef
from loader.convert.sources.folder import FolderSource, group_files
from loader.errors import ConfigError, StorageError


def parts_of(folder: Path) -> dict[str, list[str]]:
    return {row.key: sorted(row.parts) for row in FolderSource(path=str(folder)).rows(shuffled=False, scratch="")}


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


@pytest.mark.parametrize(
    ("names", "samples"),
    [
        (["a.jpg", "a.txt", "a.json"], {"a": {"jpg": "a.jpg", "json": "a.json", "txt": "a.txt"}}),
        (["a.jpg", "a.jpg.txt"], {"a": {"jpg": "a.jpg", "txt": "a.jpg.txt"}}),
        (["a.jpg", "a.seg.png"], {"a": {"jpg": "a.jpg", "seg.png": "a.seg.png"}}),
        (["v1.2.jpg", "v1.2.txt"], {"v1.2": {"jpg": "v1.2.jpg", "txt": "v1.2.txt"}}),
        (["a.JPG", "a.jpg"], {"a": {"jpg": "a.JPG", "2.jpg": "a.jpg"}}),
        (["b.jpg", "a.jpg"], {"a": {"jpg": "a.jpg"}, "b": {"jpg": "b.jpg"}}),
    ],
)
def test_files_that_share_a_name_are_a_sample(names: list[str], samples: dict[str, dict[str, str]]) -> None:
    assert dict(group_files(names)) == samples


def test_folders_are_part_of_the_key(tmp_path: Path) -> None:
    write(tmp_path, "x/a.jpg", "y/a.jpg", "y/z.d/a.b.jpg", ".hidden/a.jpg", "README", ".a.jpg", "x/Thumbs.db")
    assert parts_of(tmp_path) == {"x/a": ["jpg"], "y/a": ["jpg"], "y/z.d/a_b": ["jpg"]}


def test_links_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path, "in/a.jpg")
    write(tmp_path / "elsewhere", "b.jpg")
    (tmp_path / "in/up").symlink_to(tmp_path / "in")
    (tmp_path / "in/other").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in/gone.jpg").symlink_to(tmp_path / "nothing")
    assert parts_of(tmp_path / "in") == {"a": ["jpg"], "gone": ["jpg"], "other/b": ["jpg"]}


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/\xe9.jpg", os.O_CREAT | os.O_WRONLY))
    [row] = FolderSource(path=str(tmp_path)).rows(shuffled=False, scratch="")
    assert row.key == "\N{REPLACEMENT CHARACTER}"
    reference = row.parts["jpg"]
    assert isinstance(reference, FileRef)
    assert reference.path.endswith(b"/\xe9.jpg")


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("")
    with pytest.raises(ConfigError, match="no files that have an extension"):
        parts_of(tmp_path)
    with pytest.raises(StorageError, match="list"):
        parts_of(tmp_path / "missing")
