"""In random trees, the references that were planted are found, or the import asks: it is never wrong in silence."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import Phase, given, settings, strategies as st

from loader.errors import ConfigError
from tests.layouts.answers import outcome_of
from tests.layouts.layout import EVERY_FORM, Form, Layout, contents_of, packed, table, tar_of, write

NameForm = Literal["path", "path without extension", "end of a path", "base name", "stem", "number"]
Container = Literal["csv", "tsv", "parquet", "jsonl", "list", "list in an object", "nested", "objects by key", "lines"]

_NAMES = ("alpha", "b2", "photos", "day_1", "kept", "x", "Set A")
_WORDS = ("fox", "q7r", "elm_2", "North", "ka-la", "zz9", "uno", "dune", "m_m", "o4", "tin", "wax")
_PLACES = ("image", "file", "filename", "path", "id", "name", "key", "item", "ref")
_TEXTS = ("caption", "text", "sentence", "said", "transcript")


@dataclass(frozen=True, slots=True)
class Planted:
    """A tree whose files are described by texts.

    Attributes:
        files: Paths of pictures, sounds or videos; the text of file 7 is "planted 7.".
        form: How its files are named.
        columns: Further columns, each with a value for each file.
        place: Name of the column of names.
        order: Numbers of the columns in the order of the table: the names, the texts, the others.
        tables: The rows are in so many tables.
        folder: Folder of the tables.
        tars: The files are the members of so many tars; 0 for none.
    """

    files: tuple[str, ...]
    form: NameForm
    container: Container
    columns: Mapping[str, list[Any]]
    place: str
    text: str
    order: tuple[int, ...]
    rows: tuple[int, ...]
    tables: int
    folder: str
    tars: int
    has_card: bool


@st.composite
def planted_trees(draw: st.DrawFn) -> Planted:
    """Draw a tree with references of one form."""
    tars = draw(st.sampled_from((0, 0, 0, 0, 1, 2)))
    count = draw(st.integers(4, 9))
    stems, forms = draw(_stems(count))
    files = draw(_paths(stems, is_flat=bool(tars)))
    if len({path.rpartition("/")[2] for path in files}) < count:
        forms = ("path", "path without extension", "end of a path")  # equal names in two folders
    form = draw(st.sampled_from(forms))
    containers: tuple[Container, ...] = ("csv", "tsv", "jsonl", "list")
    containers += () if tars else ("parquet", "list in an object", "nested", "objects by key", "lines")
    columns = draw(_distractors(count))
    return Planted(
        files=files,
        form=form,
        container=draw(st.sampled_from(containers)),
        columns=columns,
        place=draw(st.sampled_from(_PLACES)),
        text=draw(st.sampled_from(_TEXTS)),
        order=tuple(draw(st.permutations(range(2 + len(columns))))),
        rows=tuple(draw(st.permutations(range(count)))),
        tables=tars or draw(st.sampled_from((1, 1, 2))),
        folder="" if tars else draw(st.sampled_from(("", "", "meta", "lists/of it"))),
        tars=tars,
        has_card=draw(st.booleans()),
    )


@st.composite
def _stems(draw: st.DrawFn, count: int) -> tuple[list[str], tuple[NameForm, ...]]:
    """Draw stems of files, and the forms that can name them."""
    forms: tuple[NameForm, ...] = ("path", "path without extension", "end of a path", "base name", "stem")
    kind = draw(st.sampled_from(("words", "camera", "zeros", "numbers")))
    if kind == "words":
        return draw(st.permutations(_WORDS))[:count], forms
    start = draw(st.sampled_from((1, 1, 7, 120)))
    steps = draw(st.sampled_from((1, 1, 3)))
    numbers = range(start, start + count * steps, steps)
    pattern = {"camera": "IMG_{:04d}", "zeros": "{:06d}", "numbers": "{}"}[kind]
    return [pattern.format(number) for number in numbers], forms if kind == "camera" else (*forms, "number")


@st.composite
def _paths(draw: st.DrawFn, stems: list[str], *, is_flat: bool) -> tuple[str, ...]:
    """Draw folders for files; two of them may have files of the same names."""
    extension = draw(st.sampled_from(("jpg", "png", "wav", "mp3", "mp4")))
    if is_flat:
        return tuple(f"{stem}.{extension}" for stem in stems)
    some = st.lists(st.sampled_from(_NAMES), max_size=3, unique=True).map("/".join)
    folders = draw(st.lists(some, min_size=1, max_size=3, unique=True))
    has_equal = len(folders) > 1 and draw(st.booleans())
    inner = [folders[at % len(folders)] for at in range(len(stems))]
    names = [stems[at // len(folders)] for at in range(len(stems))] if has_equal else stems
    return tuple(f"{folder}/{name}.{extension}".removeprefix("/") for folder, name in zip(inner, names, strict=True))


@st.composite
def _distractors(draw: st.DrawFn, count: int) -> dict[str, list[Any]]:
    """Draw columns that name nothing."""
    numbers = draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
    columns: dict[str, list[Any]] = {
        "score": [number / 4 + 0.1 for number in numbers],
        "votes": numbers,
        "note": [f"other words {number}" for number in numbers],
        "source": [f"https://example.org/page/{number}?v=1" for number in numbers],
        "licence": ["CC BY"] * count,
        "row": [*range(1, count + 1)],
        "index": [*range(count)],
        "label": [number % 3 for number in numbers],
    }
    chosen = draw(st.lists(st.sampled_from([*columns]), max_size=4, unique=True))
    return {name: columns[name] for name in chosen}


def build(folder: Path, tree: Planted) -> None:
    """Write the files of a tree."""
    contents = {path: contents_of(path) + b"<<%d>>" % number for number, path in enumerate(tree.files)}
    if tree.tars:
        for tar in range(tree.tars):
            write(folder, {f"part_{tar}.tar": tar_of(dict([*contents.items()][tar :: tree.tars]))})
    else:
        write(folder, contents)
    rows = defaultdict(list)
    for position, number in enumerate(tree.rows):
        # The rows of a tar have a table of their own.
        rows[(number if tree.tars else position) % tree.tables].append((position, number))
    for at, of_table in rows.items():
        records = [_record(tree, position, number) for position, number in of_table]
        extension, data = _ENCODE[tree.container](tree, records)
        write(folder, {f"{tree.folder}/about_{at}.{extension}".removeprefix("/"): data})
    if tree.has_card:
        write(folder, {"README.md": "# A set of files\n\nThe texts say what is on them.\n"})


def _record(tree: Planted, position: int, number: int) -> dict[str, Any]:
    name = _NAME[tree.form](tree.files[number])
    is_number = tree.form == "number" and tree.container not in ("lines", "objects by key")
    fields = [(tree.place, int(name) if is_number else name), (tree.text, f"planted {number}.")]
    fields += [(column, values[position]) for column, values in tree.columns.items()]
    return dict(fields[at] for at in tree.order)


def _without_extension(path: str) -> str:
    return path.rpartition(".")[0]


def _stem(path: str) -> str:
    return _without_extension(path.rpartition("/")[2])


_NAME: Mapping[NameForm, Callable[[str], str]] = {
    "path": str,
    "path without extension": _without_extension,
    "end of a path": lambda path: f"/mnt/corpus/v1/{path}",
    "base name": lambda path: path.rpartition("/")[2],
    "stem": _stem,
    "number": lambda path: _stem(path).lstrip("0"),
}


def _delimited(delimiter: str, records: list[dict[str, Any]]) -> str:
    data = io.StringIO()
    rows = csv.DictWriter(data, [*records[0]], delimiter=delimiter, lineterminator="\n")
    rows.writeheader()
    rows.writerows(records)
    return data.getvalue()


def _nested(tree: Planted, record: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in record.items() if name != tree.place}
    return {"data": {tree.place: record[tree.place]}, "result": [{"value": rest}]}


def _by_key(tree: Planted, records: list[dict[str, Any]]) -> dict[str, Any]:
    return {record.pop(tree.place): record for record in records}


_ENCODE: Mapping[Container, Callable[[Planted, list[dict[str, Any]]], tuple[str, bytes | str]]] = {
    "csv": lambda tree, records: ("csv", _delimited(",", records)),
    "tsv": lambda tree, records: ("tsv", _delimited("\t", records)),
    "parquet": lambda tree, records: ("parquet", table({name: [r[name] for r in records] for name in records[0]})),
    "jsonl": lambda tree, records: ("jsonl", "".join(f"{json.dumps(record)}\n" for record in records)),
    "list": lambda tree, records: ("json", json.dumps(records)),
    "list in an object": lambda tree, records: ("json", json.dumps({"info": {"year": 2024}, "records": records})),
    "nested": lambda tree, records: ("json", json.dumps([_nested(tree, record) for record in records], indent=1)),
    "objects by key": lambda tree, records: ("json", json.dumps(_by_key(tree, records))),
    "lines": lambda tree, records: ("txt", "".join(f"{r[tree.place]} {r[tree.text]}\n" for r in records)),
}


def joined(source: Path, output: Path) -> dict[str, list[str]] | str:
    """Import a tree; return the numbers of each file's texts, by the file's number; or why it is not imported."""
    try:
        outcome = outcome_of(Layout(build=lambda _: None), source, output)
    except ConfigError as error:
        if type(error).__name__ != "UnclearDataError":
            raise
        return "asked"
    # Below 100 samples, one may fail.
    if sum(entry.count for entry in outcome.account.failed if entry.unit == "rows") > 1:
        return "failed"
    texts: dict[str, list[str]] = {}
    for key in outcome.samples:
        parts = "\n".join(text for name, text in outcome.texts.items() if name.startswith(f"{key}."))
        for number in re.findall(r"<<(\d+)>>", parts) or [key]:
            texts.setdefault(number, []).extend(re.findall(r"planted (\d+)\.", parts))
    return texts


def check(tree: Planted, memory: Path, forms: tuple[Form, ...], outcomes: Counter[str]) -> None:
    folder = memory / "data"
    folder.mkdir()
    try:
        build(folder, tree)
        results = {
            form: joined(packed(folder, form), memory / f"out_{form}")
            for form in forms
            if not (tree.tars and form == "tar")
        }
    finally:
        for path in memory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    expected = {f"{number}": [f"{number}"] for number in range(len(tree.files))}
    for form, result in results.items():
        assert isinstance(result, str) or result == expected, form
    reasons = {result if isinstance(result, str) else "joined" for result in results.values()}
    assert len(reasons) == 1, "another decision in another form"
    outcomes[reasons.pop()] += 1


def _check_many(examples: int, memory: Path) -> Counter[str]:
    outcomes: Counter[str] = Counter()

    @settings(max_examples=examples, phases=(Phase.generate,))  # shrinking takes minutes
    @given(planted_trees(), st.sampled_from(EVERY_FORM[1:]))
    def check_one(tree: Planted, other: Form) -> None:
        check(tree, memory, ("folder", other), outcomes)

    check_one()
    return outcomes


def test_planted_references_are_found_or_the_import_asks(fast_disk: Path) -> None:
    outcomes = _check_many(40, fast_disk)
    assert outcomes["joined"] > outcomes["asked"] + outcomes["failed"]


@pytest.mark.slow
def test_planted_references_of_many_trees_are_found_or_the_import_asks(fast_disk: Path) -> None:
    outcomes = _check_many(600, fast_disk)
    assert outcomes["joined"] > 4 * (outcomes["asked"] + outcomes["failed"])
