"""A split by samples: a part is a range of the samples of each of its shards."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from loader import (
    WorkerConfig,
    build_filter_index,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    random_access,
)
from loader.compat.webdataset_factory import WebdatasetMeta
from loader.dataset.opening import folder_at
from loader.errors import ConfigError
from loader.inspect import path_facts
from loader.lint.metadata import check_split
from loader.metadataset.leaf_samples import LeafCounter
from loader.metadataset.plans.plan_leaves import plan_leaves
from loader.prepare import PreparePlan, run_prepare
from loader.prepare.plan import SplitRequest
from tests.e2e.dataset_tree import prepare
from tests.e2e.text_dataset import exclude, write_texts
from tests.elastic_runs import Pipeline, Spread, check_every_save
from tests.source_tree import ROOT

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0)
SIZES = (41, 13, 30)
PEER = ROOT / ".venv-peer/bin/python"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards of 41, 13 and 30 texts, divided 8,1,1."""
    folder = write_texts(tmp_path / "texts", train=SIZES[:2], val=SIZES[2:])
    prepare(folder, split=SplitRequest(ratio={"train": 8, "val": 1, "test": 1}, by_samples=True))
    return folder


def numbers_of(path: Path, part: str, **kwargs: Any) -> list[int]:
    batches = get_loader(get_val_dataset(path, split_part=part, worker_config=ONE, batch_size=7, **kwargs))
    return [int(text.removeprefix("text ")) for batch in batches for text in batch.text]


def ranges(share: slice) -> list[int]:
    """Return the numbers of the texts in a share of each shard, in tenths."""
    found: list[int] = []
    first = 0
    for size in SIZES:
        found += range(first + size * share.start // 10, first + size * share.stop // 10)
        first += size
    return found


def test_parts_divide_every_shard_without_overlap(folder: Path) -> None:
    parts = {part: numbers_of(folder, part) for part in ("train", "val", "test")}
    assert parts == {"train": ranges(slice(0, 8)), "val": ranges(slice(8, 9)), "test": ranges(slice(9, 10))}
    assert sorted(number for numbers in parts.values() for number in numbers) == list(range(sum(SIZES)))
    assert [int(sample.text[5:]) for sample in random_access(folder, "val")] == parts["val"]
    shards = WebdatasetMeta.from_config(folder, split_part="val").shards
    assert [shard.count for shard in shards] == [4, 1, 3]


def test_ranges_of_numbers_ignore_a_shard_that_is_gone(folder: Path) -> None:
    # The prepare ended with an error after it had written the index.
    split = folder / ".nv-meta/split.yaml"
    document = yaml.safe_load(split.read_text()) | {"sample_ranges": {"train": [0, 10], "val": [10, "end"]}}
    split.write_text(yaml.safe_dump(document))
    (folder / "train_1.tar").unlink()
    report = run_prepare(PreparePlan(path=str(folder)))
    assert {part: report.split[part] for part in ("train", "val")} == {"train": (3, 20), "val": (3, 51)}
    shards = WebdatasetMeta.from_config(folder, split_part="train").shards
    assert {shard.name: shard.count for shard in shards} == {"train_0.tar": 10, "val_0.tar": 10}


def test_exclusions_and_filters_apply_within_the_ranges(folder: Path) -> None:
    exclude(folder, "train_0.tar/00033", "train_0.tar/00000")
    assert numbers_of(folder, "val") == [number for number in ranges(slice(8, 9)) if number != 33]
    build_filter_index(folder, "even", range(0, sum(SIZES), 2))
    even = [number for number in ranges(slice(8, 9)) if number % 2 == 0]
    assert numbers_of(folder, "val", filter_name="even") == even
    facts = {split["name"]: split["samples"] for split in path_facts(str(folder))["splits"]}
    assert facts == {"train": 66 - 1, "val": 8 - 1, "test": 10}
    assert sum(facts.values()) == sum(SIZES) - 2


def test_metadatasets_count_and_cut_the_ranges(folder: Path) -> None:
    exclude(folder, "train_0.tar/00033")
    build_filter_index(folder, "even", range(0, sum(SIZES), 2))
    for settings in ({}, {"subset": {"range": ["0%", "50%"]}}, {"filter": "even"}):
        document = {
            "__module__": "megatron.energon",
            "__class__": "MetadatasetV2",
            "splits": {"val": {"path": "texts", **settings}},
        }
        mix = folder.parent / "mix.yaml"
        mix.write_text(yaml.safe_dump(document))
        [leaf] = plan_leaves(mix, split_part="val", training=False)
        assert LeafCounter().count(leaf) == len(numbers_of(mix, "val")) > 0


def train(path: Path, config: WorkerConfig) -> Any:
    return get_train_dataset(
        path, worker_config=config, batch_size=3, shuffle_buffer_size=20, max_samples_per_sequence=5
    )


def test_training_continues_exactly_on_any_number_of_ranks(folder: Path) -> None:
    pipeline = Pipeline(build=partial(train, folder), batches=24)
    delivered = check_every_save(pipeline, Spread(2), [Spread(1), Spread(4, 1)], every=7)
    assert len(delivered) == 24


def test_another_prepare_keeps_the_ranges(folder: Path) -> None:
    before = (folder / ".nv-meta/split.yaml").read_text()
    report = run_prepare(PreparePlan(path=str(folder)))
    assert report.split == {"train": (3, 66), "val": (3, 8), "test": (3, 10)}
    assert (folder / ".nv-meta/split.yaml").read_text() == before


def test_lint_finds_ranges_that_overlap_or_do_not_fit(folder: Path) -> None:
    assert not list(check_split(folder_at(folder)))
    path = folder / ".nv-meta/split.yaml"
    split = yaml.safe_load(path.read_text())
    split["sample_ranges"] |= {"test": ["85%", "100%"], "train": [0, 20]}
    path.write_text(yaml.safe_dump(split, sort_keys=False))
    found = {(finding.code, finding.message) for finding in check_split(folder_at(folder))}
    assert ("E203", "the shard is in parts 'val' and 'test'") in found
    assert any(code == "E002" and "does not fit into 13 samples" in message for code, message in found)
    with pytest.raises(ConfigError, match="does not fit into 13 samples"):
        numbers_of(folder, "train")


@pytest.mark.skipif(not PEER.exists(), reason="megatron-energon is not installed")
@pytest.mark.slow
def test_megatron_energon_refuses_the_file(folder: Path) -> None:
    code = (
        "import sys; from megatron.energon import *; get_val_dataset(sys.argv[1], batch_size=1,"
        " worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0))"
    )
    done = subprocess.run(
        [PEER, "-c", code, folder],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={},
    )
    assert done.returncode == 1
    assert "sample_ranges" in done.stderr
