from __future__ import annotations

import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from loader.errors import ConfigError, StorageError
from loader.format.dataset_ref import DatasetRef
from loader.format.documents.providers import LoadRequest
from loader.format.documents.subset import SampleRange, ShareRange
from loader.metadataset.documents.leaf_plan import LeafPlan
from loader.metadataset.plans import plan_leaves as plan_leaves_module
from loader.metadataset.plans.plan_leaves import plan_leaves, plan_tree
from loader.metadataset.plans.plan_node import PlanNode
from tests.unit.metadataset.metadataset_files import MetadatasetFiles


def share(start: str, stop: str) -> ShareRange:
    return ShareRange(start=Fraction(start), stop=Fraction(stop))


# --------------------------------------------------------------------------------------------- settings of leaves


def test_a_folder_is_one_leaf_with_the_settings_of_the_caller(files: MetadatasetFiles) -> None:
    (leaf,) = plan_leaves(
        DatasetRef(str(files.folder / "a"), split_config="s.yaml", dataset_config="d.yaml"),
        split_part="val",
        training=True,
        subflavors={"x": 1},
        epochs_together=-1,
    )
    assert leaf == LeafPlan(
        request=LoadRequest(
            ref=DatasetRef(str(files.folder / "a"), split_config="s.yaml", dataset_config="d.yaml"),
            split_part="val",
            subflavors={"x": 1},
            epochs_together=-1,
        ),
        place="",
    )


def test_a_missing_dataset_raises_when_opened(files: MetadatasetFiles) -> None:
    (leaf,) = plan_leaves(files.folder / "nowhere", split_part="train", training=True)
    assert leaf.path == str(files.folder / "nowhere")


def test_paths_are_relative_to_the_file_not_to_the_working_folder(
    files: MetadatasetFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("mixes/mix.yaml", {"train": {"path": "../a"}})
    monkeypatch.chdir(files.folder / "mixes")
    (leaf,) = plan_leaves("mix.yaml", split_part="train", training=True)
    assert leaf.path == str(files.folder / "a")


def test_absolute_paths_and_file_urls_are_paths_of_this_machine(files: MetadatasetFiles) -> None:
    for path in (str(files.folder / "a"), f"file://{files.folder}/a", "file://./a", "./a/"):
        assert files.name(files.plan_train({"path": path})[0]) == "a"


def test_urls_of_other_machines_stay_as_they_are(files: MetadatasetFiles) -> None:
    (leaf,) = files.plan_train({"path": "s3://bucket/coco", "aux": {"x": "msc://profile/bucket/ds"}})
    assert (leaf.path, leaf.request.aux) == ("s3://bucket/coco", {"x": DatasetRef("msc://profile/bucket/ds")})


def test_a_metadataset_may_be_named_by_a_file_url(files: MetadatasetFiles) -> None:
    files.write("mix.yaml", {"train": {"path": "a"}})
    (leaf,) = plan_leaves(f"file://{files.folder}/mix.yaml", split_part="train", training=True)
    assert files.name(leaf) == "a"


def test_a_jsonl_file_is_a_leaf(files: MetadatasetFiles) -> None:
    (files.folder / "x.jsonl").write_text("{}\n")
    assert files.name(files.plan_train({"path": "x.jsonl"})[0]) == "x.jsonl"


def test_a_reference_sets_all_settings_of_a_leaf(files: MetadatasetFiles) -> None:
    (leaf,) = files.plan_train(
        {
            "path": "a",
            "split_part": "part",
            "split_config": "s.yaml",
            "dataset_config": "d.yaml",
            "subflavors": {"kind": "photo", 1: [2]},
            "shuffle_over_epochs_multiplier": 3,
            "subset": {"range": ["0%", "12.5%"]},
            "aux": {
                "images": "./b",
                "files": "filesystem://./c",
                "far": "filesystem+msc://profile/bucket/files",
                "long": {"path": "c"},
                "long_files": {"fs_path": "."},
            },
        }
    )
    assert leaf == LeafPlan(
        request=LoadRequest(
            ref=DatasetRef(str(files.folder / "a"), split_config="s.yaml", dataset_config="d.yaml"),
            split_part="part",
            subflavors={"kind": "photo", "1": [2]},
            epochs_together=3,
            subset=(share("0", "1/8"),),
            aux={
                "images": DatasetRef(str(files.folder / "b")),
                "files": DatasetRef(f"filesystem://{files.folder}/c"),
                "far": DatasetRef("filesystem+msc://profile/bucket/files"),
                "long": DatasetRef(str(files.folder / "c")),
                "long_files": DatasetRef(f"filesystem://{files.folder}"),
            },
        ),
        place="splits.train",
    )


def test_null_is_the_same_as_nothing_but_for_the_epochs_shuffled_together(files: MetadatasetFiles) -> None:
    keys = ("split_part", "split_config", "dataset_config", "subflavors", "subset", "aux")
    (leaf,) = files.plan_train({"path": "a", **dict.fromkeys(keys)})
    assert leaf == LeafPlan(
        request=LoadRequest(ref=DatasetRef(str(files.folder / "a")), split_part="train"), place="splits.train"
    )
    (leaf,) = files.plan_train({"path": "a", "shuffle_over_epochs_multiplier": None})
    assert leaf.request.epochs_together is None


def test_the_callers_files_of_nv_meta_win(files: MetadatasetFiles) -> None:
    train = {"path": "a", "split_config": "inner.yaml", "dataset_config": "inner.yaml"}
    (leaf,) = files.plan_train(train, split_config="outer.yaml", dataset_config="outer.yaml")
    assert (leaf.ref.split_config, leaf.ref.dataset_config) == ("outer.yaml", "outer.yaml")


# --------------------------------------------------------------------------------- weights and repetitions


def test_weights_become_shares_of_one(files: MetadatasetFiles) -> None:
    leaves = files.plan_train({"blend": [{"path": "a", "weight": 5}, {"path": "b"}, {"path": "c", "weight": 0.25}]})
    assert [leaf.weight for leaf in leaves] == pytest.approx([0.8, 0.16, 0.04])
    assert [leaf.repetitions for leaf in leaves] == [None] * 3
    assert [leaf.place for leaf in leaves] == [
        "splits.train.blend[0]",
        "splits.train.blend[1]",
        "splits.train.blend[2]",
    ]


def test_weights_of_a_nested_blend_share_the_outer_weight(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"blend": [{"path": "a", "weight": 3}, {"path": "b"}]}})
    leaves = files.plan_train({"blend": [{"path": "inner.yaml", "weight": 2}, {"path": "c", "weight": 6}]})
    assert [leaf.weight for leaf in leaves] == [0.1875, 0.0625, 0.75]
    assert leaves[0].place == "inner.yaml: splits.train.blend[0]"


def test_huge_and_tiny_weights_still_make_shares(files: MetadatasetFiles) -> None:
    leaves = files.plan_train({"blend": [{"path": "a", "weight": 1.5e308}, {"path": "b", "weight": 1.5e308}]})
    assert [leaf.weight for leaf in leaves] == [0.5, 0.5]
    leaves = files.plan_train({"blend": [{"path": "a", "weight": 5e-324}, {"path": "b", "weight": 5e-324}]})
    assert [leaf.weight for leaf in leaves] == [0.5, 0.5]
    files.write("inner.yaml", {"train": {"blend": [{"path": "a", "weight": 1e-200}, {"path": "b"}]}})
    leaves = files.plan_train({"blend": [{"path": "inner.yaml", "weight": 1e-200}, {"path": "c"}]})
    assert all(leaf.weight is not None and leaf.weight > 0 for leaf in leaves)


def test_repetitions_that_multiply_without_bound_are_a_fault(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"blend_epochized": [{"path": "a", "repetitions": 1e200}]}})
    (fault,) = files.faults_of_train({"blend_epochized": [{"path": "inner.yaml", "repetitions": 1e200}]})
    assert fault.startswith("inner.yaml: splits.train.blend_epochized[0]: the product of the repetitions of all levels")


def test_repetitions_multiply_down_the_tree(files: MetadatasetFiles) -> None:
    inner = {"blend_epochized": [{"path": "a", "repetitions": 2}, {"path": "b", "repetitions": 0.5}]}
    files.write("inner.yaml", {"train": inner})
    leaves = files.plan_train({"blend_epochized": [{"path": "inner.yaml", "repetitions": 1.5}, {"path": "c"}]})
    assert [leaf.repetitions for leaf in leaves] == [3.0, 0.75, 1.0]
    assert [leaf.weight for leaf in leaves] == [None] * 3


def test_a_lone_reference_has_neither_weight_nor_repetitions(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"path": "a"}})
    (leaf,) = files.plan_train({"path": "inner.yaml"})
    assert (leaf.weight, leaf.repetitions) == (None, None)


@pytest.mark.parametrize("kind", ["blend", "blend_epochized"])
def test_validation_keeps_the_declared_shares(files: MetadatasetFiles, kind: str) -> None:
    amount = {"blend": "weight", "blend_epochized": "repetitions"}[kind]
    shares = {"blend": [(7 / 7.5, None), (0.5 / 7.5, None)], "blend_epochized": [(None, 7), (None, 0.5)]}[kind]
    leaves = files.plan_train({kind: [{"path": "b", amount: 7}, {"path": "a", amount: 0.5}]}, training=False)
    assert [files.name(leaf) for leaf in leaves] == ["b", "a"]
    assert [(leaf.weight, leaf.repetitions) for leaf in leaves] == shares


def test_validation_of_weights_that_begin_at_zero_has_no_shares(files: MetadatasetFiles) -> None:
    later = {"at": {0: 0, 10: 1}}
    blend = [{"path": "a", "weight": later}, {"path": "b", "weight": later}]
    leaves = files.plan_train({"blend": blend}, training=False)
    assert [leaf.weight for leaf in leaves] == [None, None]


def test_weights_and_repetitions_in_one_tree_are_a_fault_in_training_only(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"blend_epochized": [{"path": "a"}]}})
    files.write("mix.yaml", {"train": {"blend": [{"path": "inner.yaml"}, {"path": "b"}]}})
    (fault,) = files.faults()
    assert fault == (
        "splits.train.blend: this is mixed by weights, but inner.yaml: splits.train.blend_epochized by repetitions; "
        "use blend_epochized for all of one tree"
    )
    assert len(files.plan(training=False)) == 2


# ------------------------------------------------------------------------------------------------- levels


def test_the_requested_split_is_inherited_if_a_level_names_none(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"test": {"path": "a"}, "val": {"path": "b", "split_part": "train"}})
    files.write("mix.yaml", {"x": {"path": "inner.yaml", "split_part": "test"}, "val": {"path": "inner.yaml"}})
    (leaf,) = files.plan(split_part="x")
    assert (files.name(leaf), leaf.split_part) == ("a", "test")
    (leaf,) = files.plan(split_part="val")
    assert (files.name(leaf), leaf.split_part) == ("b", "train")


def test_a_split_may_refer_to_another_split_of_its_own_file(files: MetadatasetFiles) -> None:
    files.write("mix.yaml", {"test": {"path": "mix.yaml", "split_part": "val"}, "val": {"path": "a"}})
    (leaf,) = files.plan(split_part="test")
    assert leaf.split_part == "val"


def test_outer_subflavors_win(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"path": "a", "subflavors": {"i": 1, "k": "inner"}}})
    outer = {"path": "inner.yaml", "subflavors": {"o": 2, "k": "outer"}}
    assert files.plan_train(outer)[0].request.subflavors == {"i": 1, "o": 2, "k": "outer"}
    assert files.plan_train(outer, subflavors={"k": "caller"})[0].request.subflavors == {"i": 1, "o": 2, "k": "caller"}


@pytest.mark.parametrize(
    ("levels", "together"),
    [((2, 3, 5), 30), ((-1, 3, 5), -1), ((2, None, -1), None), ((None, 1, 1), None), ((1, -1, -1), -1)],
)
def test_epochs_shuffled_together_combine_over_all_levels(
    files: MetadatasetFiles, levels: tuple[int | None, int | None, int], together: int | None
) -> None:
    inner, outer, caller = levels
    files.write("inner.yaml", {"train": {"path": "a", "shuffle_over_epochs_multiplier": inner}})
    (leaf,) = files.plan_train({"path": "inner.yaml", "shuffle_over_epochs_multiplier": outer}, epochs_together=caller)
    assert leaf.request.epochs_together == together


def test_subsets_of_all_levels_are_listed_inner_first(files: MetadatasetFiles) -> None:
    inner = {"blend": [{"path": "a", "subset": {"range": [10, "end"]}}], "subset": {"range": ["0%", "50%"]}}
    files.write("inner.yaml", {"train": inner})
    outer = {"blend": [{"path": "inner.yaml", "subset": {"range": ["50%", "100%"]}}], "subset": {"range": ["0%", "1%"]}}
    (leaf,) = files.plan_train(outer)
    assert leaf.request.subset == (
        SampleRange(start=10, stop=None),
        share("0", "1/2"),
        share("1/2", "1"),
        share("0", "1/100"),
    )


# ------------------------------------------------------------------------------------- repeated leaves, trees


def test_a_leaf_reached_twice_is_warned_of_and_kept(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"blend": [{"path": "b"}, {"path": "a"}]}})
    with pytest.warns(UserWarning, match="reached twice") as caught:
        leaves = files.plan_train({"blend": [{"path": "a"}, {"path": "inner.yaml"}]})
    assert [files.name(leaf) for leaf in leaves] == ["a", "b", "a"]
    assert len(caught) == 1
    assert "at splits.train.blend[0] and at splits.train.blend[1] → inner.yaml: splits.train.blend[1]" in str(
        caught[0].message
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"subset": {"range": ["0%", "50%"]}}, {"subset": {"range": ["50%", "100%"]}}),
        ({"subset": {"range": [0, 10]}}, {"subset": {"range": [10, "end"]}}),
        ({"split_part": "train"}, {"split_part": "val"}),
        ({"split_config": "s.yaml"}, {}),
        ({"dataset_config": "d.yaml"}, {}),
    ],
    ids=str,
)
def test_parts_of_a_dataset_that_do_not_overlap_are_no_repetition(
    files: MetadatasetFiles, one: dict[str, Any], other: dict[str, Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(files.plan_train({"blend": [{"path": "a", **one}, {"path": "a", **other}]})) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"subset": {"range": ["0%", "51%"]}}, {"subset": {"range": ["50%", "100%"]}}),
        ({"subset": {"range": [0, 11]}}, {"subset": {"range": [10, "end"]}}),
        ({"subset": {"range": [5, 6]}}, {}),
        ({"split_part": "train"}, {}),
        ({"subflavors": {"x": 1}}, {"subflavors": {"x": 2}}),
    ],
    ids=str,
)
def test_parts_of_a_dataset_that_overlap_are_a_repetition(
    files: MetadatasetFiles,
    one: dict[str, Any],
    other: dict[str, Any],
) -> None:
    with pytest.warns(UserWarning, match=r"at splits.train.blend\[0\] and at splits.train.blend\[1\]"):
        files.plan_train({"blend": [{"path": "a", **one}, {"path": "a", **other}]})


def test_one_repeated_dataset_is_warned_of_once(files: MetadatasetFiles) -> None:
    with pytest.warns(UserWarning, match="reached twice") as caught:
        files.plan_train({"blend": [{"path": "a"}] * 40})
    assert len(caught) == 1


def test_the_tree_has_a_weight_at_every_place(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"blend": [{"path": "a", "weight": 3}, {"path": "b"}]}})
    mix = files.write("mix.yaml", {"train": {"blend": [{"path": "inner.yaml"}, {"path": "c"}]}})
    root = plan_tree(mix, split_part="train")

    def lines(node: PlanNode, depth: int = 0) -> Iterator[str]:
        yield f"{'  ' * depth}{node.kind} {node.place} {node.weight}"
        for child in node.children:
            yield from lines(child, depth + 1)

    assert list(lines(root)) == [
        "metadataset  None",
        "  blend splits.train.blend None",
        "    metadataset splits.train.blend[0] 0.5",
        "      blend inner.yaml: splits.train.blend 0.5",
        "        dataset inner.yaml: splits.train.blend[0] 0.375",
        "        dataset inner.yaml: splits.train.blend[1] 0.125",
        "    dataset splits.train.blend[1] 0.5",
    ]
    assert tuple(root.leaves()) == files.plan()


def test_a_metadataset_that_cannot_be_read_is_an_error_of_its_own(files: MetadatasetFiles) -> None:
    with pytest.raises(StorageError, match="No such file"):
        files.plan("gone.yaml")
    with pytest.raises(StorageError, match="ftp:// URLs"):
        plan_leaves("ftp://bucket/mix.yaml", split_part="train", training=True)


def test_metadatasets_that_multiply_beyond_bounds_are_refused_before_they_fill_the_memory(
    files: MetadatasetFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_leaves_module, "_MAX_PLACES", 1000)
    files.write("0.yaml", {"train": {"path": "a"}})
    for level in range(1, 25):
        files.write(f"{level}.yaml", {"train": {"blend": [{"path": f"{level - 1}.yaml"}] * 2}})
    with pytest.raises(ConfigError, match="expands to more than 1,000 datasets"):
        files.plan("24.yaml")
    files.write("0.yaml", {"train": {"path": "gone"}})
    with pytest.raises(ConfigError, match="expands") as caught:
        files.plan("24.yaml")
    assert len(caught.value.faults) == 2
