"""Splits by shards, samples and groups, their leaks, and their undo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, strategies as st

from loader.convert.resharding import ReshardPlan, run_reshard
from loader.convert.split_groups import find_leaks
from loader.convert.splitting import SplitPlan, assign_balanced, run_split, undo_split
from loader.dataset.opening import folder_at
from loader.dataset.tar import tar_index
from loader.errors import ConfigError
from loader.format.columns.column_files import write_column
from loader.format.dataset_ref import DatasetRef
from loader.format.filters.build import build_filter_index
from loader.format.filters.rows import filter_names
from loader.lint.report import LintPlan
from loader.lint.run import lint_dataset
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from tests.unit.convert.prepared import loaded_texts, write_dataset

RATIO = {"train": 0.5, "val": 0.5}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Four shards of ten samples; each of eight sites has samples in all shards, and one text is in two shards."""
    shards = {}
    for shard in range(4):
        keys = [f"site{number % 8}_{shard}{number}" for number in range(10)]
        shards[f"s_{shard}.tar"] = {
            key: {"txt": key.encode(), "json": json.dumps({"site": key[:5]}).encode()} for key in keys
        }
    shards["s_0.tar"]["copy_0"] = shards["s_3.tar"]["copy_3"] = {"txt": b"copied", "json": b'{"site": null}'}
    return write_dataset(tmp_path / "data", shards, {"train": ("s_0.tar", "s_1.tar"), "val": ("s_2.tar", "s_3.tar")})


def sites(texts: list[str]) -> set[str]:
    return {text[:5] for text in texts if text != "copied"}


def split_file(dataset: Path) -> Path:
    return dataset / ".nv-meta/split.yaml"


@pytest.mark.parametrize("group_by", ["json[site]", "key:^site.", "site"])
def test_no_group_is_in_two_parts(dataset: Path, group_by: str) -> None:
    if group_by == "site":
        folder = folder_at(dataset)
        keys = [tar_index(folder).key(sample) for sample in range(len(folder.index))]
        names = sorted({key[:5] for key in keys})
        write_column(
            folder.storage, folder.index, "site", np.array([names.index(key[:5]) for key in keys]), categories=names
        )
    report = run_split(SplitPlan(path=str(dataset), ratio=RATIO, group_by=group_by))
    assert report.by == "samples"
    train, val = loaded_texts(dataset, "train"), loaded_texts(dataset, "val")
    assert len(train) + len(val) == 42
    assert not sites(train) & sites(val)
    assert min(len(train), len(val)) >= 15
    assert find_leaks(str(dataset), group_by=group_by).is_clean
    assert run_split(SplitPlan(path=str(dataset), ratio=RATIO, group_by=group_by)).parts == report.parts


def test_shards_that_share_a_group_stay_together_and_other_tools_understand(tmp_path: Path) -> None:
    shards = {
        f"s_{shard}.tar": {f"{shard}{n}": {"txt": b"", "json": json.dumps({"g": shard // 2}).encode()} for n in "ab"}
        for shard in range(8)
    }
    path = write_dataset(tmp_path / "d", shards, {"train": tuple(shards)})
    report = run_split(SplitPlan(path=str(path), ratio=RATIO, group_by="json[g]"))
    assert report.by == "shards"
    assert [*yaml.safe_load(split_file(path).read_text())] == ["split_parts", "exclude"]
    split = folder_at(path).documents.split
    assert split is not None
    assert all(len({int(shard[2]) // 2 for shard in part}) == 2 for part in split.split_parts.values())


def test_an_exact_ratio_of_samples_is_met(dataset: Path) -> None:
    report = run_split(SplitPlan(path=str(dataset), ratio={"train": 29, "val": 13}, by="samples"))
    assert {part: samples for part, (_, samples, _) in report.parts.items()} == {"train": 29, "val": 13}
    assert len(loaded_texts(dataset, "train")) == 29
    assert run_prepare(PreparePlan(path=str(dataset))).split == {"train": (4, 29), "val": (4, 13)}


def test_a_filter_of_the_run_and_one_of_the_part_apply_together(dataset: Path) -> None:
    run_split(SplitPlan(path=str(dataset), ratio=RATIO, by="samples"))
    build_filter_index(dataset, "first", range(11))
    train, val = (loaded_texts(dataset, part, filter_name="first") for part in ("train", "val"))
    folder = folder_at(dataset)
    first = sorted(folder.read_parts(sample)["txt"].decode() for sample in range(11))
    assert sorted(train + val) == first
    assert train
    assert val


def test_groups_of_a_stable_split_keep_their_part(dataset: Path, tmp_path: Path) -> None:
    run_split(SplitPlan(path=str(dataset), ratio=RATIO, group_by="json[site]", stable=True, by="samples"))
    more = {
        f"x{n}": {"txt": f"site{n}_x".encode(), "json": json.dumps({"site": f"site{n}"}).encode()} for n in range(10)
    }
    other = write_dataset(tmp_path / "more", {"s.tar": more}, {"train": ("s.tar",)})
    run_split(SplitPlan(path=str(other), ratio=RATIO, group_by="json[site]", stable=True, by="samples"))
    for part, unlike in (("train", "val"), ("val", "train")):
        assert not sites(loaded_texts(dataset, part)) & sites(loaded_texts(other, unlike))


def test_leaks_of_groups_and_of_equal_contents_are_counted(dataset: Path) -> None:
    found = find_leaks(str(dataset), group_by="json[site]")
    assert (found.leaking_groups, found.leaking_samples, found.overlapping_samples) == (8, 40, 0)
    assert found.leaks[0].samples == {"train": 4, "val": 4}
    found = find_leaks(str(dataset))
    assert (found.leaking_groups, found.leaking_samples) == (1, 2)
    assert found.leaks[0].group == "s_0.tar/copy_0"
    split_file(dataset).write_text(split_file(dataset).read_text() + "# \n")
    text = split_file(dataset).read_text().replace("exclude: []", "exclude: [s_0.tar/copy_0]")
    split_file(dataset).write_text(text)
    assert find_leaks(str(dataset)).is_clean


def test_undo_brings_back_the_split_and_leaves_no_filter(dataset: Path) -> None:
    before = split_file(dataset).read_bytes()
    run_split(SplitPlan(path=str(dataset), ratio=RATIO, by="samples"))
    assert len(filter_names(folder_at(dataset).storage)) == 2
    assert undo_split(str(dataset))
    assert split_file(dataset).read_bytes() == before
    assert filter_names(folder_at(dataset).storage) == []
    assert not undo_split(str(dataset))


def test_filters_of_splits_that_cannot_return_are_removed(dataset: Path) -> None:
    for seed in range(4):
        run_split(SplitPlan(path=str(dataset), ratio=RATIO, by="samples", seed=seed))
    assert len(filter_names(folder_at(dataset).storage)) == 4  # of this split and the one before


def test_a_dry_run_changes_nothing(dataset: Path) -> None:
    before = sorted((file.name, file.read_bytes()) for file in (dataset / ".nv-meta").glob("*.*"))
    run_split(SplitPlan(path=str(dataset), ratio=RATIO, by="samples", dry_run=True))
    assert sorted((file.name, file.read_bytes()) for file in (dataset / ".nv-meta").glob("*.*")) == before


def test_excluded_samples_stay_excluded(dataset: Path) -> None:
    text = split_file(dataset).read_text().replace("exclude: []", "exclude: [s_0.tar/copy_0, copy_3]")
    split_file(dataset).write_text(text)
    run_split(SplitPlan(path=str(dataset), ratio=RATIO, by="samples"))
    assert "copied" not in loaded_texts(dataset, "train") + loaded_texts(dataset, "val")


def test_lint_knows_that_the_parts_share_no_sample(dataset: Path) -> None:
    run_split(SplitPlan(path=str(dataset), ratio=RATIO, by="samples"))
    codes = {finding.code for finding in lint_dataset(LintPlan(ref=DatasetRef(str(dataset)), level="headers")).findings}
    assert not codes & {"E002", "E203", "E206"}
    for file in (dataset / ".nv-meta").glob("filter_*_val.*"):
        file.unlink()
    assert "E206" in {
        finding.code for finding in lint_dataset(LintPlan(ref=DatasetRef(str(dataset)), level="headers")).findings
    }


def test_new_shards_keep_each_sample_in_its_part(dataset: Path, tmp_path: Path) -> None:
    run_split(SplitPlan(path=str(dataset), ratio=RATIO, by="samples", group_by="json[site]"))
    before = {part: sorted(loaded_texts(dataset, part)) for part in RATIO}
    run_reshard(ReshardPlan(ref=DatasetRef(str(dataset)), output=str(tmp_path / "new")))
    assert {part: sorted(loaded_texts(tmp_path / "new", part)) for part in RATIO} == before
    assert "sample_filters" not in split_file(tmp_path / "new").read_text(), "other tools read whole shards"
    assert filter_names(folder_at(tmp_path / "new").storage) == []


def test_a_missing_filter_is_an_error_and_not_other_samples(dataset: Path) -> None:
    run_split(SplitPlan(path=str(dataset), ratio=RATIO, by="samples"))
    for file in (dataset / ".nv-meta").glob("filter_*"):
        file.unlink()
    with pytest.raises(ConfigError, match="there is no filter"):
        loaded_texts(dataset, "train")


def test_wrong_groups_are_named(dataset: Path) -> None:
    for group_by, message in (("jsn[site]", "there is no column or part"), ("key:(", "is not a regular expression")):
        with pytest.raises(ConfigError, match=message):
            run_split(SplitPlan(path=str(dataset), ratio=RATIO, group_by=group_by))
    with pytest.raises(ConfigError, match=r"part 'val' would have no samples(.|\n)*pass --split-by samples"):
        run_split(SplitPlan(path=str(dataset), ratio=RATIO, group_by="json[site]", by="shards"))


@pytest.mark.parametrize("by", ["auto", "samples"])
def test_each_part_gets_a_group_where_there_are_enough(tmp_path: Path, by: Any) -> None:
    samples = {f"{n:02d}": {"json": json.dumps({"g": n % 7}).encode()} for n in range(21)}
    path = str(write_dataset(tmp_path / "d", {"s_0.tar": samples}, {"train": ("s_0.tar",)}))
    ratio = {"train": 8, "val": 1, "none": 0, "test": 1}
    for seed in range(5):
        report = run_split(SplitPlan(path=path, ratio=ratio, group_by="json[g]", by=by, seed=seed))
        assert [share.samples for share in report.parts.values()] == [15, 3, 0, 3]
    eight = {str(part): 1.0 for part in range(8)}
    with pytest.raises(ConfigError, match="pass a ratio with 7 or fewer parts, or group by something finer"):
        run_split(SplitPlan(path=path, ratio=eight, group_by="json[g]", by=by))
    with pytest.raises(ConfigError, match="omit --stable"):
        run_split(SplitPlan(path=path, ratio={"a": 1e9, "b": 1}, group_by="json[g]", by="samples", stable=True))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_groups_fill_all_parts_that_they_can(sizes: list[int], shares: list[int]) -> None:
    if not any(shares):
        return
    ratio = {str(part): float(share) for part, share in enumerate(shares)}
    parts = assign_balanced([str(group) for group in range(len(sizes))], np.array(sizes), ratio, 0)
    wanted = {part for part, share in enumerate(shares) if share}
    assert {*parts.tolist()} <= wanted
    assert {*parts.tolist()} == wanted or len(wanted) > len(sizes)


def test_a_hostile_name_of_a_filter_is_refused(dataset: Path) -> None:
    split_file(dataset).write_text(split_file(dataset).read_text() + "sample_filters: {train: ../../x, gone: a}\n")
    with pytest.raises(ConfigError) as caught:
        loaded_texts(dataset, "train")
    assert [fault.place for fault in caught.value.faults] == ["sample_filters.train", "sample_filters.gone"]
