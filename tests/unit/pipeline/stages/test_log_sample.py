"""The log of samples: its path and its content."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loader.pipeline.contract.worker_config import WorkerConfig
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.map import MapDataset
from loader.pipeline.stages.observers import LogSampleDataset
from loader.testing.stage import Values, check_resumes
from loader.training.loaders.data_loader import SavableDataLoader


def samples(
    path: Path | None, *, count: int = 8, level: int = 1, workers: int = 0, rank: int = 0, world_size: int = 1
) -> Values:
    config = WorkerConfig(
        rank=rank,
        world_size=world_size,
        num_workers=workers,
        lanes=4,
        worker_debug_path=path,
        worker_log_level=level,
    )
    made = [{"__key__": f"a.tar/{number}", "number": number} for number in range(count)]
    return Values(made, worker_config=config)


def each_twice(sample: dict[str, Any]) -> Iterator[Any]:
    yield sample
    yield sample | {"again": True}


def numbers_of(batch: list[dict[str, Any]]) -> list[str]:
    return [str(sample["number"]) for sample in batch]


def no_keys(batch: list[dict[str, Any]]) -> Any:
    return None


def entries(path: Path) -> list[dict[str, Any]]:
    """Read the lines of the stage; the loader writes others."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["t"] == "yield_batch"]


def test_each_item_is_logged_as_a_line_with_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "made" / "as needed.jsonl"
    loader = SavableDataLoader(LogSampleDataset(BatchDataset(samples(path), 2, list), "train"))
    batches = list(loader)

    lines = entries(path)
    assert [line["keys"] for line in lines] == [[sample["__key__"] for sample in batch] for batch in batches]
    assert [(line["mode"], line["lane"], line["batch"]) for line in lines] == [("train", n % 4, n) for n in range(4)]


def test_logged_restore_keys_restore_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    logged = LogSampleDataset(MapDataset(samples(path), each_twice), "val")
    loader = SavableDataLoader(BatchDataset(logged, 4, list))
    made = [sample for batch in loader for sample in batch]

    keys = [line["restore_key"] for line in entries(path)]
    assert [loader.restore_sample(key) for key in keys] == made


def test_each_worker_of_each_rank_writes_another_file(tmp_path: Path) -> None:
    for rank in range(2):
        source = samples(tmp_path / "{rank} {worker_id}", workers=2, rank=rank, world_size=2)
        assert len(list(SavableDataLoader(LogSampleDataset(source, "train")))) == 4

    # The first of each rank is that of the loader.
    assert {path.name: len(entries(path)) for path in tmp_path.iterdir()} == {
        "0 0": 0,
        "0 1": 2,
        "0 2": 2,
        "1 3": 0,
        "1 4": 2,
        "1 5": 2,
    }


def test_the_path_may_contain_the_process_id(tmp_path: Path) -> None:
    list(SavableDataLoader(LogSampleDataset(samples(tmp_path / "{pid}"), "train")))

    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]


@pytest.mark.parametrize(("keys", "logged"), [(numbers_of, ["0", "4"]), (no_keys, None)])
def test_a_function_may_return_the_keys(tmp_path: Path, keys: Callable[..., Any], logged: list[str] | None) -> None:
    path = tmp_path / "log"
    list(SavableDataLoader(LogSampleDataset(BatchDataset(samples(path), 2, list), "train", get_keys_fn=keys)))

    assert entries(path)[0]["keys"] == logged


@pytest.mark.parametrize(("named", "level"), [(False, 2), (True, 0)])
def test_nothing_is_written_unless_the_config_requests_it(tmp_path: Path, named: bool, level: int) -> None:
    source = samples(tmp_path / "log" if named else None, level=level)

    assert len(list(SavableDataLoader(LogSampleDataset(source, "train")))) == 8
    assert not list(tmp_path.iterdir())


def test_a_restored_lane_continues_where_it_stopped(tmp_path: Path) -> None:
    check_resumes(LogSampleDataset(MapDataset(samples(tmp_path / "log"), each_twice), "train"), count=2)


def test_a_run_may_be_restored_with_or_without_it(tmp_path: Path) -> None:
    source = samples(tmp_path / "log")
    with_it = MapDataset(LogSampleDataset(source, "train"), each_twice)

    assert (with_it.identity(), with_it.key) == ((other := MapDataset(source, each_twice)).identity(), other.key)
