"""Damaged files of columns of vectors, texts and masks: each is one error that names the column, and one finding."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery, find_samples
from loader.errors import FormatError
from loader.format.columns.column import Column
from loader.format.columns.column_files import open_column, write_map_column
from loader.format.dataset_ref import DatasetRef
from loader.inspect.facts import dataset_facts
from loader.lint.report import LintPlan
from loader.lint.run import lint_dataset
from tests.e2e.dataset_tree import RATIO, prepare, shard_path, write_shards

LENGTH = 4


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_shards(tmp_path_factory.mktemp("columns") / "ds", 3)
    prepare(folder, split=RATIO)
    opened = folder_at(folder)
    count = len(opened.index)
    known = np.arange(count) % 3 > 0
    vectors = np.arange(count * LENGTH, dtype=np.float16).reshape(count, LENGTH)
    vectors[~known] = np.nan
    write_map_column(
        opened.storage, opened.index, "clip", np.dtype("f2"), [(vectors, known)], length=LENGTH, metric="cosine"
    )
    texts = [f"text é {sample}" if known[sample] else "" for sample in range(count)]
    write_map_column(opened.storage, opened.index, "caption", None, [(texts, known)])
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "ds"))


def file_of(folder: Path, name: str) -> Path:
    return folder / ".nv-meta/columns" / name


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"abc")


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def save_as(change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        np.save(path, change(np.load(path)))

    damage.__name__ = "save_as"
    return damage


def set_record(**changes: object) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


DAMAGE: list[tuple[str, Callable[[Path], None], str]] = [
    ("clip.npy", cut, "bytes for"),
    ("clip.npy", lengthen, "bytes for"),
    ("clip.npy", remove, "clip.npy"),
    ("clip.npy", empty, "cannot map"),
    ("clip.npy", save_as(lambda rows: rows[:, :3]), r"vectors of 4 numbers, found the shape \(\d+, 3\)"),
    ("clip.npy", save_as(lambda rows: rows[:, 0]), r"vectors of 4 numbers, found the shape \(\d+,\)"),
    ("clip.npy", save_as(lambda rows: rows[:-1]), r"expected \d+ values, found \d+"),
    ("clip.npy", save_as(lambda rows: rows.astype("f8")), "expected vectors of float16, float32, uint8, uint32"),
    ("clip.npy", save_as(np.asfortranarray), "expected a column of numbers"),
    ("clip.npy", save_as(lambda rows: rows[:, :, None]), "expected a column of numbers"),
    ("clip.valid.npy", remove, "clip.valid.npy"),
    ("clip.valid.npy", cut, r"bytes for .*clip.valid.npy"),
    ("clip.valid.npy", empty, "clip.valid.npy"),
    ("clip.valid.npy", save_as(lambda known: known[:-1]), r"expected \d+ values, found \d+"),
    ("clip.valid.npy", save_as(lambda known: known.astype("i1")), "expected booleans as its mask, found int8"),
    ("clip.valid.npy", save_as(lambda known: known[:, None]), "found the shape"),
    ("clip.json", set_record(length=5), "vectors of 5 numbers"),
    ("clip.json", set_record(length=0), "expected a column of numbers, found the shape"),
    ("clip.json", set_record(length=-1), "vectors of -1 numbers"),
    ("clip.json", set_record(has_texts=True), "clip.utf8"),
    ("clip.json", set_record(samples=3), "other shards"),
    ("caption.utf8", cut, "bytes of texts"),
    ("caption.utf8", lengthen, "bytes of texts"),
    ("caption.utf8", remove, "caption.utf8"),
    ("caption.utf8", empty, "bytes of texts, found 0"),
    ("caption.npy", save_as(lambda ends: ends[:-1]), r"expected \d+ values"),
    ("caption.npy", save_as(lambda ends: ends - ends[-1] - 1), "bytes of texts"),
    ("caption.npy", save_as(lambda ends: ends.astype("f8")), "ends of texts as int64, found float64"),
    ("caption.npy", save_as(lambda ends: ends.astype("u4")), "ends of texts as int64, found uint32"),
    ("caption.json", set_record(categories=["a"]), "ends of texts"),
    ("caption.json", set_record(length=2), "vectors of 2 numbers"),
    ("clip.json", set_record(categories=["a"]), "positions in the list of texts, found float16"),
]
"""Files, how they are damaged, and what the error says when the column is opened."""


def reorder(ends: npt.NDArray[Any]) -> npt.NDArray[Any]:
    changed = ends.copy()
    changed[3:6] = [1 << 40, 0, -(1 << 40)]
    return changed


def break_text(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")


DEEP: list[tuple[str, Callable[[Path], None], str]] = [
    ("caption.npy", save_as(reorder), "the ends of its texts do not ascend"),
    ("caption.utf8", break_text, r"the text of sample \d+ is not UTF-8"),
    ("clip.valid.npy", save_as(lambda known: (known.view(np.uint8) * 7).view(np.bool_)), "other bytes than 0 and 1"),
]
"""Damage that opening a column does not find, since it reads no values."""


def column_of(folder: Path, name: str) -> Column:
    opened = folder_at(folder)
    return open_column(opened.storage, opened.index, name)


def lint_codes(folder: Path) -> list[tuple[str, str]]:
    report = lint_dataset(LintPlan(ref=DatasetRef(str(folder)), level="headers"))
    return [(finding.code, finding.message) for finding in report.findings if finding.code != "W004"]


def test_whole_columns_have_no_finding(folder: Path) -> None:
    assert lint_codes(folder) == []
    for name in ("clip", "caption"):
        column_of(folder, name).check()


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGE)
def test_damage_is_one_error_and_one_finding(
    folder: Path, name: str, damage: Callable[[Path], None], message: str
) -> None:
    damage(file_of(folder, name))
    column = name.partition(".")[0]
    with pytest.raises(FormatError, match=message) as caught:
        column_of(folder, column)
    assert f"column {column!r} is damaged or stale" in str(caught.value)
    [(code, text)] = lint_codes(folder)
    assert (code, f"column {column!r}" in text) == ("E011", True)
    faults = {entry["name"]: entry["fault"] for entry in dataset_facts(folder_at(folder))["sample_columns"]}
    assert [name for name, fault in faults.items() if fault] == [column]
    with pytest.raises(FormatError, match=f"column {column!r} is damaged or stale"):
        find_samples(folder_at(folder), SampleQuery(where=f"known({column})"))


@pytest.mark.parametrize(("name", "damage", "message"), DEEP)
def test_damaged_values_are_found_by_lint(
    folder: Path, name: str, damage: Callable[[Path], None], message: str
) -> None:
    damage(file_of(folder, name))
    column = column_of(folder, name.partition(".")[0])
    with pytest.raises(FormatError, match=message):
        column.check()
    [(code, _)] = lint_codes(folder)
    assert code == "E011"


def test_texts_with_wrong_ends_are_not_read(folder: Path) -> None:
    save_as(reorder)(file_of(folder, "caption.npy"))
    with pytest.raises(FormatError, match="column 'caption' is damaged or stale: the ends of its texts"):
        column_of(folder, "caption").array(np.arange(8))


def test_a_mask_of_other_bytes_marks_samples_with_a_value(folder: Path) -> None:
    before = column_of(folder, "clip")
    expected = before.is_known().tolist()
    save_as(lambda known: (known.view(np.uint8) * 7).view(np.bool_))(file_of(folder, "clip.valid.npy"))
    column = column_of(folder, "clip")
    assert column.is_known().tolist() == expected
    assert column.count_missing() == before.count_missing() == expected.count(False)


@pytest.mark.parametrize(("name", "damage"), [(name, damage) for name, damage, _ in [*DAMAGE, *DEEP[:1]]])
def test_a_damaged_column_is_dropped_with_all_its_files(
    folder: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damage(file_of(folder, name))
    column = name.partition(".")[0]
    shard_path(folder, 1).unlink()
    report = prepare(folder, split=RATIO)
    [warning] = [text for text in report.warnings if "was dropped" in text]
    assert warning.startswith(f"column {column!r} was dropped")
    assert {path.name.partition(".")[0] for path in (folder / ".nv-meta/columns").iterdir()} == {"clip", "caption"} - {
        column
    }
