"""The attributes of dataset classes that code for megatron-energon reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loader import CaptioningSample, DatasetLoader, EPath, JoinedWebdatasetFactory, WorkerConfig, load_dataset
from loader.compat.webdataset_factory import ShardInfo
from loader.prepare.plan import SplitRequest
from loader.training.datasets.dataset_factory import DatasetSubset
from tests.e2e.dataset_tree import prepare, write_shards

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_shards(tmp_path_factory.mktemp("attributes") / "dataset", 2)
    prepare(folder, split=SplitRequest(ratio={"train": 1.0}))
    return folder


def test_a_dataset_lists_its_shards(folder: Path) -> None:
    dataset: Any = DatasetLoader(path=folder).get_dataset(
        training=True, worker_config=ONE, subflavors={"a": 1}, parallel_shard_iters=3
    )
    names = dataset.split_part_files
    assert sorted(names) == sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.tar"))
    assert dataset.shards == [ShardInfo(name=name, path=EPath(folder / name), count=3) for name in names]
    assert (dataset.sample_excludes, dataset.paths, dataset.subflavors) == (set(), [EPath(folder)], {"a": 1})
    assert dataset.parallel_shard_iters == 3


def test_a_join_lists_its_datasets(folder: Path) -> None:
    inner: Any = DatasetLoader(path=folder).get_dataset(training=False, split_part="train", worker_config=ONE)
    join = JoinedWebdatasetFactory(
        {"left": inner, "right": inner}, joiner=CaptioningSample, worker_config=ONE, join_index="x"
    )
    assert (join.inner_dataset_keys, join.paths, join.join_index) == (["left", "right"], [EPath(folder)] * 2, "x")
    assert JoinedWebdatasetFactory([inner], joiner=CaptioningSample, worker_config=ONE).inner_dataset_keys is None


def test_a_subset_is_passed_when_a_path_is_opened(folder: Path) -> None:
    half = DatasetSubset(range=(0.0, 0.5))
    assert half.config() == {"range": (0.0, 0.5), "absolute_range": None}
    opened = load_dataset(folder)
    opened.post_initialize()
    datasets = opened.get_datasets(training=True, worker_config=ONE, subset=half)
    assert [len(loaded.dataset) for loaded in datasets] == [3]
    assert datasets[0].dataset.paths == [EPath(folder)]
    assert len(DatasetLoader(path=folder).get_dataset(training=True, worker_config=ONE, subset=half)) == 3
    again = DatasetLoader(path=folder).get_dataset(training=True, worker_config=ONE, shuffle_over_epochs=2)
    assert again.shuffle_over_epochs == 2
    assert [one.path for one in opened.traverse(EPath(folder), split_part="train")] == [EPath(folder)]
