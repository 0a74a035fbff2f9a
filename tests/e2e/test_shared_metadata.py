"""Ranks that open datasets with the documents that one of them has read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from loader import ConfigError, EnergonError, WorkerConfig, get_loader, get_train_dataset, get_val_datasets
from loader.pipeline.contract.rank_group import broadcast
from loader.training.datasets import open_sources
from tests.cli.make_mix import write_datasets, write_mix
from tests.e2e.rank_processes import RankProcesses, rank_processes

RANKS = 2
DOCUMENTS = (".json", ".yaml", ".uuid", ".idx", ".jsonl")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankProcesses]:
    with rank_processes(RANKS, tmp_path_factory.mktemp("group")) as processes:
        yield processes


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_datasets(tmp_path_factory.mktemp("datasets"))
    blend = [{"path": "a", "weight": 2}, {"path": "b", "weight": 1}]
    return write_mix(folder, train=blend, val=blend)


# ------------------------------------------------------------------------------------------------- functions of ranks


def config(rank: int, *, shares: bool) -> WorkerConfig:
    return WorkerConfig(rank=rank, world_size=RANKS, num_workers=0, share_metadata=shares)


def opened_documents(rank: int, path: str, shares: bool) -> tuple[list[str], list[list[str]]]:
    """Return the documents that this rank opened for a dataset and its first batches, and the keys of these."""
    found: list[str] = []
    folder = os.path.dirname(path)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(folder) and str(arguments[0]).endswith(DOCUMENTS):
            found.append(os.path.relpath(arguments[0], folder))

    sys.addaudithook(note)
    dataset = get_train_dataset(
        path,
        worker_config=config(rank, shares=shares),
        batch_size=2,
        shuffle_buffer_size=10,
        max_samples_per_sequence=4,
    )
    keys = [list(batch.__key__) for _, batch in zip(range(6), get_loader(dataset), strict=False)]
    folder = "\0"  # a hook cannot be removed
    return found, keys


def error_of(rank: int, path: str) -> str:
    try:
        get_train_dataset(
            path,
            worker_config=config(rank, shares=True),
            batch_size=2,
            shuffle_buffer_size=10,
            max_samples_per_sequence=4,
        )
    except EnergonError as error:
        return str(error)
    return ""


def error_for_a_moment(rank: int, path: str) -> str:
    """Open datasets, of which rank 0 cannot read a document, and rank 1 can a moment later."""
    document = Path(path).parent / "b/.nv-meta/split.yaml"
    if rank == 0:
        document.rename(document.with_name("moved"))
        document.mkdir()

    def wait(held: Any, config: WorkerConfig) -> Any:
        received = broadcast(held, config)
        if rank == 1:
            document.rmdir()
            document.with_name("moved").rename(document)
        return received

    with patch.object(open_sources, "broadcast", wait):
        return error_of(rank, path)


def lengths_of_validation(rank: int, path: str) -> list[int]:
    found = get_val_datasets(path, worker_config=config(rank, shares=True), batch_size=2)
    return [len(dataset) for dataset, _ in found]


# --------------------------------------------------------------------------------------------------------------- tests


def test_only_the_first_rank_opens_documents_and_the_batches_are_the_same(ranks: RankProcesses, mix: Path) -> None:
    alone = ranks.run(opened_documents, str(mix), False)
    together = ranks.run(opened_documents, str(mix), True)
    assert "mix.yaml" in together[0][0]
    assert "a/.nv-meta/dataset.yaml" in together[0][0]
    assert len(alone[1][0]) == len(together[0][0]) > 8
    assert together[1][0] == []
    assert [keys for _, keys in together] == [keys for _, keys in alone]


def test_an_error_of_the_first_rank_reaches_all_and_none_waits(ranks: RankProcesses, mix: Path) -> None:
    broken = write_mix(mix.parent, "broken.yaml", train=[{"path": "a"}, {"path": "nothing"}])
    errors = ranks.run(error_of, str(broken))
    assert "nothing" in errors[0]
    assert errors[1] == errors[0]
    assert ranks.run(error_of, str(mix)) == ["", ""]


def test_an_error_that_only_the_first_rank_has_ends_all_ranks(ranks: RankProcesses, mix: Path) -> None:
    errors = ranks.run(error_for_a_moment, str(mix))
    assert "found a directory" in errors[0]
    assert errors[1].startswith("rank 0 could not open the datasets")
    assert ranks.run(error_of, str(mix)) == ["", ""]


def test_validation_datasets_share_their_metadata(ranks: RankProcesses, mix: Path) -> None:
    assert ranks.run(lengths_of_validation, str(mix)) == [[1, 1], [1, 1]]


def test_ranks_without_a_process_group_are_refused(mix: Path) -> None:
    with pytest.raises(ConfigError, match=r"torch\.distributed, which is not initialised"):
        get_train_dataset(
            mix,
            worker_config=config(0, shares=True),
            batch_size=2,
            shuffle_buffer_size=10,
            max_samples_per_sequence=4,
        )


def test_one_rank_needs_no_process_group(mix: Path) -> None:
    alone = WorkerConfig(rank=0, world_size=1, num_workers=0, share_metadata=True)
    dataset = get_train_dataset(
        mix, worker_config=alone, batch_size=2, shuffle_buffer_size=10, max_samples_per_sequence=4
    )
    assert len(next(iter(get_loader(dataset))).__key__) == 2
