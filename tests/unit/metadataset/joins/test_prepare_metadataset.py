"""``prepare_metadataset`` prepares all joins of a metadataset, and removes unused rows."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.errors import ConfigError, StorageError
from loader.metadataset.joins.files import JoinFiles, open_join
from loader.metadataset.joins.prepare_metadataset import prepare_metadataset
from tests.unit.metadataset.joined_data import JoinedData, filling, join_of, skipping


@pytest.fixture
def data(tmp_path: Path) -> JoinedData:
    data = JoinedData(tmp_path)
    shards = {"s0": ["a", "b"], "s1": ["c", "d"]}
    for name in ("p", "q"):
        data.add_dataset(name, shards, parts={"train": ["s0"], "val": ["s1"]})
    return data


def test_the_joins_of_all_splits_are_prepared_each_once(data: JoinedData) -> None:
    join = join_of("p", "q")
    path = data.write(
        "meta.yaml",
        {"train": {"blend": [{**join, "weight": 2}, join_of("q", "p"), join]}, "val": join, "x": {"path": "p"}},
    )
    reports = prepare_metadataset(path)
    assert [report.place for report in reports] == ["splits.train.blend[0]", "splits.train.blend[1]", "splits.val"]
    assert len(data.files()) == 6
    assert len(open_join(data.plan_of(path, "val"))) == 2


def test_a_metadataset_without_joins_needs_nothing_and_leaves_nothing(data: JoinedData) -> None:
    assert prepare_metadataset(data.write("meta.yaml", {"train": {"path": "p"}})) == ()
    assert not (data.folder / "meta.yaml.joins").exists()


def test_joins_of_nested_metadatasets_are_next_to_their_own_files(data: JoinedData) -> None:
    data.write("inner/meta.yaml", {"train": join_of("../p", "../q"), "val": join_of("../q", "../p")})
    outer = data.write("outer.yaml", {"train": {"blend": [{"path": "inner/meta.yaml"}, join_of("q", "p")]}})
    reports = prepare_metadataset(outer)
    assert [Path(report.file).name for report in reports] == ["meta.yaml", "outer.yaml"]
    assert (len(data.files("inner/meta.yaml")), len(data.files("outer.yaml"))) == (2, 2)


def test_unused_rows_are_removed(data: JoinedData) -> None:
    data.write_join("p", "q")
    path = data.folder / "meta.yaml"
    (first,) = prepare_metadataset(path)
    data.prepare("q")
    (second,) = prepare_metadataset(path)
    assert first.name != second.name
    assert data.files() == [f"{second.name}.json", f"{second.name}.npy"]
    data.write("meta.yaml", {"train": {"path": "p"}})
    prepare_metadataset(path)
    assert data.files() == []


def test_rows_that_another_split_of_an_inner_metadataset_needs_stay(data: JoinedData) -> None:
    inner = data.write("inner.yaml", {"train": join_of("p", "q"), "val": join_of("q", "p")})
    outer = data.write("outer.yaml", {"train": {"path": "inner.yaml"}})
    prepare_metadataset(inner)
    prepare_metadataset(outer)
    assert len(data.files("inner.yaml")) == 4
    data.set_split("q", {"train": ["s0"], "val": ["s1"]}, exclude=["s1.tar/c"])  # val's rows are stale now
    prepare_metadataset(outer)
    assert len(data.files("inner.yaml")) == 2
    assert len(open_join(data.plan_of(outer))) == 2


def test_other_files_are_kept(data: JoinedData) -> None:
    path = data.write_join("p", "q")
    others = [data.folder / "meta.yaml.joins/notes.txt", data.folder / "meta.yaml.cache/join_index_0.bin"]
    for other in others:
        other.parent.mkdir()
        other.write_text("mine")
    left = data.folder / "meta.yaml.joins" / f".{'0' * 32}.npy.1-0123456789ab.partial"
    left.write_text("of a prepare that was killed")
    prepare_metadataset(path, compat=False)
    assert all(other.read_text() == "mine" for other in others)
    assert not left.exists()


def test_nothing_is_removed_behind_a_symbolic_link(data: JoinedData) -> None:
    path = data.write_join("p", "q")
    others = data.folder / "other.yaml.joins"
    others.mkdir()
    (others / f"{'0' * 32}.npy").write_text("of another metadataset")
    (data.folder / "meta.yaml.joins").symlink_to("other.yaml.joins")
    prepare_metadataset(path)
    assert (others / f"{'0' * 32}.npy").read_text() == "of another metadataset"
    assert len(open_join(data.plan_of(path))) == 2


def test_all_datasets_that_are_not_prepared_are_listed_with_what_to_run(data: JoinedData) -> None:
    (data.folder / "raw").mkdir()
    path = data.write(
        "meta.yaml", {"train": join_of("p", "raw"), "val": {"blend": [{"path": "raw"}, {"path": "none"}]}}
    )
    with pytest.raises(ConfigError) as caught:
        prepare_metadataset(path)
    assert [fault.place for fault in caught.value.faults] == [
        "splits.train.join[1].path", "splits.val.blend[0].path", "splits.val.blend[1].path",
    ]  # fmt: skip
    raw, again, none = (fault.message for fault in caught.value.faults)
    assert raw == again
    assert raw.endswith("it has no .nv-meta/.info.json; give the folder that holds the shards")  # it is empty
    assert none == f"there is no such folder: {str(data.folder / 'none')!r}"


def test_all_joins_that_do_not_fit_are_named_and_the_old_rows_stay(data: JoinedData) -> None:
    path = data.write("meta.yaml", {"train": join_of("p", "q")})
    prepare_metadataset(path)
    before = data.files()
    val = {**filling("q"), "split_part": "val"}
    splits = {"train": join_of("p", val), "val": join_of("p", {**skipping("q"), "split_part": "train"})}
    assert [report.rows for report in prepare_metadataset(data.write("good.yaml", splits))] == [2, 0]
    splits = {
        name: join_of("p", {"path": "q", "split_part": part}) for name, part in (("train", "val"), ("val", "train"))
    }
    with pytest.raises(ConfigError) as caught:
        prepare_metadataset(data.write("meta.yaml", splits))
    assert [line.partition(": splits.")[2].partition(":")[0] for line in caught.value.message.splitlines()] == [
        "train",
        "val",
    ]
    assert data.files() == before


@pytest.mark.parametrize("name", ["p", "meta.json"])
def test_what_is_no_metadataset_is_refused(data: JoinedData, name: str) -> None:
    with pytest.raises(ConfigError, match="this is not a metadataset"):
        prepare_metadataset(data.folder / name)


def test_a_document_without_valid_contents_is_refused(data: JoinedData) -> None:
    with pytest.raises(ConfigError, match="splits"):
        prepare_metadataset(data.write("meta.yaml", {}))
    with pytest.raises(StorageError):
        prepare_metadataset(data.folder / "none.yaml")


def test_two_prepares_of_one_metadataset_do_not_mix(data: JoinedData) -> None:
    path = data.write_join("p", "q")
    with JoinFiles(str(path)).lock(), pytest.raises(StorageError, match="another run is at work here"):
        prepare_metadataset(path)
    assert data.files() == []
    prepare_metadataset(path)
    assert len(data.files()) == 2


def die_at(path: Path, step: int) -> None:
    """Prepare, and exit in the middle: before the ``step``-th rename or removal of a file."""
    left = iter(range(step))

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if next(left, None) is None:
                os._exit(9)
            return function(*arguments)

        return call

    os.replace, os.unlink = dying(os.replace), dying(os.unlink)
    prepare_metadataset(path)


def test_a_prepare_that_is_killed_leaves_the_old_rows_or_the_new_ones(data: JoinedData) -> None:
    path = data.write_join("p", "q")
    data.set_split("p", {"train": ["s0", "s1"]})
    data.set_split("q", {"train": ["s1", "s0"]})
    codes = []
    for step in range(6):
        data.set_split("p", {"train": ["s0", "s1"]})
        prepare_metadataset(path)
        data.set_split("p", {"train": ["s1", "s0"]})
        process = multiprocessing.get_context("fork").Process(target=die_at, args=(path, step))
        process.start()
        process.join()
        codes.append(process.exitcode)
        is_new = step > 1  # both the rows and their record have been renamed
        if is_new:
            assert open_join(data.plan_of(path)).tolist() == [[2, 2], [3, 3], [0, 0], [1, 1]]
        else:
            with pytest.raises(ConfigError, match=r"the split of member .*p has changed"):
                open_join(data.plan_of(path))
            data.set_split("p", {"train": ["s0", "s1"]})
            assert open_join(data.plan_of(path)).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert codes == [9, 9, 9, 9, 9, 0]  # three files are renamed, two old ones removed
    prepare_metadataset(path)
    assert len(data.files()) == 2
