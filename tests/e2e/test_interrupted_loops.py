"""Continue loaders whose loop was ended by an error, by Ctrl-C, or by another loop."""

from __future__ import annotations

import gc
import os
import weakref
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from loader import (
    DefaultTaskEncoder,
    StateError,
    TaskEncoder,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    reraise_exception,
)
from tests.e2e.text_dataset import write_texts


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"))


class FailsOnce(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Encoder that fails once, for a sample of the fifth micro-batch."""

    def __init__(self, error: type[BaseException] | None) -> None:
        super().__init__()
        self.error = error

    def encode_sample(self, sample: Any) -> Any:
        if self.error is not None and self.current_batch_index == 4:
            error, self.error = self.error, None
            raise error("on purpose")
        return sample


def loader_of(path: Path, *, workers: int = 0, encoder: DefaultTaskEncoder[Any, Any, Any, Any] | None = None) -> Any:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers, global_error_handler=reraise_exception)
    dataset = get_train_dataset(
        path,
        batch_size=4,
        shuffle_buffer_size=10,
        max_samples_per_sequence=10,
        worker_config=config,
        task_encoder=encoder,
    )
    return get_savable_loader(dataset)


def keys(batches: Any) -> list[list[str]]:
    return [batch.__key__ for batch in batches]


def deliver(loader: Any, delivered: list[list[str]]) -> None:
    """Record the keys of each micro-batch on delivery, because the loop may end by an error."""
    delivered.extend(batch.__key__ for batch in loader)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_loop_that_an_error_ended_goes_on_where_it_stopped(texts: Path, error: type[BaseException]) -> None:
    expected = keys(islice(loader_of(texts), 12))
    loader = loader_of(texts, encoder=FailsOnce(error))
    delivered: list[list[str]] = []
    with pytest.raises(error):
        deliver(loader, delivered)
    assert delivered == expected[:4]
    assert loader.save_state_rank()["batch"] == 4
    assert delivered + keys(islice(loader, 8)) == expected


def test_a_loop_whose_worker_failed_goes_on_where_it_stopped(texts: Path) -> None:
    expected = keys(islice(loader_of(texts), 8))
    loader = loader_of(texts, workers=1, encoder=FailsOnce(ValueError))
    delivered: list[list[str]] = []
    with pytest.raises(ValueError, match="on purpose"):
        deliver(loader, delivered)
    assert delivered == expected[: len(delivered)]
    loader.dataset.inputs[0].map_fn.__self__.error = None
    assert delivered + keys(islice(loader, 8 - len(delivered))) == expected
    loader.close()


def test_an_iteration_that_is_over_takes_no_batch_from_the_next(texts: Path) -> None:
    expected = keys(islice(loader_of(texts), 3))
    loader = loader_of(texts)
    old, new = iter(loader), iter(loader)
    with pytest.raises(StateError, match="another one has begun"):
        next(old)
    assert keys(islice(new, 3)) == expected


def test_an_iteration_from_before_a_restore_takes_no_batch(texts: Path) -> None:
    loader = loader_of(texts)
    state = loader.save_state_rank()
    before = iter(loader)
    loader.restore_state_rank(state)
    with pytest.raises(StateError, match="a state was restored"):
        next(before)


def test_other_shards_of_the_same_size_are_other_data(tmp_path: Path) -> None:
    write_texts(tmp_path, train=(20, 20), val=(20, 20))
    state = loader_of(tmp_path).save_state_rank()
    split = tmp_path / ".nv-meta/split.yaml"
    document = yaml.safe_load(split.read_text())
    parts = document["split_parts"]
    parts["train"], parts["val"] = parts["val"], parts["train"]
    split.write_text(yaml.safe_dump(document))
    with pytest.raises(StateError, match=r"checksum of the selected samples \d+ → \d+"):
        loader_of(tmp_path).restore_state_rank(state)


def test_workers_leave_the_generators_of_the_trainer_alone(texts: Path) -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    loader = loader_of(texts, workers=1)
    next(iter(loader))
    assert torch.equal(torch.rand(3), expected)
    loader.close()


class Collecting(TaskEncoder[Any, Any, Any, Any]):
    """Encoder that runs the garbage collector of its process."""

    decoder = None

    def encode_sample(self, sample: Any) -> Any:
        gc.collect()
        return sample


class Cycle:
    """Object that references itself, so that only the garbage collector deletes it."""

    def __init__(self) -> None:
        self.own = self


def test_workers_leave_the_garbage_of_their_trainer_alone(texts: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def note() -> None:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")

    gc.disable()
    try:
        weakref.finalize(Cycle(), note)
        dataset = get_train_dataset(
            texts,
            batch_size=2,
            shuffle_buffer_size=None,
            max_samples_per_sequence=None,
            task_encoder=Collecting(),
            worker_config=WorkerConfig(rank=0, world_size=1, num_workers=1, lanes=2),
        )
        loader = get_loader(dataset, multiprocessing_context="fork")
        next(iter(loader))
        loader.close()
        assert not log.exists()
        gc.collect()
    finally:
        gc.enable()
    assert log.read_text() == f"{os.getpid()}\n"
