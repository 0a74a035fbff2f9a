"""Samples that are views of one thing are known by evidence in the tree, the same in each form of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import pytest

from loader.convert.importing import list_rows
from loader.convert.rows import ShardLayout
from loader.convert.rows.shard_layout import order_rows
from loader.convert.sources import SourceOptions, open_sources
from tests.layouts.layout import Build, Form, packed, picture, write

CLIPS = [f"clip_{n}" for n in range(7)]
ROLES = [f"scene_{n}/rgb" for n in range(6)]
WORDS = ["bear", "bus", "camel", "dog", "goat", "swan"]


def frames(
    names: Sequence[str],
    *,
    size: Callable[[int, int], tuple[int, int]] = lambda _folder, _number: (8, 6),
    goes_on: bool = False,
    has_texts: bool = True,
) -> Build:
    """Return a function that writes folders of five numbered pictures."""

    def build(folder: Path) -> None:
        # The last file is written first: the order of a listing decides nothing.
        for at, name in reversed([*enumerate(names)]):
            for number in range(5):
                stem = f"{name}/{number + 5 * at * goes_on:04d}"
                write(folder, {f"{stem}.jpg": picture("JPEG", size(at, number))})
                if has_texts:
                    write(folder, {f"{stem}.txt": stem})

    return build


def a_clip_and_pictures_above(folder: Path) -> None:
    """Write a folder of numbered pictures next to numbered pictures of another size."""
    frames(["clip"], has_texts=False)(folder)
    write(folder, {f"{number:04d}.jpg": picture("JPEG", (16, 12)) for number in range(5)})


def described(document: Callable[[list[dict[str, object]]], object]) -> Build:
    """Return a function that writes folders of pictures, each with a document that names them."""

    def build(folder: Path) -> None:
        for at, name in enumerate("abcd"):
            pictures = [f"{word}{at}.png" for word in WORDS]
            elements: list[dict[str, object]] = [{"file": file, "turn": turn} for turn, file in enumerate(pictures)]
            write(folder, [f"{name}/{file}" for file in pictures])
            write(folder, {f"{name}/views.json": json.dumps(document(elements))})

    return build


@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize(
    ("build", "things"),
    [
        pytest.param(frames(CLIPS), CLIPS, id="numbered folders"),
        pytest.param(frames(ROLES), ROLES, id="folders of parts in numbered folders"),
        pytest.param(frames(WORDS, size=lambda folder, _: (8 + folder, 6)), WORDS, id="one size in each folder"),
        pytest.param(frames(WORDS, has_texts=False), [""], id="classes"),
        pytest.param(frames(WORDS), [""], id="words and one size"),
        pytest.param(frames(CLIPS, size=lambda _, number: (8 + number, 6)), [""], id="many sizes in each folder"),
        pytest.param(frames(CLIPS, goes_on=True), [""], id="pieces of a large folder"),
        pytest.param(frames(["frames"]), [""], id="a single folder"),
        pytest.param(a_clip_and_pictures_above, ["", "clip"], id="a clip, and pictures above it"),
        pytest.param(described(lambda views: {"focal": 1.5, "views": views}), [*"abcd"], id="scenes of views"),
        pytest.param(described(lambda rows: rows), [""], id="lists of pictures"),
    ],
)
def test_views_of_things_are_known_by_evidence(build: Build, things: list[str], form: Form, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    build(tmp_path / "data")
    sources = open_sources([str(packed(tmp_path / "data", form))], kind=None, options=SourceOptions())
    with list_rows(sources, shuffled=False) as listed:
        rows, layout = listed.rows, ShardLayout(split_ratio=dict.fromkeys(("train", "val", "test"), 1))
        order, parts = order_rows(rows.splits, rows.split_names, layout, rows.groups)
        assert sorted({rows[row].thing for row in range(len(rows))}) == sorted(things)
    # Each part has samples, and no thing is in two of them.
    of_parts = [{rows.groups[row] for row in order[start:stop].tolist()} for _, start, stop in parts]
    assert all(of_parts)
    assert len(set().union(*of_parts)) == sum(map(len, of_parts))


def test_rows_of_one_file_are_a_group_in_all_sources_and_splits_that_divide_them_are_told(tmp_path: Path) -> None:
    write(tmp_path, [f"{n}.jpg" for n in range(4)])
    first = "".join(f"{n}.jpg,caption {n},train\n" for n in range(4))
    write(
        tmp_path, {"first.csv": f"image,caption,split\n{first}", "second.csv": "image,caption,split\n2.jpg,more,val\n"}
    )
    paths = [str(tmp_path / name) for name in ("first.csv", "second.csv")]
    with list_rows(open_sources(paths, kind=None, options=SourceOptions()), shuffled=False) as listed:
        assert listed.rows.groups.tolist() == [0, 1, 2, 3, 2]
        (note,) = listed.notes_on_split(ShardLayout())
        assert note.startswith("the source has 1 file in several split parts")
        (note,) = listed.notes_on_split(ShardLayout(split_ratio={"train": 4, "val": 1}))
        assert "2 samples of 1 thing, the largest with 2; train 80.0%, val 20.0%" in note
