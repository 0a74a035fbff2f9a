"""``energon lint`` of a metadataset: its documents, their references, and each dataset once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from loader.dataset.opening import folder_at
from loader.format.columns.column_files import write_column, write_map_column
from loader.metadataset.joins.prepare_join import prepare_join
from loader.metadataset.plans.plan_leaves import plan_leaves
from tests.cli.make_mix import JOINER, copy_datasets, write_datasets, write_mix
from tests.cli.run_energon import RunEnergon

Lint: TypeAlias = Callable[..., tuple[int, list[str], Any]]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_datasets(tmp_path_factory.mktemp("datasets"))


@pytest.fixture
def own(datasets: Path, tmp_path: Path) -> Path:
    """Copy the datasets for a test that changes them."""
    return copy_datasets(datasets, tmp_path)


@pytest.fixture
def lint(datasets: Path, energon: RunEnergon) -> Lint:
    """Lint a metadataset next to the datasets, and return the findings as ``code: message``."""

    def run(*flags: object, **splits: Any) -> tuple[int, list[str], Any]:
        mix = write_mix(datasets, **splits)
        done = energon("lint", mix, "--parallel", 1, "--json", *flags)
        assert done.err == ""
        return done.code, [f"{found['code']}: {found['message']}" for found in done.json["findings"]], done.json

    return run


def test_a_sound_mix_exits_0_and_reports_the_amount_checked(datasets: Path, energon: RunEnergon) -> None:
    mix = write_mix(datasets, "sound.yaml", train=[{"path": "a"}, {"path": "texts.jsonl"}], val={"path": "a"})
    done = energon("lint", mix, "--parallel", 1)
    assert (done.code, done.err) == (0, "")
    assert "no findings: 11 samples in 4 shards of 2 datasets, level decode" in done.out


def test_findings_of_a_dataset_start_with_its_path(datasets: Path, energon: RunEnergon) -> None:
    mix = write_mix(datasets, "broken.yaml", train=[{"path": "a"}, {"path": "b"}])
    done = energon("lint", mix, "--parallel", 1)
    assert done.code == 1
    assert f"error   E302  {datasets}/b/shard_001.tar/000004 [jpg] at byte " in done.out
    assert f"to exclude 1 sample from training: energon lint {datasets}/b --fix" in done.out
    [finding] = energon("lint", mix, "--parallel", 1, "--json").json["findings"]
    assert (finding["dataset"], finding["shard"]) == (str(datasets / "b"), "shard_001.tar")


def test_a_dataset_that_several_places_share_is_checked_once(lint: Lint) -> None:
    code, found, document = lint(train=[{"path": "b", "subset": {"range": ["0%", "50%"]}}], val={"path": "b"})
    assert code == 1
    assert [each[:4] for each in found] == ["E302"]
    assert (document["datasets"], document["shards"]) == (1, 3), "train and val, and not test"


def test_only_the_requested_splits_are_checked(lint: Lint) -> None:
    splits = {"train": {"path": "b"}, "val": {"path": "a"}}
    assert lint("--split-parts", "val", **splits)[0] == 0
    assert lint("--split-parts", "val,train", **splits)[0] == 1


def test_a_missing_split_is_wrong_usage(datasets: Path, energon: RunEnergon) -> None:
    mix = write_mix(datasets, "two.yaml", train={"path": "a"}, val={"path": "a"})
    done = energon("lint", mix, "--split-parts", "vla")
    assert done.code == 2
    assert "--split-parts: there is no split 'vla'; there are: train, val." in done.err


def test_all_faults_of_all_documents_are_found_at_once(lint: Lint, datasets: Path) -> None:
    write_mix(datasets, "inner.yaml", train=[{"path": "a", "subflavours": {}}])
    code, found, document = lint(train=[{"path": "a", "weight": "two"}, {"path": "inner.yaml"}], val={"pth": "a"})
    assert code == 1
    assert not document["complete"], "the datasets were not checked"
    assert sorted(each.split(":")[1].strip() for each in found) == [
        "inner.yaml", "splits.train.blend[0].weight", "splits.val", "splits.val.pth",
    ]  # fmt: skip
    assert {each[:4] for each in found} == {"E501"}


def test_an_empty_document_and_one_without_splits_are_errors(datasets: Path, energon: RunEnergon) -> None:
    (datasets / "empty.yaml").write_text("")
    assert "E501: expected a mapping" in energon("lint", datasets / "empty.yaml").out
    assert "E501: splits: this is empty" in energon("lint", write_mix(datasets, "none.yaml")).out


def test_weights_and_repetitions_may_not_be_mixed_in_one_tree(lint: Lint, datasets: Path) -> None:
    write_mix(datasets, "epochized.yaml", train={"blend_epochized": [{"path": "a"}]})
    code, found, _ = lint(train=[{"path": "epochized.yaml"}])
    assert code == 1
    assert "by weights, but" in found[0]


def test_a_dataset_that_is_missing_or_not_prepared_is_an_error_and_others_are_checked(
    lint: Lint,
) -> None:
    code, found, document = lint("--level", "headers", train=[{"path": "gone"}, {"path": "raw"}, {"path": "a"}])
    assert code == 1
    assert found[0].startswith("E502: splits.train.blend[0].path: there is no such folder: '/")
    assert "E502: splits.train.blend[1].path: " in found[1]
    assert "run: energon prepare " in found[1]
    assert (len(found), document["datasets"], document["samples"]) == (2, 1, 6)


def test_the_same_leaf_reached_twice_is_a_warning(lint: Lint, datasets: Path) -> None:
    write_mix(datasets, "again.yaml", train={"path": "a"})
    code, found, _ = lint("--level", "headers", train=[{"path": "a"}, {"path": "again.yaml"}])
    assert code == 0
    assert len(found) == 1
    assert found[0].startswith("W503: split 'train': samples of /")
    assert "reached twice, at splits.train.blend[0] and at splits.train.blend[1] → again.yaml: splits.train" in found[0]


def test_a_file_without_split_parts_is_the_same_in_every_part(lint: Lint) -> None:
    leaves = [{"path": "texts.jsonl", "split_part": part} for part in ("train", "val")]
    assert [each[:4] for each in lint(train=leaves)[1]] == ["W503"]


def test_samples_that_are_trained_on_and_validated_on_are_a_warning(
    lint: Lint,
) -> None:
    ranges = (["0%", "60%"], ["50%", "100%"])
    low, high = ({"path": "a", "split_part": "train", "subset": {"range": some}} for some in ranges)
    code, found, _ = lint("--level", "headers", train=low, val=high, test={"path": "a"})
    assert code == 0
    assert len(found) == 1
    assert found[0].startswith("W507: splits 'train' and 'val': samples of /")
    assert found[0].endswith("a (train) are reached at splits.train and at splits.val")


def test_halves_of_a_dataset_are_no_repetition(lint: Lint) -> None:
    halves = [{"path": "a", "subset": {"range": [f"{low}%", f"{low + 50}%"]}} for low in (0, 50)]
    assert lint("--level", "headers", train=halves)[:2] == (0, [])


def test_a_leaf_without_samples_is_an_error(lint: Lint) -> None:
    leaves = [
        {"path": "a", "split_part": "nope"},
        {"path": "texts.jsonl", "subset": {"range": [0, 5]}},
        {"path": "b", "subset": {"range": ["0%", "1%"]}},
    ]
    code, found, _ = lint("--level", "headers", train=leaves)
    assert code == 1
    assert [each.split(": ")[:2] for each in found] == [["E504", f"splits.train.blend[{place}]"] for place in range(3)]
    assert "there is no split part 'nope'; there are: train, val, test" in found[0]
    assert "the subset [0, 5] does not fit into 2 samples" in found[1]
    assert "the subset of split part 'train' of this dataset has no samples" in found[2]


def test_auxiliary_stores_that_cannot_be_opened_are_errors(lint: Lint) -> None:
    stores = {
        "fine": "b",
        "files": "filesystem://files",
        "raw": "raw",
        "gone": "filesystem://gone",
        "far": "hdfs://x/y",
    }
    code, found, _ = lint("--level", "headers", train={"path": "a", "aux": stores})
    assert code == 1
    assert [each.split(": ")[:2] for each in found] == [
        ["E506", "splits.train.aux.raw"],
        ["E506", "splits.train.aux.gone"],
        ["E506", "splits.train.aux.far"],
    ]


def test_the_meta_folder_of_an_auxiliary_store_is_used(lint: Lint, datasets: Path) -> None:
    shutil.copytree(datasets / "b", datasets / "c")
    (datasets / "c/.nv-meta").rename(datasets / "c-meta")
    code, found, _ = lint("--level", "headers", train={"path": "a", "aux": {"moved": {"path": "c"}}})
    assert [each.split(": ")[:2] for each in found] == [["E506", "splits.train.aux.moved"]]
    store = {"path": "c", "meta_folder": "c-meta"}
    code, found, _ = lint("--level", "headers", train={"path": "a", "aux": {"moved": store}})
    assert (code, found) == (0, [])


def test_a_join_that_is_not_prepared_is_an_error_with_the_command(lint: Lint, datasets: Path) -> None:
    code, found, document = lint("--level", "headers", train={"join": [{"path": "a"}, {"path": "b"}], "joiner": JOINER})
    assert code == 1
    assert found[0].startswith("E505: splits.train: this join is not prepared; run: energon prepare /")
    assert document["datasets"] == 2


def test_a_join_is_stale_once_a_dataset_was_prepared_again(datasets: Path, energon: RunEnergon, tmp_path: Path) -> None:
    copy = copy_datasets(datasets, tmp_path)
    mix = write_mix(
        copy, train={"join": [{"path": "a"}, {"path": "a", "split_part": "val", "nonmatch": "none"}], "joiner": JOINER}
    )
    [leaf] = plan_leaves(mix, split_part="train", training=True)
    assert leaf.join is not None
    prepare_join(leaf.join)
    assert energon("lint", mix, "--level", "headers", "--json").json["errors"] == 0
    assert energon("prepare", copy / "a", "--force-overwrite", "--non-interactive", "--num-workers", 1).code == 0
    done = energon("lint", mix, "--level", "headers")
    assert done.code == 1
    assert "E505: splits.train: the prepared rows of this join are stale: " in done.out
    assert f"run: energon prepare {mix}" in done.out


def test_it_stops_at_max_findings(lint: Lint) -> None:
    code, found, document = lint("--max-findings", 1, train=[{"path": "gone"}, {"path": "b"}])
    assert (code, len(found), document["complete"]) == (1, 1, False)


def test_the_level_counts_for_datasets_and_lines(lint: Lint, datasets: Path, tmp_path: Path) -> None:
    copy = copy_datasets(datasets, tmp_path)
    (copy / "texts.jsonl").write_text('{"text": "one"}\n{"text"x "two"}\n')
    splits = {"train": [{"path": str(copy / "texts.jsonl")}, {"path": "b"}]}
    assert lint("--level", "headers", **splits)[:2] == (0, [])
    code, found, _ = lint(**splits)
    assert code == 1
    assert [each[:4] for each in found] == ["E403", "E302"]


def test_the_same_finding_of_two_configs_of_a_dataset_is_reported_once(
    lint: Lint, datasets: Path, tmp_path: Path
) -> None:
    copy = copy_datasets(datasets, tmp_path)
    config = (copy / "b/.nv-meta/dataset.yaml").read_text()
    (copy / "b/.nv-meta/other.yaml").write_text(config)
    path = str(copy / "b")
    code, found, document = lint(
        train={"path": path}, other={"path": path, "split_part": "train", "dataset_config": "other.yaml"}
    )
    assert code == 1
    assert ([each[:4] for each in found], document["datasets"]) == (["E302"], 2)


@pytest.mark.parametrize(("flag", "found"), [((), []), (("--split-config", "none.yaml"), ["E002"])])
def test_a_config_that_the_user_names_is_that_of_every_dataset(
    lint: Lint, flag: tuple[str, ...], found: list[str]
) -> None:
    assert [each[:4] for each in lint("--level", "headers", *flag, train={"path": "a"})[1]] == found


def test_nothing_is_excluded_through_a_metadataset(datasets: Path, energon: RunEnergon) -> None:
    done = energon("lint", write_mix(datasets, "fix.yaml", train={"path": "b"}), "--fix")
    assert done.code == 2
    assert "only a dataset of shards" in done.err


def test_weights_that_change_are_checked_with_their_places(lint: Lint) -> None:
    good = [
        {"path": "a", "weight": {0: 1, 100: 0.5}},
        {"path": "texts.jsonl", "weight": {"change": "linear", "at": {0: 0, 9: 1}}},
    ]
    assert lint(train=good)[:2] == (0, [])
    bad = [{"path": "a", "weight": {0: 1, 100: -0.5}}, {"path": "b", "weight": {5: 1}}]
    code, findings, _ = lint(train=bad)
    assert code == 1
    assert any("expected a number of at least 0, found -0.5" in finding for finding in findings)
    assert any("the first weight is that at 5; expected one at 0" in finding for finding in findings)


@pytest.mark.parametrize(
    ("unit", "with_column", "found"),
    [
        ("tokens", "ab", []),
        (
            "tokns",
            "ab",
            ["weights are shares of 'tokns', which is not a column of the datasets; did you mean 'tokens'?"],
        ),
        ("tokens", "a", ["weights are shares of 'tokens', a column that 1 of 2 datasets do not have: /"]),
        ("sampels", "", ["is not a column of the datasets; did you mean 'samples'?"]),
        ("tokens", "", []),  # a metric
        ("samples", "a", []),
    ],
)
def test_a_unit_that_is_misspelt_or_not_known_everywhere_is_a_warning(
    own: Path, energon: RunEnergon, unit: str, with_column: str, found: list[str]
) -> None:
    for name in with_column:
        opened = folder_at(str(own / name))
        write_column(opened.storage, opened.index, "tokens", np.full(len(opened.index), 5))
    write_mix(own, "inner.yaml", train={"blend_weight_unit": unit, "blend": [{"path": "a"}, {"path": "b"}]})
    mix = write_mix(own, train=[{"path": "inner.yaml"}, {"path": "texts.jsonl"}])
    done = energon("lint", mix, "--parallel", 1, "--level", "headers", "--json")
    messages = [each["message"] for each in done.json["findings"] if each["code"] == "W508"]
    assert (done.code, len(messages)) == (0, len(found)), done.err
    assert all(part in message for part, message in zip(found, messages, strict=True))


def test_a_dataset_that_is_missing_is_not_one_without_the_column(own: Path, energon: RunEnergon) -> None:
    opened = folder_at(str(own / "a"))
    write_column(opened.storage, opened.index, "tokens", np.full(len(opened.index), 5))
    blend = {"blend_weight_unit": "tokens", "blend": [{"path": "a"}, {"path": "gone"}]}
    done = energon("lint", write_mix(own, train=blend), "--parallel", 1, "--level", "headers", "--json")
    assert [each["code"] for each in done.json["findings"]] == ["E502"]


def test_a_unit_that_is_a_column_of_vectors_or_texts_is_a_warning(own: Path, energon: RunEnergon) -> None:
    shutil.copytree(own / "b", own / "v")
    for name in "abv":
        opened = folder_at(str(own / name))
        count = len(opened.index)
        values: Any = {"a": ["text"] * count, "b": np.ones(count), "v": np.ones((count, 2), np.float32)}[name]
        dtype, length = getattr(values, "dtype", None), 2 * (name == "v")
        block = (values, np.ones(count, np.bool_))
        write_map_column(opened.storage, opened.index, "clip", dtype, [block], length=length)
    blend = {"blend_weight_unit": "clip", "blend": [{"path": name} for name in "abv"]}
    done = energon("lint", write_mix(own, train=blend), "--parallel", 1, "--level", "headers", "--json")
    assert [each["message"].replace(str(own), "") for each in done.json["findings"] if each["code"] == "W508"] == [
        "split 'train': weights are shares of 'clip', a column of vectors in 1 of 3 datasets: /v",
        "split 'train': weights are shares of 'clip', a column of texts in 1 of 3 datasets: /a",
    ]
