"""Documents of version 8: the class Recipe, tags, variables in paths, multipliers on nodes; and notes in version 1."""

from __future__ import annotations

import warnings

import pytest

from loader import MetadatasetV2, Recipe, load_dataset, prepare_metadataset, prepare_recipe
from loader.errors import ConfigError
from loader.format.documents.dataset_config import parse_dataset_config
from tests.unit.metadataset.metadataset_files import MetadatasetFiles


def test_a_recipe_is_a_metadataset_of_version_two(files: MetadatasetFiles) -> None:
    path = files.write("mix.yaml", {"train": {"path": "a"}}, version="Recipe")
    assert [files.name(leaf) for leaf in files.plan()] == ["a"]
    assert Recipe is MetadatasetV2
    assert isinstance(load_dataset(path), Recipe)
    assert prepare_recipe is prepare_metadataset
    assert prepare_recipe(path) == ()


def test_tags_are_subflavors_at_every_level(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"blend": [{"path": "a", "tags": {"x": 1, "y": 1}}]}})
    join = {"join": [{"path": "a", "tags": {"z": 3}}, {"path": "b"}], "tags": {"x": 2}}
    join["joiner"] = {"__module__": "m", "__class__": "C"}
    leaves = files.plan_train({"blend": [{"path": "inner.yaml", "tags": {"x": 5}}, join]})
    assert [dict(leaf.request.subflavors) for leaf in leaves] == [{"x": 5, "y": 1}, {"x": 2}]
    assert leaves[1].join is not None
    assert dict(leaves[1].join.members[0].request.subflavors) == {"x": 2, "z": 3}
    files.write("mix.yaml", {"train": {"datasets": [{"path": "a", "tags": {"x": 1}}]}}, version="Metadataset")
    assert dict(files.plan()[0].request.subflavors) == {"x": 1}


def test_tags_and_subflavors_at_once_are_a_fault(files: MetadatasetFiles) -> None:
    found = files.faults_of_train({"path": "a", "tags": {"x": 1}, "subflavors": {"x": 1}})
    assert found == ["splits.train.tags: this is another name of 'subflavors', which is here, too; remove one of them"]
    with pytest.raises(ConfigError, match="tags: this is another name of 'subflavors'"):
        parse_dataset_config("{__class__: CrudeWebdataset, tags: {x: 1}, subflavors: {x: 1}}", file="dataset.yaml")
    assert parse_dataset_config("{__class__: CrudeWebdataset, tags: {x: 1}}", file="d").subflavors == {"x": 1}


def test_environment_variables_are_replaced_in_paths(files: MetadatasetFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_FOLDER", str(files.folder))
    monkeypatch.delenv("NO_FOLDER", raising=False)
    aux = {"one": "${NO_FOLDER:b}", "two": "filesystem://${DATA_FOLDER}/c", "three": {"path": "${DATA_FOLDER:x}/b"}}
    blend = [{"path": "${DATA_FOLDER}/a", "aux": aux}, {"path": "${NO_FOLDER:./b}"}, {"path": "${NO_FOLDER:}c"}]
    leaves = files.plan_train({"blend": blend})
    assert [files.name(leaf) for leaf in leaves] == ["a", "b", "c"]
    assert {name: store.path for name, store in leaves[0].request.aux.items()} == {
        "one": str(files.folder / "b"),
        "two": f"filesystem://{files.folder / 'c'}",
        "three": str(files.folder / "b"),
    }
    found = files.faults_of_train({"path": "${NO_FOLDER}/a"})
    message = "the environment variable NO_FOLDER is not set; set it, or write ${NO_FOLDER:default}"
    assert found[0] == f"splits.train.path: {message}"


def test_paths_with_variables_have_a_limit(files: MetadatasetFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONG", "x" * 10_000)
    found, *_ = files.faults_of_train({"path": "${LONG}" * 1000})
    assert found.startswith("splits.train.path: with its environment variables the path has 10,000,000 letters")
    found, *_ = files.faults_of_train({"path": f"${{{'A' * 5000}}}" * 2})
    assert len(found) < 400


@pytest.mark.parametrize(
    ("outer", "node", "leaf", "expected"),
    [(2, 3, 5, 30), (2, -1, 5, -1), (-1, -1, 1, -1), (None, -1, 5, None), (2, 3, None, None), (1, None, -1, None)],
)
def test_multipliers_of_all_nodes_combine(
    files: MetadatasetFiles, outer: int | None, node: int | None, leaf: int | None, expected: int | None
) -> None:
    key = "shuffle_over_epochs_multiplier"
    files.write("inner.yaml", {"train": {"blend": [{"path": "a", key: leaf}], key: node}})
    (found,) = files.plan_train({"blend_epochized": [{"path": "inner.yaml"}], key: outer}, training=False)
    assert found.request.epochs_together == expected


def test_other_keys_of_version_one_are_ignored_with_a_warning(files: MetadatasetFiles) -> None:
    splits = {"train": {"datasets": [{"path": "a"}]}}
    path = files.write("mix.yaml", splits, version="Metadataset", owner="me", notes={"x": 1})
    with pytest.warns(UserWarning, match=r"mix\.yaml: the keys 'owner', 'notes' are ignored"):
        leaves = files.plan()
    assert [files.name(leaf) for leaf in leaves] == ["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not isinstance(load_dataset(path), Recipe)
    files.write("mix.yaml", {"train": {"path": "a"}}, owner="me")
    assert files.faults() == ["owner: there is no such key; known are __module__, __class__, splits"]


def test_version_one_needs_no_validation_split(files: MetadatasetFiles) -> None:
    files.write("mix.yaml", {"train": {"datasets": [{"path": "a"}]}}, version="Metadataset")
    assert len(files.plan()) == 1
    found = files.faults(split_part="val", training=False)
    assert found == [f"splits: there is no split 'val' in {str(files.folder / 'mix.yaml')!r}; there are: train"]


def test_a_filter_is_for_datasets_of_version_two(files: MetadatasetFiles) -> None:
    (leaf,) = files.plan_train({"path": "a", "filter": "good"})
    assert leaf.filter == "good"
    files.write("mix.yaml", {"train": {"datasets": [{"path": "a", "filter": "x"}]}}, version="Metadataset")
    assert files.faults() == [
        "splits.train.datasets[0].filter: only a MetadatasetV2 has 'filter'; set __class__ to that"
    ]
