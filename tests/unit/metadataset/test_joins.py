"""Joins in metadataset documents: parsing and planning."""

from __future__ import annotations

from typing import Any

import pytest

from loader.format.dataset_ref import DatasetRef
from loader.format.documents.providers import LoadRequest
from loader.format.documents.subset import SampleRange
from loader.metadataset.documents.leaf_plan import Joiner, JoinMember, JoinPlan
from tests.unit.metadataset.metadataset_files import MetadatasetFiles

JOINER = {"__module__": "my_module", "__class__": "Joined"}


def test_a_join_is_one_leaf_of_the_file_that_holds_it(files: MetadatasetFiles) -> None:
    join = {
        "join": [{"path": "a"}, {"path": "b", "nonmatch": "skip", "split_part": "all", "aux": {"x": "c"}}],
        "joiner": JOINER,
        "split_part": "part",
        "subset": {"range": [0, 10]},
        "shuffle_over_epochs_multiplier": 2,
    }
    leaf, _ = files.plan_train({"blend": [{**join, "weight": 3}, {"path": "c"}]})
    assert (leaf.path, leaf.place) == (str(files.folder / "mix.yaml"), "splits.train.blend[0]")
    assert (leaf.weight, leaf.request.epochs_together, leaf.request.subset) == (
        0.75,
        2,
        (SampleRange(start=0, stop=10),),
    )
    assert leaf.join == JoinPlan(
        file=str(files.folder / "mix.yaml"),
        place="splits.train.blend[0]",
        joiner=Joiner(module="my_module", name="Joined", is_function=False),
        members=(
            JoinMember(
                request=LoadRequest(ref=DatasetRef(str(files.folder / "a")), split_part="part"),
                place="splits.train.blend[0].join[0]",
                name=None,
            ),
            JoinMember(
                request=LoadRequest(
                    ref=DatasetRef(str(files.folder / "b")),
                    split_part="all",
                    aux={"x": DatasetRef(str(files.folder / "c"))},
                ),
                place="splits.train.blend[0].join[1]",
                name=None,
                nonmatch="skip",
            ),
        ),
    )


def test_members_of_a_mapping_have_its_names(files: MetadatasetFiles) -> None:
    members = {"text": {"path": "a"}, "image": {"path": "b", "nonmatch": "none"}}
    joiner = {"__module__": "my_module", "__function__": "join"}
    (leaf,) = files.plan_train({"join": members, "joiner": joiner})
    assert leaf.join is not None
    assert [(member.name, member.nonmatch) for member in leaf.join.members] == [("text", "error"), ("image", "none")]
    assert leaf.join.joiner == Joiner(module="my_module", name="join", is_function=True)
    assert leaf.join.members[1].place == "splits.train.join.image"


def test_a_nested_join_names_its_own_file_and_outer_levels_reach_its_members(files: MetadatasetFiles) -> None:
    members = [{"path": "../a", "subflavors": {"k": "member", "m": 1}, "dataset_config": "d.yaml"}, {"path": "../b"}]
    files.write("mixes/inner.yaml", {"train": {"join": members, "joiner": JOINER, "subflavors": {"k": "join", "j": 2}}})
    (leaf,) = files.plan_train({"path": "mixes/inner.yaml", "subflavors": {"k": "outer"}}, split_config="s.yaml")
    assert leaf.join is not None
    assert leaf.join.file == str(files.folder / "mixes/inner.yaml")
    assert (leaf.place, leaf.join.place) == ("mixes/inner.yaml: splits.train", "splits.train")
    assert leaf.request.subflavors == {"k": "outer", "j": 2}
    first, second = leaf.join.members
    assert (first.request.subflavors, second.request.subflavors) == (
        {"k": "outer", "j": 2, "m": 1},
        {"k": "outer", "j": 2},
    )
    assert [member.ref.split_config for member in leaf.join.members] == ["s.yaml"] * 2
    assert [member.ref.dataset_config for member in leaf.join.members] == ["d.yaml", None]


def test_the_same_join_reached_twice_is_warned_of(files: MetadatasetFiles) -> None:
    join = {"join": [{"path": "a"}, {"path": "b"}], "joiner": JOINER}
    with pytest.warns(UserWarning, match=r"at splits.train.blend\[0\] and at splits.train.blend\[1\]"):
        files.plan_train({"blend": [join, join]})
    other = {"join": [{"path": "a"}, {"path": "c"}], "joiner": JOINER}
    assert len(files.plan_train({"blend": [join, other]})) == 2


WHOLE = "; set it next to 'join'"
MISSING = "expected {__module__: …, __class__: …} or {__module__: …, __function__: …}, found "


@pytest.mark.parametrize(
    ("join", "faults"),
    [
        ({"join": []}, ["join: expected a list of datasets, found an empty list"]),
        ({"join": {}}, ["join: expected a list or mapping of datasets, found an empty mapping"]),
        ({"join": None}, ["join: expected a list of datasets, found None"]),
        (
            {"join": {"not-a-name": {"path": "a"}}},
            ["join.not-a-name: expected a Python identifier, found"],
        ),
        (
            {"join": [{"path": "a"}, {"pth": "b"}]},
            ["join[1].pth: there is no such key", "join[1].path: expected the path"],
        ),
        ({"join": [{"path": "a", "nonmatch": "skip"}]}, ["join[0].nonmatch: the first dataset of a join has all keys"]),
        (
            {"join": [{"path": "a"}, {"path": "b", "nonmatch": ["skip"]}]},
            ["join[1].nonmatch: expected one of error, skip, none, found ['skip']"],
        ),
        (
            {"join": [{"path": "a", "subset": {"range": ["0%", "1%"]}}]},
            ["join[0].subset: a subset selects rows of the whole join" + WHOLE],
        ),
        (
            {"join": [{"path": "a", "shuffle_over_epochs_multiplier": 2}]},
            ["join[0].shuffle_over_epochs_multiplier: a join is shuffled as a whole" + WHOLE],
        ),
        ({"join": [{"path": "a"}], "aux": {"x": "b"}}, ["aux: set it at each dataset of the join"]),
        ({"join": [{"path": "a"}], "dataset_config": "d"}, ["dataset_config: set it at each dataset of the join"]),
        ({"join": [{"path": "a"}], "joiner": None}, ["joiner: " + MISSING]),
        ({"join": [{"path": "a"}], "joiner": "f"}, ["joiner: " + MISSING + "'f'"]),
        ({"join": [{"path": "a"}], "joiner": {"__class__": "J"}}, ["joiner.__module__: expected a text, found"]),
        (
            {"join": [{"path": "a"}], "joiner": {"__module__": "m"}},
            ["joiner: expected either '__class__' or '__function__', found '__module__'"],
        ),
        (
            {"join": [{"path": "a"}], "joiner": {**JOINER, "__function__": "f"}},
            ["joiner: expected either '__class__' or '__function__', found both"],
        ),
        (
            {"join": [{"path": "mix.yaml"}]},
            ["join[0].path: expected the folder of a prepared dataset, found a metadataset"],
        ),
        (
            {"join": [{"path": "x.jsonl"}]},
            ["join[0].path: expected the folder of a prepared dataset, found a JSONL file"],
        ),
        ({"join": [{"path": "gone"}]}, ["join[0].path: there is no such folder: "]),
    ],
    ids=str,
)
def test_faults_of_joins_have_their_place(files: MetadatasetFiles, join: dict[str, Any], faults: list[str]) -> None:
    found = files.faults_of_train({"joiner": JOINER, **join})
    assert len(found) == len(faults)
    for fault, start in zip(found, faults, strict=True):
        assert fault.startswith(f"splits.train.{start}")


def test_a_multiplier_of_one_at_a_member_is_accepted(files: MetadatasetFiles) -> None:
    members = [{"path": "a", "shuffle_over_epochs_multiplier": 1}, {"path": "b"}]
    assert len(files.plan_train({"join": members, "joiner": JOINER})) == 1
