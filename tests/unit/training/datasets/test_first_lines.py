"""Test what a first script needs: defaults, and what datasets and loaders show of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loader import (
    BlendDataset,
    DataLoader,
    SavableDataset,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
    get_val_datasets,
)
from tests.unit.pipeline.tar_dataset import texts, write_dataset

ONE = WorkerConfig(rank=0, world_size=1, num_workers=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("first") / "ds", {"a.tar": texts(0, 30)})


def test_a_path_is_enough_and_the_chain_shows_the_defaults(folder: Path) -> None:
    dataset = get_train_dataset(folder)
    explicit = get_train_dataset(
        folder,
        batch_size=1,
        shuffle_buffer_size=1000,
        max_samples_per_sequence=100,
        worker_config=WorkerConfig.default_worker_config(),
    )
    assert str(dataset) == str(explicit)
    assert "batch(batch_size=1, " in str(dataset)
    assert "slice_lengths=100, shuffle_buffer=1000, " in str(dataset)
    assert ", ranks=1, workers=4)" in str(dataset)
    for of_validation in (get_val_dataset, get_val_datasets):
        assert "batch_size=1" in repr(of_validation(folder, split_part="train"))


def test_none_is_no_default(folder: Path) -> None:
    given: dict[str, Any] = {"shuffle_buffer_size": None, "max_samples_per_sequence": None}
    chain = str(get_train_dataset(folder, batch_size=None, **given))
    assert "batch(" not in chain
    assert "shuffle_buffer=1000" not in chain
    assert "slice_lengths=100" not in chain


def test_the_numbers_of_workers_and_ranks_are_no_part_of_the_identity(folder: Path) -> None:
    many = WorkerConfig(rank=1, world_size=2, num_workers=3)
    one, other = (get_train_dataset(folder, worker_config=config) for config in (ONE, many))
    assert one.identity() == other.identity()
    assert ", ranks=2, workers=3)" in str(other)


def test_datasets_and_loaders_show_paths_and_numbers_in_one_line(folder: Path) -> None:
    dataset = get_train_dataset(folder, worker_config=ONE)
    shown = f"<batch(batch_size=1, drop_last=False) of {folder}, train: 30 samples>"
    assert repr(dataset) == shown
    assert repr(get_loader(dataset)) == f"<DataLoader with 0 workers, rank 0 of 1: {shown}>"
    blend: BlendDataset[Any] = BlendDataset(*[(dataset, 1)] * 5)
    assert repr(blend).endswith(f" of {', '.join([f'{folder}, train: 30 samples'] * 3)} and 2 more>")


class Own(SavableDataset[Any]):
    """A dataset of a user."""

    def __init__(self, inner: SavableDataset[Any]) -> None:
        super().__init__(inner.worker_config)
        self.inner = inner

    def extra(self) -> None: ...


def test_dir_lists_what_a_user_calls(folder: Path) -> None:
    dataset = get_train_dataset(folder, worker_config=ONE)
    names = dir(dataset)
    assert {"batch_size", "save_state", "restore_state", "restore_sample", "worker_config"} <= {*names}
    assert not {"lane_bound", "state_schema", "open"} & {*names}
    assert {"extra", "inner", "save_state"} <= {*dir(Own(dataset))}
    loader: DataLoader[Any] = get_loader(dataset)
    assert {"save_state_rank", "stats", "profile", "to_device", "start", "num_workers", "dataset"} <= {*dir(loader)}
    assert not {"run", "collate_fn", "check_worker_number_rationality"} & {*dir(loader)}
    assert all(hasattr(loader, name) for name in dir(loader))
    assert all(hasattr(dataset, name) for name in names)
