"""Merging prepared datasets: keys, splits, columns, filters and descriptions, and kills in between."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loader import random_access
from loader.convert.merging import MergePlan, run_merge
from loader.dataset.dataset import Dataset
from loader.dataset.opening import folder_at
from loader.dataset.split_parts import open_filter
from loader.dataset.tar import tar_index
from loader.errors import ConfigError, FormatError, StorageError
from loader.format.columns.column_files import open_column, write_column
from loader.format.documents.split_config import SplitConfig, format_split_config
from loader.format.filters.build import build_filter_index
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare
from tests.unit.convert.prepared import CRUDE_YAML, loaded_texts, text_samples, two_datasets, write_dataset


def merge(*inputs: Path, output: Path, **settings: object) -> Dataset:
    run_merge(MergePlan(inputs=tuple(map(str, inputs)), output=str(output), **settings))  # type: ignore[arg-type]
    return folder_at(output)


@pytest.mark.parametrize("shards", ["reference", "link", "copy"])
def test_the_merged_dataset_has_all_samples_in_their_parts(tmp_path: Path, shards: str) -> None:
    first, second = two_datasets(tmp_path)
    merged = merge(first, second, output=tmp_path / "all", shards=shards)
    assert loaded_texts(tmp_path / "all", "train") == ["1", "2", "6", "7"]
    assert loaded_texts(tmp_path / "all", "val") == ["3", "4", "5"]
    assert loaded_texts(tmp_path / "all", "extra") == ["1"]
    keys = [merged.index.full_key(sample) for sample in range(len(merged.index))]
    assert len(set(keys)) == 8
    assert merged.read_parts(merged.index.find("a/in/s_1.tar/4")[0])["txt"] == b"4"
    shard = tmp_path / "all/a/s_0.tar"
    assert shard.is_symlink() == (shards == "reference")
    assert os.path.samefile(shard, first / "s_0.tar") == (shards != "copy")
    assert (tmp_path / "all/a/s_0.tar.idx").read_bytes() == (first / "s_0.tar.idx").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "all", "b"]


def test_nothing_is_scanned_again_after_a_merge(tmp_path: Path) -> None:
    first, second = two_datasets(tmp_path)
    merge(first, second, output=tmp_path / "all")
    report = run_prepare(PreparePlan(path=str(tmp_path / "all"), compat=False))
    assert (report.changed, report.scanned) == (False, 0)


def test_references_move_with_the_folders_they_are_in(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    first, second = two_datasets(tmp_path / "disk")
    merge(first, second, output=tmp_path / "disk/all")
    os.rename(tmp_path / "disk", tmp_path / "moved")
    assert loaded_texts(tmp_path / "moved/all", "extra") == ["1"]


def test_links_keep_the_shards_of_removed_inputs(tmp_path: Path) -> None:
    first, second = two_datasets(tmp_path)
    merge(first, second, output=tmp_path / "all", shards="link")
    shutil.rmtree(first)
    shutil.rmtree(second)
    assert loaded_texts(tmp_path / "all", "val") == ["3", "4", "5"]


def test_renamed_keys_are_unique_and_the_inputs_stay(tmp_path: Path) -> None:
    first, second = two_datasets(tmp_path)
    before = (second / "s_1.tar").read_bytes()
    merged = merge(first, second, output=tmp_path / "all", rename_keys=True, compat=True, shards="link")
    assert (second / "s_1.tar").read_bytes() == before
    assert tar_index(merged).layout.duplicate_keys == 0
    assert (tmp_path / "all/.nv-meta/index.sqlite").exists()
    assert loaded_texts(tmp_path / "all", "extra") == ["1"]


def test_repeated_bare_keys_are_counted(tmp_path: Path) -> None:
    first, second = two_datasets(tmp_path)
    report = run_merge(MergePlan(inputs=(str(first), str(second)), output=str(tmp_path / "all")))
    assert report.duplicate_keys == 1
    assert any("--rename-keys" in warning for warning in report.warnings)


def test_excluded_samples_and_ranges_are_carried(tmp_path: Path) -> None:
    request = SplitRequest(ratio={"train": 0.5, "val": 0.5}, by_samples=True)
    for name, keys in (("a", ["1", "2", "3", "4"]), ("b", ["5", "6", "7", "8"])):
        write_dataset(tmp_path / name, {"s.tar": text_samples(keys)}, {"train": ("s.tar",)})
        run_prepare(PreparePlan(path=str(tmp_path / name), split=request))
    split = folder_at(tmp_path / "a").documents.split
    assert split is not None
    excluding = SplitConfig(split_parts=split.split_parts, exclude=("1",), sample_ranges=split.sample_ranges)
    (tmp_path / "a/.nv-meta/split.yaml").write_text(format_split_config(excluding))
    merged = merge(tmp_path / "a", tmp_path / "b", output=tmp_path / "all")
    assert merged.documents.split is not None
    assert merged.documents.split.exclude == ("a/s.tar/1",)
    assert loaded_texts(tmp_path / "all", "train") == ["2", "5", "6"]
    assert loaded_texts(tmp_path / "all", "val") == ["3", "4", "7", "8"]


def test_parts_with_different_ranges_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_dataset(tmp_path / name, {"s.tar": text_samples(["1", "2"])}, {"train": ("s.tar",)})
    request = SplitRequest(ratio={"train": 0.5, "val": 0.5}, by_samples=True)
    run_prepare(PreparePlan(path=str(tmp_path / "b"), split=request))
    with pytest.raises(ConfigError, match=r"part 'train' has whole shards in .*, and the samples"):
        merge(tmp_path / "a", tmp_path / "b", output=tmp_path / "all")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


def test_common_columns_and_filters_are_carried_and_others_named(tmp_path: Path) -> None:
    inputs = two_datasets(tmp_path)
    for number, path in enumerate(inputs):
        folder = folder_at(path)
        samples = len(folder.index)
        write_column(folder.storage, folder.index, "score", np.arange(samples, dtype=np.float32) + 10 * number)
        texts = ("cat", "dog") if number == 0 else ("dog", "owl")
        values = np.array([sample % 2 for sample in range(samples)], np.uint8)
        write_column(folder.storage, folder.index, "kind", values, categories=texts)
        build_filter_index(path, "first", [0])
    own = folder_at(inputs[0])
    write_column(own.storage, own.index, "only_here", np.zeros(len(own.index)))
    report = run_merge(MergePlan(inputs=tuple(map(str, inputs)), output=str(tmp_path / "all")))
    assert report.columns == ("kind", "score")
    assert report.filters == ("first",)
    assert any("'only_here' was dropped" in warning for warning in report.warnings)
    merged = folder_at(tmp_path / "all")
    for number, path in enumerate(inputs):
        folder, prefix = folder_at(path), "ab"[number]
        for name in ("kind", "score"):
            before = open_column(folder.storage, folder.index, name)
            after = open_column(merged.storage, merged.index, name)
            for sample in range(len(folder.index)):
                found = merged.index.find(f"{prefix}/{folder.index.full_key(sample)}")[0]
                assert after.value(found) == before.value(sample)
    kept = open_filter(merged, "first")
    numbers = kept.numbers(np.arange(len(kept))).tolist()
    assert [merged.index.full_key(number) for number in numbers] == [
        f"{prefix}/{folder_at(path).index.full_key(0)}" for prefix, path in zip("ab", inputs, strict=True)
    ]


def test_different_descriptions_are_refused_unless_crude(tmp_path: Path) -> None:
    first, second = two_datasets(tmp_path)
    for path, source in ((first, "web"), (second, "book")):
        (path / ".nv-meta/dataset.yaml").write_text(f"{CRUDE_YAML}subflavors: {{source: {source}}}\n")
    with pytest.raises(ConfigError, match=r"subflavors\.source: web and book"):
        merge(first, second, output=tmp_path / "all")
    merge(first, second, output=tmp_path / "all", crude=True)
    assert not (tmp_path / "all/.nv-meta/dataset.yaml").exists()


def test_equal_descriptions_are_carried(tmp_path: Path) -> None:
    first, second = two_datasets(tmp_path)
    (first / ".nv-meta/dataset.yaml").write_text(f"# a comment\n{CRUDE_YAML}")
    (second / ".nv-meta/dataset.yaml").write_text(CRUDE_YAML)
    merge(first, second, output=tmp_path / "all")
    assert (tmp_path / "all/.nv-meta/dataset.yaml").read_text().endswith(CRUDE_YAML)


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for parent in ("coco", "laion"):
        write_dataset(tmp_path / parent / "train", {"s.tar": text_samples([parent])}, {"train": ("s.tar",)})
    merged = merge(tmp_path / "coco/train", tmp_path / "laion/train", output=tmp_path / "all")
    assert [*merged.shard_counts] == ["coco-train/s.tar", "laion-train/s.tar"]


def test_a_full_output_and_one_dataset_twice_are_refused(tmp_path: Path) -> None:
    first, second = two_datasets(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/note.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"found note\.txt in it"):
        merge(first, second, output=tmp_path / "full")
    (tmp_path / "alias").symlink_to(first)
    with pytest.raises(ConfigError, match="are the same dataset"):
        merge(first, tmp_path / "alias", output=tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_changed_shard_is_refused(tmp_path: Path) -> None:
    first, second = two_datasets(tmp_path)
    with (first / "s_0.tar").open("ab") as file:
        file.write(bytes(512))
    with pytest.raises(FormatError, match="has changed since it was indexed"):
        merge(first, second, output=tmp_path / "all")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


_KILLED = """
import os, signal, sys
from loader.convert import merging
from loader.convert.merging import MergePlan, run_merge

moment, first, second, output = sys.argv[1:]

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if moment != "shards":
    setattr(merging, moment, kill)
plan = MergePlan(inputs=(first, second), output=output, shards="copy")
run_merge(plan, on_progress=kill if moment == "shards" else None)
"""


@pytest.mark.parametrize("moment", ["shards", "run_prepare", "_new_order"])
@pytest.mark.sampled(3)
def test_a_kill_leaves_nothing_and_the_next_run_the_whole(tmp_path: Path, moment: str) -> None:
    first, second = two_datasets(tmp_path)
    output = tmp_path / "all"
    done = subprocess.run([sys.executable, "-c", _KILLED, moment, first, second, output], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not output.exists()
    merge(first, second, output=output)
    assert random_access(output, split_part="train")[0]["txt"] == "1"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "all", "b"]
