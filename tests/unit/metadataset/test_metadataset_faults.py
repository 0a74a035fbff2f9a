"""An invalid metadataset raises all faults at once, each with its place."""

from __future__ import annotations

import math
from typing import Any

import pytest

from loader.metadataset.documents.parse import parse_metadataset
from tests.unit.metadataset.metadataset_files import MetadatasetFiles

HEADS = "expected one of 'path', 'blend', 'blend_epochized' or 'join', found "
RANGE = (
    "expected two percentages such as [0%, 80%], or two numbers of samples such as [1000, 2000] or [1000, end], found "
)
SHARES = "expected percentages from 0% to 100%, the first below the second, found "
FLOW = "this is not plain YAML: while parsing a flow node did not find expected node content"
BY_WEIGHT = "a 'blend' is mixed by 'weight'; repetitions belong to 'blend_epochized'"
BY_REPETITIONS = "a 'blend_epochized' is mixed by 'repetitions'; a weight belongs to 'blend'"
NESTED = "a blend within a blend has a metadataset file of its own; name that as 'path'"
AUX = 'expected the path of a dataset, or "filesystem://" and the path of a folder, found '
NUMBERS = "expected a start of at least 0 and an end behind it, found "


def blend(**entry: object) -> dict[str, object]:
    return {"blend": [{"path": "a"}, {"path": "b", **entry}]}


def test_all_faults_of_all_files_come_at_once(files: MetadatasetFiles) -> None:
    inner = {"blend": [{"path": "a", "weight": True}, {"path": "nowhere"}, {"pth": "a"}]}
    files.write("inner.yaml", {"train": inner, "val": 5})
    files.write("broken.yaml", {}).write_text("splits: [")
    train = {
        "blend": [
            {"path": "inner.yaml", "weight": "five"},
            {"path": "inner.yaml", "split_part": "tests"},
            {"path": "broken.yaml"},
            {"path": "gone.yaml"},
            {"path": "a", "subset": {"range": ["50%", "20%"]}},
        ]
    }
    files.write("mix.yaml", {"train": train, "val": {"path": 3}}, splitz=1)
    folder = files.folder
    assert files.faults() == [
        "splitz: there is no such key; did you mean 'splits'?",
        "splits.train.blend[0].weight: expected a number > 0, found 'five'",
        "splits.train.blend[4].subset.range: " + SHARES + "[50%, 20%]",
        "splits.val.path: expected a text, found 3; put it in quotes",
        "inner.yaml: splits.train.blend[0].weight: expected a number > 0, found True",
        "inner.yaml: splits.train.blend[2].pth: there is no such key; did you mean 'path'?",
        "inner.yaml: splits.train.blend[2]: expected one of 'path' or 'join', found 'pth'",
        "inner.yaml: splits.val: expected a mapping, found 5",
        f"inner.yaml: splits.train.blend[1].path: there is no such folder: '{folder}/nowhere'",
        f"splits.train.blend[1].path: there is no split 'tests' in '{folder}/inner.yaml'; there are: train, val",
        f"broken.yaml: line 2, column 1: {FLOW}",
        f"splits.train.blend[3].path: cannot open this file: No such file or directory: '{folder}/gone.yaml'",
    ]


def test_a_number_that_yaml_parses_as_a_text_has_a_hint(files: MetadatasetFiles) -> None:
    blend_text = "[{weight: 1e-3, path: a}, {weight: 1.0e-3, path: b}]"
    text = f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits: {{train: {{blend: {blend_text}}}}}\n"
    (files.folder / "mix.yaml").write_text(text)
    (fault,) = files.faults()
    assert fault.startswith("splits.train.blend[0].weight: expected a number > 0, found '1e-3'; ")
    assert fault.endswith("; in YAML a number with an exponent is written as 1.0e-3")


@pytest.mark.parametrize("weight", ["five", "5", 0, -1, True, None, math.nan, math.inf, [1], 2**1024 - 1], ids=str)
def test_a_weight_is_a_number_above_zero(files: MetadatasetFiles, weight: Any) -> None:
    (fault,) = files.faults_of_train(blend(weight=weight))
    assert fault.startswith("splits.train.blend[1].weight: expected a number > 0, found ")


@pytest.mark.parametrize("repetitions", ["two", 0, -0.5, False, None, float("nan")], ids=str)
def test_repetitions_are_a_number_above_zero(files: MetadatasetFiles, repetitions: Any) -> None:
    (fault,) = files.faults_of_train({"blend_epochized": [{"path": "a", "repetitions": repetitions}]})
    assert fault.startswith("splits.train.blend_epochized[0].repetitions: expected a number > 0, found ")


@pytest.mark.parametrize(
    ("train", "faults"),
    [
        ({"blend": []}, ["splits.train.blend: expected a list of datasets, found an empty list"]),
        ({"blend": {"path": "a"}}, ["splits.train.blend: expected a list of datasets, found {'path': 'a'}"]),
        ({"blend": None}, ["splits.train.blend: expected a list of datasets, found None"]),
        ({"blend": ["a"]}, ["splits.train.blend[0]: expected a mapping, found 'a'"]),
        ({}, ["splits.train: " + HEADS + "an empty mapping"]),
        (None, ["splits.train: expected a mapping, found None"]),
        (["a"], ["splits.train: expected a mapping, found ['a']"]),
        ({"path": "a", "blend": [{"path": "b"}]}, ["splits.train: " + HEADS + "'path' and 'blend'"]),
        ({"path": None}, ["splits.train.path: expected the path of a dataset, found nothing"]),
        ({"path": ""}, ["splits.train.path: expected a text, found ''"]),
        ({"path": "a", "weight": 1}, ["splits.train.weight: only what stands in a 'blend' has a weight"]),
        (
            {"path": "a", "repetitions": 1},
            ["splits.train.repetitions: only what stands in a 'blend_epochized' has repetitions"],
        ),
        (
            blend(repetitions=2),
            ["splits.train.blend[1].repetitions: " + BY_WEIGHT],
        ),
        (
            {"blend_epochized": [{"path": "a", "weight": 2}]},
            ["splits.train.blend_epochized[0].weight: " + BY_REPETITIONS],
        ),
        (
            {"blend": [{"blend": [{"path": "a"}], "weight": 2}]},
            ["splits.train.blend[0].blend: " + NESTED],
        ),
        (
            {"blend": [{"path": "a"}], "subflavors": {"x": 1}},
            ["splits.train.subflavors: set it at each dataset of the blend"],
        ),
        ({"path": "a", "subflavor": "x"}, ["splits.train.subflavor: there is no such key; did you mean 'subflavors'?"]),
        ({"path": "a", "nonmatch": "skip"}, ["splits.train.nonmatch: only datasets of a 'join' have it"]),
        ({"path": "a", "subflavors": "x"}, ["splits.train.subflavors: expected a mapping, found 'x'"]),
        ({"path": "a", "split_part": 5}, ["splits.train.split_part: expected a text, found 5; put it in quotes"]),
        (
            {"path": "a", "split_config": "../../s.yaml"},
            ["splits.train.split_config: expected the name of a file in .nv-meta, found '../../s.yaml'"],
        ),
        ({"path": "a", "aux": ["b"]}, ["splits.train.aux: expected a mapping, found ['b']"]),
        ({"path": "a", "aux": {1: "b"}}, ["splits.train.aux.1: expected a name; put it in quotes"]),
        (
            {"path": "a", "aux": {"cache": "b", "primary": "c", "sample": "d"}},
            [
                f"splits.train.aux.{name}: expected another name: {name}= is another argument of cookers"
                for name in ("cache", "primary", "sample")
            ],
        ),
        (
            {"path": "a", "aux": {"x": 5}},
            ["splits.train.aux.x: " + AUX + "5"],
        ),
        (
            {"path": "a", "aux": {"x": {"path": "b", "fs_path": "c"}}},
            ["splits.train.aux.x: expected either 'path' or 'fs_path', found 'path' and 'fs_path'"],
        ),
        (
            {"path": "a", "aux": {"x": {"pth": "b"}}},
            [
                "splits.train.aux.x.pth: there is no such key; did you mean 'path'?",
                "splits.train.aux.x: expected either 'path' or 'fs_path', found neither",
            ],
        ),
        (
            {"path": "a", "aux": {"x": {"fs_path": "b", "meta_folder": "c"}}},
            ["splits.train.aux.x.meta_folder: a folder of files has none; name a prepared dataset with 'path'"],
        ),
    ],
    ids=str,
)
def test_what_a_split_is_made_of_has_its_keys_and_types(
    files: MetadatasetFiles, train: dict[str, Any] | list[str] | None, faults: list[str]
) -> None:
    assert files.faults_of_train(train) == faults


@pytest.mark.parametrize("value", [0, -2, 1.5, "3", True, [1]], ids=str)
def test_epochs_shuffled_together_are_a_count_minus_one_or_null(files: MetadatasetFiles, value: Any) -> None:
    (fault,) = files.faults_of_train({"path": "a", "shuffle_over_epochs_multiplier": value})
    assert fault.startswith("splits.train.shuffle_over_epochs_multiplier: expected a whole number >= 1, -1 or null, ")


@pytest.mark.parametrize(
    ("subset", "fault"),
    [
        (["0%", "1%"], "splits.train.subset: expected a mapping, found ['0%', '1%']"),
        ({"range": ["0%"]}, "splits.train.subset.range: " + RANGE + "['0%']"),
        ({"range": "0%-5%"}, "splits.train.subset.range: " + RANGE + "'0%-5%'"),
        ({"range": [0, "50%"]}, "splits.train.subset.range: " + RANGE + "[0, '50%']"),
        ({"range": ["0%", 50]}, "splits.train.subset.range: " + RANGE + "['0%', 50]"),
        ({"range": ["0%", "end"]}, "splits.train.subset.range: " + RANGE + "['0%', 'end']"),
        ({"range": ["10", "20"]}, "splits.train.subset.range: " + RANGE + "['10', '20']"),
        ({"range": [0.1, 0.5]}, "splits.train.subset.range: " + RANGE + "[0.1, 0.5]"),
        ({"range": [False, 5]}, "splits.train.subset.range: " + RANGE + "[False, 5]"),
        ({"range": [0, None]}, "splits.train.subset.range: " + RANGE + "[0, None]"),
        ({"range": ["1e2%", "nan%"]}, "splits.train.subset.range: " + RANGE + "['1e2%', 'nan%']"),
        ({"range": ["50%", "10%"]}, "splits.train.subset.range: " + SHARES + "[50%, 10%]"),
        ({"range": ["50%", "50%"]}, "splits.train.subset.range: " + SHARES + "[50%, 50%]"),
        ({"range": ["-5%", "100%"]}, "splits.train.subset.range: " + SHARES + "[-5%, 100%]"),
        ({"range": ["0%", "100.1%"]}, "splits.train.subset.range: " + SHARES + "[0%, 100.1%]"),
        ({"range": [2, 1]}, "splits.train.subset.range: " + NUMBERS + "[2, 1]"),
        ({"range": [2, 2]}, "splits.train.subset.range: " + NUMBERS + "[2, 2]"),
        ({"range": [-1, 5]}, "splits.train.subset.range: " + NUMBERS + "[-1, 5]"),
    ],
    ids=str,
)
def test_a_subset_is_a_range_in_percent_or_in_samples(
    files: MetadatasetFiles, subset: dict[str, Any] | list[str], fault: str
) -> None:
    assert files.faults_of_train({"path": "a", "subset": subset}) == [fault]


def test_a_subset_has_a_range_and_nothing_else(files: MetadatasetFiles) -> None:
    assert files.faults_of_train({"path": "a", "subset": {"rnge": ["0%", "1%"]}}) == [
        "splits.train.subset.rnge: there is no such key; did you mean 'range'?",
        "splits.train.subset.range: " + RANGE + "nothing",
    ]


def test_numbers_of_samples_choose_within_leaves_only(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"path": "a"}})
    numbers = {"range": [0, 5]}
    train = {"blend": [{"path": "inner.yaml", "subset": numbers}, {"path": "b", "subset": numbers}], "subset": numbers}
    said = "numbers of samples are only allowed for a leaf dataset; use percentages here, or set this there"
    assert files.faults_of_train(train) == [
        f"splits.train.subset.range: {said}",
        f"splits.train.blend[0].subset.range: {said}",
    ]


# --------------------------------------------------------------------------------------------- paths and splits


def test_a_missing_path_is_shown_as_resolved(files: MetadatasetFiles) -> None:
    files.write("mixes/inner.yaml", {"train": {"path": "../gone", "aux": {"x": "gone_too", "f": "filesystem://no"}}})
    assert files.faults_of_train({"path": "mixes/inner.yaml"}) == [
        f"mixes/inner.yaml: splits.train.path: there is no such folder: '{files.folder}/gone'",
        f"mixes/inner.yaml: splits.train.aux.x: there is no such folder: '{files.folder}/mixes/gone_too'",
        f"mixes/inner.yaml: splits.train.aux.f: there is no such folder: '{files.folder}/mixes/no'",
    ]


def test_long_paths_are_shown_in_full(files: MetadatasetFiles) -> None:
    long = "/".join(["a_folder_of_a_shared_disk"] * 20)
    assert files.faults_of_train({"path": long}) == [
        f"splits.train.path: there is no such folder: '{files.folder}/{long}'"
    ]


def test_a_folder_that_is_not_prepared_is_a_fault(files: MetadatasetFiles) -> None:
    (files.folder / "raw").mkdir()
    (files.folder / "raw/0.tar").touch()
    (fault,) = files.faults_of_train({"path": "raw"})
    assert fault.endswith(f"has no .nv-meta/.info.json; run: energon prepare {files.folder}/raw")
    assert files.faults_of_train({"path": "x.jsonl"}) == [
        f"splits.train.path: there is no such file: '{files.folder}/x.jsonl'"
    ]


def test_a_file_of_another_format_is_a_fault_and_needs_no_prepare(files: MetadatasetFiles) -> None:
    (files.folder / "data.csv").touch()
    (fault,) = files.faults_of_train({"path": "data.csv"})
    assert "this file is not a dataset; expected a folder of shards" in fault
    assert "energon prepare" not in fault


def test_datasets_of_other_splits_need_not_be_there(files: MetadatasetFiles) -> None:
    files.write("mix.yaml", {"train": {"path": "a"}, "test": {"path": "on_another_machine"}})
    assert len(files.plan()) == 1


def test_a_missing_split_is_shown_with_the_existing_ones(files: MetadatasetFiles) -> None:
    files.write("mix.yaml", {"training": {"path": "a"}, "val": {"path": "a"}})
    assert files.faults() == [
        f"splits: there is no split 'train' in '{files.folder}/mix.yaml'; there are: training, val"
    ]


def test_faults_list_only_the_first_of_many_splits(files: MetadatasetFiles) -> None:
    files.write("mix.yaml", {f"part{number}": {"path": "a"} for number in range(1000)})
    (fault,) = files.faults()
    assert fault.endswith("part18, part19, …")


def test_circles_are_faults_that_show_the_chain(files: MetadatasetFiles) -> None:
    files.write("one.yaml", {"train": {"path": "two.yaml"}})
    files.write("two.yaml", {"train": {"path": "mix.yaml"}, "val": {"path": "mix.yaml", "split_part": "train"}})
    files.write("mix.yaml", {"train": {"path": "one.yaml"}})
    (fault,) = files.faults()
    assert fault == (
        "two.yaml: splits.train.path: these reference each other in a circle: "
        "mix.yaml (train) → one.yaml (train) → two.yaml (train) → mix.yaml (train)"
    )


def test_a_chain_of_files_ends_somewhere(files: MetadatasetFiles) -> None:
    for level in range(40):
        files.write(f"{level}.yaml", {"train": {"path": f"{level + 1}.yaml"}})
    (fault,) = files.faults("0.yaml")
    assert fault.startswith("29.yaml: splits.train.path: more than 30 levels of metadatasets: ")


def test_a_nested_metadataset_takes_no_keys_of_datasets(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"path": "a"}})
    said = "a metadataset has none; set it at its datasets"
    assert files.faults_of_train(
        {"path": "inner.yaml", "split_config": "s.yaml", "dataset_config": "d.yaml", "aux": {"x": "b"}}
    ) == [f"splits.train.split_config: {said}", f"splits.train.dataset_config: {said}", f"splits.train.aux: {said}"]


# --------------------------------------------------------------------------------------------------- the document


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "expected a mapping with '__class__' and 'splits', found an empty document"),
        ("[1]", "expected a mapping with '__class__' and 'splits', found [1]"),
        (
            "__class__: MetadatasetV2",
            "splits: this is missing; expected a mapping of splits, such as train and val, to",
        ),
        ("{__class__: MetadatasetV2, splits: }", "splits: this is missing; expected a mapping of splits"),
        ("{__class__: MetadatasetV2, splits: 5}", "splits: expected a mapping, found 5"),
        ("splits: {train: {path: a}}", "__class__: this is missing; expected MetadatasetV2"),
        (
            "{__class__: MetadatasetV3, splits: {}}",
            "__class__: there is no metadataset class 'MetadatasetV3'; did you mean",
        ),
        (
            "{__class__: CrudeWebdataset, splits: {}}",
            "__class__: there is no metadataset class 'CrudeWebdataset'; this",
        ),
        ("{__class__: 5, splits: {}}", "__class__: expected a text, found 5"),
        ("{__module__: os, __class__: MetadatasetV2, splits: {}}", "__module__: expected megatron.energon, found 'os'"),
        (
            "{__class__: MetadatasetV2, splits: {1: {path: a}}}",
            "splits.1: expected the name of a split; put it in quotes",
        ),
        (
            "!!python/object/apply:os.system [ls]",
            "line 1, column 1: this is not plain YAML: could not determine a constructor",
        ),
        ("a: &x [*x]", "line 1, column 8: this is not plain YAML: *x refers to a value that contains it"),
    ],
    ids=str,
)
def test_a_document_that_is_no_metadataset_says_why(text: str, fault: str) -> None:
    _, faults = parse_metadataset(text, file="mix.yaml")
    assert str(faults[0]).startswith(fault)
    assert len(faults) == 1


@pytest.mark.parametrize("module", ["megatron.energon", "megatron.energon.metadataset.metadataset_v2", "loader"])
def test_our_classes_may_be_named_by_any_of_their_modules(module: str) -> None:
    text = f"__module__: {module}\n__class__: MetadatasetV2\nsplits: {{train: {{path: a}}}}"
    assert parse_metadataset(text, file="mix.yaml")[1] == []


# --------------------------------------------------------------------------------------------- the first version


def test_the_first_version_is_a_blend_by_weights(files: MetadatasetFiles) -> None:
    files.write("inner.yaml", {"train": {"datasets": [{"path": "a", "subflavor": "x"}]}}, version=None)
    entries = [{"path": "inner.yaml", "weight": 3, "split_part": "train"}, {"path": "b", "subflavors": {"y": 1}}]
    files.write("mix.yaml", {"train": {"datasets": entries}}, version="Metadataset")
    leaves = files.plan()
    assert [(leaf.place, leaf.weight, leaf.request.subflavors) for leaf in leaves] == [
        ("inner.yaml: splits.train.datasets[0]", 0.75, {"__subflavor__": "x"}),
        ("splits.train.datasets[1]", 0.25, {"y": 1}),
    ]


def test_the_first_version_knows_no_keys_of_the_second() -> None:
    text = "__class__: Metadataset\nsplits: {train: {datasets: [{path: a, subset: {range: [0%, 1%]}}]}, val: {path: b}}"
    spec, faults = parse_metadataset(text, file="mix.yaml")
    assert list(map(str, faults)) == [
        "splits.train.datasets[0].subset: only a MetadatasetV2 has 'subset'; set __class__ to that",
        "splits.val.path: expected a list of 'datasets'; paths stand there",
        "splits.val.datasets: this is missing; expected a list of datasets",
    ]
    assert spec.splits["train"].kind == "blend"
