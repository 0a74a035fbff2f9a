"""``load_dataset``: the kind of a path, and its use without a loader."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import (
    ConfigError,
    DatasetLoader,
    DefaultTaskEncoder,
    EPath,
    Metadataset,
    MetadatasetV2,
    StorageError,
    WorkerConfig,
    get_loader,
    load_dataset,
    traverse_metadataset,
)
from tests.e2e.mixed_data import MixedData, write_mixed_data

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> MixedData:
    return write_mixed_data(tmp_path_factory.mktemp("loaded"))


def test_the_kind_of_a_path_is_found_by_its_content(data: MixedData) -> None:
    second = data.write("second.yaml", {"train": {"path": "texts"}})
    first = data.folder / "first.yaml"
    first.write_text("__class__: Metadataset\nsplits: {train: {datasets: [{path: texts}]}}\n")
    kinds = [type(load_dataset(path)) for path in (data.texts, data.lines, first, second)]
    assert kinds == [DatasetLoader, DatasetLoader, Metadataset, MetadatasetV2]


def test_an_invalid_metadataset_is_refused_at_once(data: MixedData, tmp_path: Path) -> None:
    path = data.write("wrong.yaml", {"train": {"blend": [{"weight": "five", "path": "texts"}]}})
    with pytest.raises(ConfigError, match=r"splits.train.blend\[0\].weight"):
        load_dataset(path)
    with pytest.raises(StorageError):
        load_dataset(tmp_path / "gone.yaml")


def test_chains_are_built_on_the_datasets_of_a_mix(data: MixedData) -> None:
    path = data.write("mix.yaml", {"train": {"blend": [{"weight": 3, "path": "texts"}, {"weight": 1, "path": "more"}]}})
    datasets = load_dataset(path, subflavors={"a": 1}).get_datasets(
        training=True, worker_config=ONE, subflavors={"b": 2}, max_samples_per_sequence=5
    )
    assert [source.samples for source in datasets.sources] == [157, 40]
    settings = [(leaf.plan.weight, leaf.plan.repetitions, leaf.slice_samples) for leaf in datasets.leaves]
    assert settings == [(0.75, None, 5), (0.25, None, 5)]
    chain = DefaultTaskEncoder().build_train_datasets(
        datasets=datasets,
        worker_config=ONE,
        batch_size=8,
        batch_drop_last=False,
        packing_buffer_size=None,
        virtual_epoch_length=0,
        shuffle_buffer_size=100,
        repeat=True,
    )
    batch = next(iter(get_loader(chain)))
    assert len(batch.text) == 8
    assert batch.__subflavors__[0] == {"a": 1, "b": 2}


def test_epochs_that_are_shuffled_together_multiply_unless_one_is_special(data: MixedData) -> None:
    for own, asked, expected in ((2, 3, 6), (-1, 3, -1), (2, -1, -1), (None, -1, None), (2, None, None)):
        loaded = load_dataset(data.texts, shuffle_over_epochs_multiplier=own)
        datasets = loaded.get_datasets(training=True, shuffle_over_epochs_multiplier=asked)
        assert [leaf.plan.request.epochs_together for leaf in datasets.leaves] == [expected]


def test_datasets_are_listed_without_being_opened(data: MixedData) -> None:
    path = data.write("list.yaml", {"train": {"blend": [{"path": "texts"}, {"path": "gone"}]}})
    found = load_dataset(path).traverse(split_part="train")
    assert found == traverse_metadataset(path, split_part="train")
    assert [one.path for one in found] == [EPath(data.texts), EPath(data.folder / "gone")]
    assert [one.path for one in load_dataset(data.more).traverse(split_part="val")] == [EPath(data.more)]


def test_only_joins_are_prepared(data: MixedData) -> None:
    assert load_dataset(data.texts).prepare() == ()
    assert load_dataset(data.write("plain.yaml", {"train": {"path": "texts"}})).prepare("train") == ()
    join = {"join": [{"path": "crude"}, {"path": "crude"}], "joiner": {"__module__": "m", "__function__": "f"}}
    path = data.write("joined.yaml", {"train": join})
    assert load_dataset(path).prepare() == (str(path),)
