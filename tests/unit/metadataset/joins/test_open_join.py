"""Rows of a join are opened only while their datasets are unchanged."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loader.errors import ConfigError, StorageError
from loader.metadataset.joins.files import open_join
from loader.metadataset.joins.prepare_join import prepare_join
from tests.unit.metadataset.joined_data import JoinedData, filling, skipping

PARTS = {"train": ["s0", "s1"], "val": ["s2"]}


@pytest.fixture
def data(tmp_path: Path) -> JoinedData:
    data = JoinedData(tmp_path)
    data.add_dataset("p", {"s0": ["a", "b"], "s1": ["c"], "s2": ["d"]}, parts=PARTS)
    data.add_dataset("q", {"s0": ["b", "a"], "s1": ["c"], "s2": ["d"]}, parts=PARTS)
    return data


def test_rows_are_mapped_read_only(data: JoinedData) -> None:
    plan = data.plan("p", "q")
    report = prepare_join(plan)
    rows = open_join(plan)
    assert rows.tolist() == [[0, 1], [1, 0], [2, 2]]
    assert (rows.dtype, rows.flags.writeable) == (np.dtype(np.int64), False)
    assert np.load(data.folder / f"meta.yaml.joins/{report.name}.npy", mmap_mode="r").tolist() == rows.tolist()


def test_a_join_that_is_not_prepared_raises_with_the_command(data: JoinedData) -> None:
    with pytest.raises(ConfigError) as caught:
        open_join(data.plan("p", "q"))
    path = data.folder / "meta.yaml"
    assert caught.value.message == "this join is not prepared"
    assert (caught.value.at, caught.value.hint) == (f"{path}: splits.train", f"run: energon prepare {path}")


def stale(data: JoinedData, *members: dict[str, str] | str) -> str:
    with pytest.raises(ConfigError) as caught:
        open_join(data.plan(*(members or ("p", "q"))))
    assert caught.value.hint == f"run: energon prepare {data.folder / 'meta.yaml'}"
    return caught.value.message.removeprefix("the prepared rows of this join are stale: ").replace(
        f"{data.folder}/", ""
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data.prepare("q"), "member q was prepared again"),
        (lambda data: data.prepare("p"), "member p was prepared again"),
        (
            lambda data: data.set_split("q", {"train": ["s1", "s0", "s2"]}),
            "the split of member q has changed",
        ),
        (
            lambda data: data.set_split("p", {"train": ["s1", "s0"], "val": ["s2"]}),
            "the split of member p has changed",
        ),
        (
            lambda data: data.set_split("p", PARTS, exclude=["s0.tar/a"]),
            "the exclusions in the split of member p have changed",
        ),
        (
            lambda data: data.set_split("q", PARTS, exclude=["s1.tar"]),
            "the exclusions in the split of member q have changed",
        ),
    ],
    ids=["member again", "primary again", "split", "order of the split", "exclude a sample", "exclude a shard"],
)
def test_changes_of_datasets_are_named(data: JoinedData, change: Callable[[JoinedData], None], found: str) -> None:
    plan = data.plan("p", filling("q"))
    prepare_join(plan)
    prepare_join(data.plan({"path": "p", "split_part": "val"}, filling("q")))  # of another split of the metadataset
    change(data)
    assert stale(data, "p", filling("q")) == found
    prepare_join(plan)
    assert len(open_join(plan)) >= 1


def test_changes_of_the_metadataset_are_named(data: JoinedData) -> None:
    data.set_split("q", PARTS, file="other.yaml")
    prepare_join(data.plan("p", skipping("q")))
    assert stale(data, "p", "q") == "nonmatch of member q is error now, not skip"
    assert stale(data, "p", filling("q")) == "nonmatch of member q is none now, not skip"
    other = {**skipping("q"), "split_config": "other.yaml"}
    assert stale(data, "p", other) == "the split of member q is other.yaml now, not split.yaml"
    part = {**skipping("q"), "split_part": "val"}
    assert stale(data, "p", part) == "the split part of member q is 'val' now, not 'train'"
    different = "this join is not prepared; the prepared ones have other datasets, or the same in another order"
    assert stale(data, "q", "p") == different
    assert stale(data, "p", skipping("q"), "q") == different


def test_changes_elsewhere_in_a_split_do_not_matter(data: JoinedData) -> None:
    plan = data.plan("p", "q")
    prepare_join(plan)
    data.set_split("q", {"train": ["s0", "s1"], "test": ["s2"]}, exclude=["s2.tar", "gone.tar/x"])
    assert len(open_join(plan)) == 3


def test_datasets_may_move_with_their_metadataset(data: JoinedData, tmp_path: Path) -> None:
    prepare_join(data.plan("p", "q"))
    moved = JoinedData(tmp_path / "moved")
    moved.folder.mkdir()
    for name in ("p", "q", "meta.yaml", "meta.yaml.joins"):
        shutil.move(data.folder / name, moved.folder / name)
    assert len(open_join(moved.plan_of(moved.folder / "meta.yaml"))) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"x" * 176),
        lambda path: path.unlink(),
        lambda path: np.save(path, np.zeros((2, 2), np.int64)),
        lambda path: np.save(path, np.zeros((3, 2), np.int32)),
        lambda path: np.save(path, np.zeros((2, 3), np.int64)),
        lambda path: np.save(path, np.array([[None] * 2] * 3, object)),
        lambda path: path.write_bytes(path.read_bytes().replace(b"(3, 2)", b"(9, 2)")),
    ],
    ids=["cut", "empty", "garbage", "gone", "fewer rows", "type", "shape", "objects", "header"],
)
def test_damaged_rows_are_not_read(data: JoinedData, damage: Callable[[Path], object]) -> None:
    plan = data.plan("p", "q")
    report = prepare_join(plan)
    damage(data.folder / f"meta.yaml.joins/{report.name}.npy")
    with pytest.raises(ConfigError, match=r"the prepared rows of this join are damaged(.|\n)*run: energon prepare"):
        open_join(plan)
    prepare_join(plan)
    assert len(open_join(plan)) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"rows": "3", "members": []}', "\x80"])
def test_rows_without_a_readable_record_are_damaged(data: JoinedData, text: str) -> None:
    plan = data.plan("p", "q")
    report = prepare_join(plan)
    path = data.folder / f"meta.yaml.joins/{report.name}.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=rf"rows of this join are damaged: {re.escape(str(path))}"):
        open_join(plan)


def test_a_record_with_another_number_of_rows_is_not_used(data: JoinedData) -> None:
    plan = data.plan("p", "q")
    report = prepare_join(plan)
    path = data.folder / f"meta.yaml.joins/{report.name}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rows": 4}))
    with pytest.raises(ConfigError, match="damaged"):
        open_join(plan)


def test_a_faulty_dataset_raises_its_own_error(data: JoinedData) -> None:
    plan = data.plan("p", "q")
    prepare_join(plan)
    data.set_split("q", {"val": ["s0"]})
    with pytest.raises(ConfigError, match="there is no split part 'train'; there are: val"):
        open_join(plan)
    shutil.rmtree(data.folder / "q")
    with pytest.raises(StorageError, match="this folder does not exist"):
        open_join(plan)


@pytest.mark.parametrize("numbers", [[0, 4], [0, 1 << 40], [-1, 1], [0, -1], [0, -2], [1 << 62, 1]])
def test_rows_that_name_no_sample_are_refused(data: JoinedData, numbers: list[int]) -> None:
    plan = data.plan("p", "q")
    path = data.folder / f"meta.yaml.joins/{prepare_join(plan).name}.npy"
    rows = np.load(path)
    rows[1] = numbers
    np.save(path, rows)
    with pytest.raises(ConfigError, match="rows of this join are damaged") as caught:
        open_join(plan)
    assert str(path) in caught.value.message
    assert caught.value.hint == f"run: energon prepare {data.folder / 'meta.yaml'}"


def test_rows_without_a_sample_are_valid_where_a_member_may_lack_keys(data: JoinedData) -> None:
    plan = data.plan("p", filling("q"))
    path = data.folder / f"meta.yaml.joins/{prepare_join(plan).name}.npy"
    rows = np.load(path)
    rows[1, 1] = -1
    np.save(path, rows)
    assert open_join(plan).tolist() == [[0, 1], [1, -1], [2, 2]]
