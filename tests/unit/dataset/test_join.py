"""Rows of datasets that are joined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loader.dataset.join import JoinedDataset
from loader.dataset.opening import dataset_at
from loader.errors import FormatError
from tests.unit.metadataset.joined_data import JoinedData


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> JoinedDataset:
    folder: Path = tmp_path_factory.mktemp("joined")
    data = JoinedData(folder)
    members = tuple(
        dataset_at(data.add_dataset(name, shards))
        for name, shards in (("left", {"a": ["1", "2"]}), ("right", {"b": ["2", "1"]}))
    )
    rows = np.array([[0, 1], [1, -1], [1, 0], [0, 2]])
    return JoinedDataset(members, ("left", "right"), rows, file="meta.yaml", place="splits.train")


def test_a_row_has_the_parts_of_all_members(joined: JoinedDataset) -> None:
    assert len(joined) == 4
    assert joined.part_names == ["left/txt", "right/txt"]
    assert [part.name for part in joined.parts(0)] == ["left/txt", "right/txt"]
    assert joined.read_parts(0) == {"left/txt": b"left/1", "right/txt": b"right/1"}
    assert joined.read_parts(2, ["right/txt", "txt"]) == {"right/txt": b"right/2"}
    assert joined.read(2, "right/txt", 1, 4) == b"igh"


def test_a_missing_sample_has_no_parts(joined: JoinedDataset) -> None:
    assert joined.read_parts(1) == {"left/txt": b"left/2"}
    assert [part.name for part in joined.parts(1)] == ["left/txt"]
    assert joined.place_of(1) == joined.members[0].place_of(1)
    with pytest.raises(KeyError, match="right/txt"):
        joined.read(1, "right/txt")


def test_rows_have_the_keys_of_the_first_member(joined: JoinedDataset) -> None:
    assert joined.full_key(2) == "a.tar/2"
    assert joined.find("2") == joined.find("a.tar/2") == [1, 2]
    assert joined.find("b.tar/2") == []


def test_a_row_with_a_sample_that_does_not_exist_is_an_error(joined: JoinedDataset) -> None:
    with pytest.raises(FormatError, match="name samples that do not exist") as caught:
        joined.read_parts(3)
    assert (caught.value.at, caught.value.hint) == ("meta.yaml: splits.train", "run: energon prepare meta.yaml")


def test_a_closed_join_opens_its_shards_again(joined: JoinedDataset) -> None:
    _ = joined.read_parts(0)
    joined.close()
    assert [len(member._files) for member in joined.members] == [0, 0]
    assert joined.read_parts(0) == {"left/txt": b"left/1", "right/txt": b"right/1"}
