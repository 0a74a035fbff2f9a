from __future__ import annotations

from pathlib import Path

import pytest

from loader.errors import ConfigError
from loader.metadataset.plans.plan_leaves import TraversedDatasetReference, traverse_metadataset
from loader.storage import EPath
from tests.unit.metadataset.metadataset_files import MetadatasetFiles


def test_all_datasets_are_listed_even_if_none_exists(tmp_path: Path, files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"path": "no/where", "aux": {"x": "filesystem://f", "y": "msc://p/b"}}})
    joiner = {"__module__": "m", "__class__": "J"}
    mix = files.write(
        "mix.yaml",
        {
            "train": {
                "blend": [
                    {"path": "inner.yaml", "subflavors": {"k": 1}},
                    {"join": [{"path": "p"}, {"path": "s3://bucket/q", "split_part": "all"}], "joiner": joiner},
                ]
            }
        },
    )
    assert traverse_metadataset(mix, split_part="train") == [
        TraversedDatasetReference(
            path=EPath(tmp_path / "no/where"),
            split_part="train",
            aux={"x": EPath(tmp_path / "f"), "y": EPath("msc://p/b")},
            subflavors={"k": 1},
            place="inner.yaml: splits.train",
        ),
        TraversedDatasetReference(
            path=EPath(tmp_path / "p"), split_part="train", aux={}, subflavors={}, place="splits.train.blend[1].join[0]"
        ),
        TraversedDatasetReference(
            path=EPath("s3://bucket/q"), split_part="all", aux={}, subflavors={}, place="splits.train.blend[1].join[1]"
        ),
    ]


def test_a_reference_is_built_from_positional_arguments() -> None:
    found = TraversedDatasetReference(EPath("/data/a"), "val", {}, {"k": 1})
    assert (found.path / "x", found.split_part, found.subflavors, found.place) == (
        EPath("/data/a/x"),
        "val",
        {"k": 1},
        "",
    )


def test_only_metadatasets_are_traversed(files: MetadatasetFiles) -> None:
    with pytest.raises(ConfigError, match="this is not a metadataset"):
        traverse_metadataset(files.folder / "a", split_part="train")


def test_unknown_arguments_are_refused(files: MetadatasetFiles) -> None:
    mix = files.write("mix.yaml", {"train": {"path": "a"}})
    with pytest.raises(TypeError, match="no argument 'splitpart'; did you mean 'split_part'"):
        traverse_metadataset(mix, split_part="train", splitpart="val")
