"""Files of a folder are grouped to samples by their names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loader.convert.file_trees.file_names import group_files
from loader.convert.rows.row import NO_SPLIT, FileRef, ValueRef
from loader.convert.sources.files import FilesSource
from loader.convert.sources.source import Listing
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError, StorageError
from tests.unit.convert.sources.imported import import_source, load, red, write_picture


def parts_of(folder: Path) -> dict[str, list[str]]:
    return {row.key: sorted(row.parts) for row in FilesSource(path=str(folder)).rows(Listing())}


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
    assert parts_of(tmp_path / "in") == {"a": ["jpg"]}  # "other" leads out of the folder


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/\xe9.jpg", os.O_CREAT | os.O_WRONLY))
    [row] = FilesSource(path=str(tmp_path)).rows(Listing())
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


def test_folders_of_pictures_are_classes(tmp_path: Path) -> None:
    for number, name in enumerate(("dogs/1.jpg", "cats/1.png", "löwen/2.jpg")):
        write_picture(tmp_path / "in" / name, 50 * number)
    source = FilesSource(path=str(tmp_path / "in"))
    import_source(source, tmp_path / "out")
    samples = load(tmp_path / "out", 3)
    assert {key: (type(sample).__name__, sample.label, sample.label_name) for key, sample in samples.items()} == {
        "cats/1": ("ImageClassificationSample", 0, "cats"),
        "dogs/1": ("ImageClassificationSample", 1, "dogs"),
        "löwen/2": ("ImageClassificationSample", 2, "löwen"),
    }
    assert red(samples["cats/1"].image) == 50
    assert parts_of(tmp_path / "in")["dogs/1"] == ["cls", "jpg", "json"]


def splits_and_labels(source: FilesSource) -> dict[str, tuple[str, bytes | None]]:
    labels = {}
    for row in source.rows(Listing()):
        label = row.parts.get("cls")
        labels[row.key] = (row.split, label.data if isinstance(label, ValueRef) else None)
    return labels


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train/b/1.jpg", "train/c/2.jpg", "val/a/1.jpg"],
         {"train/b/1": ("train", b"1"), "train/c/2": ("train", b"2"), "val/a/1": ("val", b"0")}),
        (["train/1.jpg", "valid/1.jpg"], {"train/1": ("train", None), "valid/1": ("val", None)}),
        (["train2017/images/1.jpg", "test2017/labels/1.txt"],
         {"test2017/labels/1": ("test", None), "train2017/images/1": ("train", None)}),
        (["train/a/1.jpg", "train/b/1.jpg"], {"train/a/1": ("train", b"0"), "train/b/1": ("train", b"1")}),
        (["a/train/1.jpg", "a/val/1.jpg", "b/train/1.jpg", "b/val/1.jpg"],
         {"a/train/1": ("train", b"0"), "a/val/1": ("val", b"0"),
          "b/train/1": ("train", b"1"), "b/val/1": ("val", b"1")}),
        (["x/validation/1.jpg", "x/validation/2.jpg"],
         {"x/validation/1": ("val", None), "x/validation/2": ("val", None)}),
        (["train/1.jpg", "val/1.jpg", "more/1.jpg", "1.jpg"],
         {"train/1": ("train", None), "val/1": ("val", None), "more/1": (NO_SPLIT, None), "1": (NO_SPLIT, None)}),
        (["train/1.jpg", "bus/1.jpg", "car/1.jpg"],
         {"train/1": ("", b"2"), "bus/1": ("", b"0"), "car/1": ("", b"1")}),
        (["train/a/1.jpg", "train/b/1.jpg", "test/a/1.jpg", "1.jpg"],
         {"train/a/1": ("train", b"0"), "train/b/1": ("train", b"1"),
          "test/a/1": ("test", b"0"), "1": (NO_SPLIT, None)}),
        (["a/1.jpg", "b/1.jpg", "README.md"], {"a/1": ("", b"0"), "b/1": ("", b"1")}),
        (["a/1.jpg", "a/1.txt", "b/1.jpg"], {"a/1": ("", None), "b/1": ("", None)}),
        (["a/1.jpg", "b/x/1.jpg"], {"a/1": ("", None), "b/x/1": ("", None)}),
        (["2019/1.jpg", "2020/1.jpg"], {"2019/1": ("", None), "2020/1": ("", None)}),
        (["0/1.jpg", "1/1.jpg"], {"0/1": ("", b"0"), "1/1": ("", b"1")}),
        (["a/1.jpg", "a/2.jpg"], {"a/1": ("", None), "a/2": ("", None)}),
    ],
)  # fmt: skip
def test_folders_are_classes_and_split_parts_where_that_is_clear(
    names: list[str], expected: dict[str, tuple[str, bytes | None]], tmp_path: Path
) -> None:
    write(tmp_path, *names)
    assert splits_and_labels(FilesSource(path=str(tmp_path))) == expected
    plain = splits_and_labels(FilesSource(path=str(tmp_path), options=SourceOptions(classes=False, splits=False)))
    assert plain == dict.fromkeys(expected, ("", None))


def test_classes_and_splits_can_be_requested(tmp_path: Path) -> None:
    write(tmp_path, "train/2019/x/1.jpg", "train/2020/1.jpg", "train/2020/1.txt")
    options = SourceOptions(classes=True, splits=True)
    assert splits_and_labels(FilesSource(path=str(tmp_path), options=options)) == {
        "train/2019/x/1": ("train", b"0"),
        "train/2020/1": ("train", b"1"),
    }
    write(tmp_path, "train/3.jpg")
    with pytest.raises(ConfigError, match="in a folder of a class; found files in train"):
        splits_and_labels(FilesSource(path=str(tmp_path), options=options))
    write(tmp_path, "other/3.jpg")
    with pytest.raises(ConfigError, match="in a folder of a split part, such as train or val; found files in other"):
        splits_and_labels(FilesSource(path=str(tmp_path), options=options))


def test_a_folder_that_refuses_to_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.jpg", "private/b.jpg", "z/c.jpg")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.rstrip("/").endswith("private"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    listing = Listing()
    assert [row.key for row in FilesSource(path=str(tmp_path)).rows(listing)] == ["a", "z/c"]
    listing.account.check()
    left_out = [(entry.reason, entry.count, entry.example) for entry in listing.account.left_out]
    assert left_out == [("L109", 1, "private/")]
