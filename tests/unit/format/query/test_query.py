"""Queries choose the samples that a loop in Python chooses; conditions run no code."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loader.dataset.dataset import Dataset
from loader.dataset.opening import folder_at
from loader.dataset.query import Condition, SampleQuery, find_samples
from loader.dataset.split_parts import samples_of_part
from loader.dataset.tar import tar_index
from loader.errors import ConfigError
from loader.format.columns.column_files import write_column
from loader.format.filters.build import build_filter_index
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from tests.e2e.dataset_tree import RATIO, caption_samples, shard_path, write_shard
from tests.tables import write_lines

MODES = ("RGB", "L", "CMYK")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = tmp_path_factory.mktemp("query") / "ds"
    for number in range(4):
        samples = caption_samples(10 * number, 10)
        for key in [*samples][::3]:
            del samples[key]["txt"]
        write_shard(shard_path(path, number), samples)
    run_prepare(PreparePlan(path=str(path), split=RATIO))
    folder = folder_at(path)
    count, draw = len(folder.index), np.random.default_rng(1)

    def write(name: str, values: Any, **options: Any) -> None:
        write_column(folder.storage, folder.index, name, values, **options)

    write("width", draw.integers(0, 2000, count).astype("u2"))
    write("tokens", np.where(draw.random(count) < 0.2, -1, draw.integers(0, 5000, count)), missing=-1)
    write("score", np.where(draw.random(count) < 0.2, np.nan, draw.random(count)).astype("f4"))
    write("mode", draw.integers(-1, 3, count).astype("i1"), missing=-1, categories=MODES)
    write("good", draw.random(count) < 0.5)
    return folder_at(path)


def chosen(folder: Dataset, where: str | None = None, **options: Any) -> list[int]:
    return [int(number) for number in find_samples(folder, SampleQuery(where=where, **options))]


class Row(dict[str, Any]):
    """The values of a sample; None where one is missing."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def rows(folder: Dataset) -> list[Row]:
    from loader.format.columns.column_files import open_column

    columns = {
        name: open_column(folder.storage, folder.index, name) for name in ("width", "tokens", "score", "mode", "good")
    }
    return [
        Row(
            {name: column.value(number) for name, column in columns.items()},
            shard=folder.index.shard_of(number).name,
            bytes=sum(part.size_bytes for part in tar_index(folder).parts(number)),
            sizes={part.name: part.size_bytes for part in tar_index(folder).parts(number)},
        )
        for number in range(len(folder.index))
    ]


CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "width >= 512": lambda row: row.width >= 512,
    "width > 300 and width < 1000": lambda row: 300 < row.width < 1000,
    "300 < width < 1000": lambda row: 300 < row.width < 1000,
    "width > 70000": lambda row: False,
    "width - 1000 < 0": lambda row: row.width < 1000,
    "-width < -1000": lambda row: row.width > 1000,
    "width * 100 > 100000": lambda row: row.width > 1000,
    "width // 100 == 3": lambda row: row.width // 100 == 3,
    "width % 2 == 1": lambda row: row.width % 2 == 1,
    "ceil(width / 28) * 28 > 500": lambda row: math.ceil(row.width / 28) * 28 > 500,
    "floor(sqrt(width)) == round(sqrt(width))": lambda row: math.floor(row.width**0.5) == round(row.width**0.5),
    "min(width, 500, tokens) < 400": lambda row: row.tokens is not None and min(row.width, 500, row.tokens) < 400,
    "max(2, width % 7) == 2": lambda row: row.width % 7 <= 2,
    "sqrt(width - 100000) >= 0": lambda row: False,
    "1 / (width - width) > 0": lambda row: False,
    "tokens > 2048": lambda row: row.tokens is not None and row.tokens > 2048,
    "not tokens > 2048": lambda row: row.tokens is not None and row.tokens <= 2048,
    "tokens > 2048 or width > 1000": lambda row: (row.tokens or 0) > 2048 or row.width > 1000,
    "not (tokens > 2048 and width > 1000)": lambda row: (
        row.width <= 1000 or (row.tokens is not None and row.tokens <= 2048)
    ),
    "not (tokens > 2048 or width > 1000)": lambda row: (
        row.tokens is not None and row.tokens <= 2048 and row.width <= 1000
    ),
    "known(tokens)": lambda row: row.tokens is not None,
    "not known(tokens)": lambda row: row.tokens is None,
    "score < 0.5": lambda row: row.score is not None and row.score < 0.5,
    "mode == 'RGB'": lambda row: row.mode == "RGB",
    "mode != 'RGB'": lambda row: row.mode not in ("RGB", None),
    "mode in ['L', 'CMYK', 'P']": lambda row: row.mode in ("L", "CMYK"),
    "mode not in ('L', 'CMYK')": lambda row: row.mode == "RGB",
    "'L' < mode": lambda row: row.mode is not None and row.mode > "L",
    "mode == mode": lambda row: row.mode is not None,
    "good": lambda row: row.good,
    "not good": lambda row: not row.good,
    "good == True": lambda row: row.good,
    "width in [1, 2, 3] or True": lambda row: True,
    "False": lambda row: False,
    "shard == 'shard_001.tar'": lambda row: row.shard == "shard_001.tar",
    "shard >= 'shard_002'": lambda row: row.shard >= "shard_002",
    "bytes > 400": lambda row: row.bytes > 400,
    "has('txt')": lambda row: "txt" in row.sizes,
    "not has('txt') and good": lambda row: "txt" not in row.sizes and row.good,
    "size('txt') > 6": lambda row: row.sizes.get("txt", 0) > 6,
    "size('txt') + size('json') == bytes": lambda row: "txt" in row.sizes,
}


@pytest.mark.parametrize("where", CONDITIONS)
def test_a_condition_chooses_what_a_loop_chooses(folder: Dataset, where: str) -> None:
    expected = [number for number, row in enumerate(rows(folder)) if CONDITIONS[where](row)]
    assert chosen(folder, where) == expected


@pytest.mark.parametrize("seed", range(30))
def test_truth_of_unknown_values_is_that_of_sql(folder: Dataset, seed: int) -> None:
    """Compare random conditions with SQLite's answers."""
    import sqlite3

    draw = random.Random(seed)

    def condition(depth: int) -> str:
        if depth == 0:
            column, limit = draw.choice([("width", 1000), ("tokens", 2500), ("score", 0.5)])
            return f"{column} {draw.choice(['<', '<=', '>', '>=', '==', '!='])} {limit}"
        kind = draw.choice(["and", "or", "not"])
        if kind == "not":
            return f"not ({condition(depth - 1)})"
        return f"({condition(depth - 1)}) {kind} ({condition(draw.randrange(depth))})"

    text = condition(4)
    with closing(sqlite3.connect(":memory:")) as tables:
        tables.execute("create table s (number integer, width real, tokens real, score real)")
        for number, row in enumerate(rows(folder)):
            tables.execute("insert into s values (?, ?, ?, ?)", (number, row.width, row.tokens, row.score))
        expected = [number for (number,) in tables.execute(f"select number from s where {text} order by number")]
    assert chosen(folder, text) == expected


def test_criteria_are_joined(folder: Dataset) -> None:
    train = [number for part in samples_of_part(folder, "train") for number in part]
    assert chosen(folder, split_parts=["train"]) == sorted(train)
    keys = [folder.index.full_key(3), folder.index.full_key(1), folder.index.key(39)]
    assert chosen(folder, keys=keys) == [1, 3, 39]
    build_filter_index(folder.path, "some", range(0, 40, 2))
    assert chosen(folder, filter="some") == [*range(0, 40, 2)]
    wide = chosen(folder, "width > 1000")
    assert chosen(folder, "width > 1000", filter="some", split_parts=["train"]) == [
        number for number in wide if number % 2 == 0 and number in train
    ]


def test_excluded_samples_can_be_left_out(tmp_path: Path) -> None:
    write_shard(shard_path(tmp_path, 0), caption_samples(0, 10))
    run_prepare(PreparePlan(path=str(tmp_path), split=RATIO))
    split = tmp_path / ".nv-meta/split.yaml"
    split.write_text(split.read_text().replace("exclude: []", "exclude: [shard_000.tar/00003]"))
    folder = folder_at(tmp_path)
    assert chosen(folder) == [*range(10)]
    assert chosen(folder, excluded=False) == [number for number in range(10) if number != 3]


def test_records_have_columns_but_no_parts(tmp_path: Path) -> None:
    for number in range(2):
        write_lines(tmp_path / f"part_{number}.jsonl", [*range(5)])
    run_prepare(PreparePlan(path=str(tmp_path), split=RATIO))
    folder = folder_at(tmp_path)
    write_column(folder.storage, folder.index, "x", np.arange(10))
    assert chosen(folder, "x >= 7 or shard == 'part_0.jsonl'") == [0, 1, 2, 3, 4, 7, 8, 9]
    with pytest.raises(ConfigError, match="the sizes of parts are known of tar shards only"):
        chosen(folder, "bytes > 3")


REFUSED = {
    "": "invalid condition",
    "width >": "invalid syntax",
    "__import__('os').system('touch /tmp/x')": "is not allowed",
    "width.__class__": "there is no column 'width.__class__'",
    "[x for x in width]": "is not allowed",
    "width[0]": "there is no column 'width[0]'",
    "lambda: 1": "is not allowed",
    "f'{width}'": "is not allowed",
    "2 ** 99999999": "is not allowed",
    "width := 3": "invalid",
    "size(width)": "is not allowed",
    "known(1)": "is not allowed",
    "len(mode) > 3": "is not allowed",
    "ceil(width, 2) > 3": "ceil takes one value",
    "max(width) > 3": "max takes two values or more",
    "sqrt(mode) > 3": "texts are compared, not calculated with",
    "width is None": "'is' is not allowed",
    "None": "is not allowed",
    "width in mode": "expected a list after 'in'",
    "'a' * 99999999 == mode": "texts are compared",
    "mode": "expected a comparison",
    "mode > 3": "one is a text, the other a number",
    "widht > 3": "there is no column 'widht'; did you mean 'width'",
    "size('jgp') > 3": "there is no part 'jgp'",
    "1 / 0 > width": "division by zero",
    "(" * 5000 + "width" + ")" * 5000: "invalid condition",
    "not " * 2000 + "width": "invalid condition",
    "width > 1 and " * 2000 + "width": "characters",
}


@pytest.mark.parametrize("where", REFUSED)
def test_other_conditions_are_refused_with_the_reason(folder: Dataset, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen(folder, where)
    assert REFUSED[where] in str(caught.value)


def test_unknown_names_are_listed(folder: Dataset) -> None:
    with pytest.raises(ConfigError, match="there is no sample 'a', 'b'"):
        chosen(folder, keys=["a", "b"])
    with pytest.raises(ConfigError, match="there is no split part 'trian'"):
        chosen(folder, split_parts=["trian"])
    with pytest.raises(ConfigError, match="there is no filter 'x'"):
        chosen(folder, filter="x")


def test_a_condition_knows_its_columns() -> None:
    assert Condition("a > 3 and not known(b) or size('jpg') > c").columns == ("a", "b", "c")


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("shard_1.tar/00102", "shard_1.tar/000102"),
        ("shard_1.tr/000102", "shard_1.tar/000102"),
        ("00102", "000102"),
        ("102", "000102"),
        ("shard_1.tar/", None),
        ("no such shard/000102", None),
        ("\udcff/x", None),
        ("", None),
    ],
)
def test_an_unknown_key_is_answered_by_the_nearest_one(tmp_path: Path, key: str, nearest: str | None) -> None:
    for shard in range(3):
        keys = (f"{100 * shard + number:06d}" for number in range(100))
        write_shard(tmp_path / f"shard_{shard}.tar", {key: {"txt": b"x"} for key in keys})
    run_prepare(PreparePlan(path=str(tmp_path), split=RATIO))
    with pytest.raises(ConfigError) as caught:
        find_samples(folder_at(tmp_path), SampleQuery(keys=[key]))
    assert caught.value.message == f"there is no sample {key!r}" + (f"; did you mean {nearest!r}?" if nearest else "")
