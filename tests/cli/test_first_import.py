"""A path that is not a dataset yet: each command names the command line that makes one, and it works as it stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from energon_cli.main import main
from loader import WorkerConfig, get_train_dataset, random_access
from loader.errors import EnergonError
from tests.cli.run_energon import Done, RunEnergon
from tests.cli.terminal import DOWN, ENTER, TerminalRun
from tests.layouts import documents, folders, public, tables
from tests.layouts.layout import LAYOUTS, Form, Layout, packed, picture, table, write

ROWS = "image,caption\n0.jpg,one\n1.jpg,two\n"


def pictures(folder: Path) -> str:
    write(folder / "my photos", [f"{number}.jpg" for number in range(3)])
    return "my photos"


def pictures_below_an_odd_name(folder: Path) -> str:
    write(folder / "-it's\x1b\n$HOME", ["a/0.png", "b/1.png"])
    return "./-it's\x1b\n$HOME"


def pictures_and_their_table(folder: Path) -> str:
    write(folder / "own", {"0.jpg": picture(), "1.jpg": picture(), "data.csv": ROWS})
    return "own"


def pictures_and_their_metadata(folder: Path) -> str:
    write(folder / "own", {"0.jpg": picture(), "metadata.jsonl": '{"file_name": "0.jpg", "text": "x"}\n'})
    return "own"


def a_csv_file(folder: Path) -> str:
    write(folder / "t", {"0.jpg": picture(), "1.jpg": picture(), "data.v2.csv": ROWS})
    return "t/data.v2.csv"


def a_tsv_file(folder: Path) -> str:
    write(folder, {"0.jpg": picture(), "1.jpg": picture(), "data.tsv": ROWS.replace(",", "\t")})
    return "data.tsv"


def a_list_of_json(folder: Path) -> str:
    write(folder, {"0.jpg": picture(), "rows.json": json.dumps([{"image": "0.jpg", "caption": "one"}])})
    return "rows.json"


def a_folder_of_hugging_face(folder: Path) -> str:
    files = {
        "dataset_infos.json": "{}",
        "README.md": "# x",
        "data/train-00000-of-00001.parquet": table({"text": ["a"]}),
    }
    write(folder / "hub", files)
    return "hub"


def a_dataset_saved_by_datasets(folder: Path) -> str:
    import datasets  # takes seconds: not for those who only collect tests

    datasets.Dataset.from_dict({"text": ["a", "b"]}).save_to_disk(folder / "saved")
    return "saved"


def coco(folder: Path, *kinds: str) -> str:
    """Write the pictures and annotations of COCO; instances alone unless kinds are named."""
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(2)]
    document = json.dumps({"images": images, "annotations": [{"id": 1, "image_id": 1, "bbox": [0, 0, 1, 1]}]})
    write(folder / "my coco", ["images/0.jpg", "images/1.jpg"])
    write(folder / "my coco", {f"annotations/{kind}.json": document for kind in kinds or ("instances",)})
    return "my coco"


def coco_of_two_kinds(folder: Path) -> str:
    return coco(folder, "instances_train2017", "person_keypoints_train2017")


def a_zip(folder: Path) -> str:
    with zipfile.ZipFile(folder / "photos.zip", "w") as file:
        file.writestr("0.jpg", picture())
    return "photos.zip"


def a_picture(folder: Path) -> str:
    write(folder / "photos", ["0.jpg"])
    return "photos/0.jpg"


SOURCES: list[Callable[[Path], str]] = [
    pictures, pictures_below_an_odd_name, pictures_and_their_table, pictures_and_their_metadata, a_csv_file, a_tsv_file,
    a_list_of_json, a_folder_of_hugging_face, a_dataset_saved_by_datasets, a_zip, a_picture, coco, coco_of_two_kinds,
]  # fmt: skip
WORKERS = WorkerConfig.default_worker_config(0)
DEFAULTS: Any = {"batch_size": 1, "shuffle_buffer_size": None, "max_samples_per_sequence": None}
SAMPLES: dict[Callable[[Path], str], int] = {
    pictures: 3,
    pictures_below_an_odd_name: 2,
    pictures_and_their_table: 2,
    a_csv_file: 2,
    a_tsv_file: 2,
    a_dataset_saved_by_datasets: 2,
    coco: 2,
    coco_of_two_kinds: 2,
}
"""Number of samples of the sources that have several."""


def words_of_shell(line: str) -> list[str]:
    """Split a command line as a shell does, whose ``$'…'`` the standard library does not know."""
    line = re.sub(r"\$'((?:[^'\\]|\\x..)*)'", lambda match: shlex.quote(eval(f"'{match[1]}'")), line)
    return shlex.split(line)


def command_in(text: str) -> str:
    found = re.search(r"[Rr]un: (energon import [^;\n]*)", text)
    assert found is not None, text
    return found[1]


def call(command: str, path: str, energon: RunEnergon) -> Done:
    return energon(command, path, *(("--yes",) if command == "prepare" else ()))


@pytest.mark.parametrize("build", SOURCES)
@pytest.mark.sampled(3)
def test_the_command_line_that_is_named_imports_the_source(
    build: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    monkeypatch.chdir(tmp_path)
    path = build(tmp_path)
    lines = set()
    for command in ("info", "lint", "stats", "preview", "prepare"):
        if command == "prepare" and build in (pictures_and_their_metadata, a_folder_of_hugging_face):
            continue  # their tables can be prepared, too
        done = call(command, path, energon)
        assert done.code, command
        lines.add(command_in(f"{done.out}\n{done.err}"))
    for opened in (random_access, lambda path: get_train_dataset(path, worker_config=WORKERS, **DEFAULTS)):
        with pytest.raises(EnergonError) as caught:
            opened(path)
        lines.add(command_in(str(caught.value)))
    commands = {tuple(words_of_shell(line)) for line in lines}
    # Some name the path as it was given, others in full.
    assert len({tuple(os.path.abspath(word) if word[:1] != "-" else word for word in words) for words in commands}) == 1
    program, *words = min(commands)
    assert program == "energon"
    done = energon(*words)
    assert done.code == 0, done.err
    output = next(word for word in words if word.endswith("-dataset"))
    assert energon("info", output, "--json").json["samples"] == SAMPLES.get(build, 1)
    assert command_in(call("info", path, energon).err) not in lines, "a new folder is named, as the first is taken"


@pytest.mark.parametrize(
    ("layout", "form"),
    [
        pytest.param(layout, form, id=f"{name}-{form}")
        for name, layout in LAYOUTS.items()
        for form in layout.forms
        if layout.error and not (layout.options or layout.kind) and form != "tar"
        # Other modules may have registered layouts before.
        if layout.build.__module__ in {module.__name__ for module in (documents, folders, public, tables)}
    ],
)
@pytest.mark.sampled(2)
def test_a_layout_that_import_refuses_is_imported_by_the_line_that_is_named(
    layout: Layout, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    path = packed(tmp_path / (layout.build(tmp_path / "data") or "data"), form).name
    done = energon("info", path)
    if done.code == 0:
        assert "to prepare: energon prepare data" in done.out, "it has tar shards"
        return
    refused = energon("import", path, "my out", "--yes")
    assert refused.code == 1
    assert "data-dataset" not in refused.err
    line = re.search(r"[Rr]un: (energon import [^;\n]*)", done.err)
    if line is None:
        assert re.search("with (its|the) library|[Uu]npack the archive|[Rr]epair it", done.err), (
            "no command line imports it"
        )
        return
    typed = re.sub(r"[^ ]*data-dataset", "'my out'", line[1])
    assert typed in refused.err, "the error of import names the same line with the typed destination"
    assert energon(*words_of_shell(typed)[1:]).code == 0
    assert energon("info", "my out").code == 0


def test_the_offer_of_prepare_names_each_kind_of_data(tmp_path: Path) -> None:
    path = tmp_path / "my data"
    write(path, {"photos/a.jpg": picture(), "photos/b.jpg": picture(), "prices.csv": "product,price\nx,7\ny,8\n"})
    with TerminalRun("prepare", path, columns=150) as run:
        run.wait_for("import prices.csv alone to ")
        run.wait_for("import the files alone to ")
        assert run.press(ENTER).finish() == 0
    assert "2 samples" in run.text
    assert main(["lint", str(tmp_path / "my data-dataset")]) == 0


@pytest.mark.parametrize("build", [pictures_and_their_metadata, a_folder_of_hugging_face])
def test_preparing_tables_alone_says_how_all_files_become_samples(
    build: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("prepare", build(tmp_path), energon)
    assert done.code == 0
    assert command_in(done.err).startswith("energon import ")


def test_a_folder_below_a_read_only_one_is_imported_to_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    (tmp_path / "here").mkdir()
    pictures(tmp_path / "disk")
    monkeypatch.chdir(tmp_path / "here")
    access, disk = os.access, str(tmp_path / "disk")
    monkeypatch.setattr(os, "access", lambda path, mode: path != disk and access(path, mode))  # root may write anywhere
    line = command_in(energon("info", tmp_path / "disk/my photos").err)
    assert shlex.split(line) == ["energon", "import", str(tmp_path / "disk/my photos"), "my photos-dataset", "--yes"]


def test_enter_at_the_offer_of_prepare_imports_the_folder(tmp_path: Path) -> None:
    path = tmp_path / pictures(tmp_path)
    with TerminalRun("prepare", path, columns=150) as run:
        run.wait_for("my photos holds files, and no shards. Make a dataset of them?")
        assert run.press(ENTER).finish() == 0
    assert "3 samples" in run.text
    assert (tmp_path / "my photos-dataset/.nv-meta/.info.json").exists()
    assert main(["lint", str(tmp_path / "my photos-dataset")]) == 0


def test_the_offer_of_prepare_can_be_refused_and_knows_tables(tmp_path: Path) -> None:
    path = tmp_path / pictures_and_their_metadata(tmp_path)
    with TerminalRun("prepare", path, columns=150) as run:
        run.wait_for("prepare the tables alone, as they are")
        assert run.press(DOWN, DOWN, DOWN, ENTER).finish() == 1
    assert "nothing was written" in run.text
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["own"]


def test_annotations_next_to_pictures_are_imported_with_them(tmp_path: Path, energon: RunEnergon) -> None:
    for part in ("train", "val"):
        name = f"{part}.jpg"
        document = {"images": [{"id": 1, "file_name": name, "width": 8, "height": 6}], "annotations": []}
        files = {f"images/{part}2017/{name}": picture(), f"annotations/instances_{part}2017.json": json.dumps(document)}
        write(tmp_path / "my coco", files)
    done = energon("import", tmp_path / "my coco", tmp_path / "out", "--yes")
    assert (done.code, "train 1, val 1" in done.out) == (0, True)
