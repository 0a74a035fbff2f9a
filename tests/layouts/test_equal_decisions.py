"""A tree is decided alike in any order of listing, by any number of workers, and whatever is drawn of its documents."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any, Self

import pytest

from loader.convert.importing.plan import ImportPlan
from loader.convert.importing.run import run_import
from loader.convert.sources import SourceOptions, open_source
from loader.convert.sources.files import FilesSource
from tests.layouts import cards_pictures, cards_speech
from tests.layouts.answers import differences, outcome_of
from tests.layouts.layout import LAYOUTS, contents_of, tar_of, write

__all__ = ["cards_pictures", "cards_speech"]  # they register layouts

NAMES = ("coco_2017", "cub_200_2011", "kitti_object", "common_voice_as_it_is_released")
SCAN = os.scandir


class ShuffledScan(list[Any]):
    """The entries of a folder in another order, as another file system lists them."""

    def __init__(self, path: Any) -> None:
        with SCAN(path) as entries:
            super().__init__(sorted(entries, key=lambda entry: str(entry.name)))
        random.Random(2).shuffle(self)
        self._entries = iter(self)

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    close = __exit__


def build(name: str, folder: Path) -> None:
    folder.mkdir()
    assert LAYOUTS[name].build(folder) is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_any_order_of_listing_gives_the_same_samples(
    name: str, form: str, fast_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = fast_disk / "data"
    build(name, source)
    paths = sorted(path for path in source.rglob("*") if path.is_file())
    random.Random(1).shuffle(paths)
    files = {str(path.relative_to(source)): path.read_bytes() for path in paths}
    if form == "tar":
        source = source.with_suffix(".tar")
        source.write_bytes(tar_of(files))
    elif form == "zip":
        source = source.with_suffix(".zip")
        with zipfile.ZipFile(source, "w") as file:
            for member, contents in files.items():
                file.writestr(member, contents)
    monkeypatch.setattr(os, "scandir", ShuffledScan)
    assert not differences(LAYOUTS[name], outcome_of(LAYOUTS[name], source, fast_disk / "out"))


def test_any_number_of_workers_gives_the_same_shards(fast_disk: Path) -> None:
    build("cub_200_2011", fast_disk / "data")
    shards = []
    for workers in (1, 3):
        source = open_source(str(fast_disk / "data"), kind=None, options=SourceOptions())
        run_import(ImportPlan(sources=(source,), output=str(fast_disk / f"{workers}"), workers=workers))
        shards.append([path.read_bytes() for path in sorted(fast_disk.glob(f"{workers}/*.tar"))])
    assert shards[0] == shards[1] != []


def survey(folder: Path) -> FilesSource:
    source = open_source(str(folder), kind="folder", options=SourceOptions())
    assert isinstance(source, FilesSource)
    source.takes_all = False
    source.survey()
    return source


def test_all_documents_are_read_if_drawn_ones_name_files(fast_disk: Path) -> None:
    names = [f"images/{number:04d}.jpg" for number in range(1200)]
    write(fast_disk / "data", names)
    documents = {
        f"notes/n{n:04d}.json": json.dumps([{"file": name, "text": f"picture {n}"}]) for n, name in enumerate(names)
    }
    write(fast_disk / "data", documents)
    decision = survey(fast_disk / "data").hypotheses[0]
    assert (decision.name, decision.samples, decision.fits) == ("rows that name files", 1200, True)


def test_sizes_are_asked_where_they_matter(fast_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"images/{number:04d}.jpg" for number in range(200)]
    write(fast_disk / "data", {name: contents_of(name) for name in names})
    table = "".join(f"{name},picture {n}\n" for n, name in enumerate(names))
    write(fast_disk / "data", {"captions.csv": f"file,caption\n{table}"})
    asked: list[str] = []

    def size(_: object, name: str) -> int:
        asked.append(name)
        return 1

    monkeypatch.setattr("loader.convert.file_trees.tree.FolderTree.size", size)
    assert survey(fast_disk / "data").hypotheses[0].samples == 200
    assert len(asked) < 10
