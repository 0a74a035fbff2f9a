from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest

from loader import (
    EnergonDataloader,
    FatalSampleError,
    MapDataset,
    SavableDataLoader,
    StateError,
    WorkerConfig,
    get_savable_loader,
)
from loader.testing.stage import Values


def loader_of(values: Sequence[int], function: Callable[[int], int | None] | None = None) -> SavableDataLoader[Any]:
    dataset = Values(values, worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1))
    return get_savable_loader(dataset if function is None else MapDataset(dataset, function))


def test_it_is_its_own_iterator_so_that_what_iter_gives_can_be_saved() -> None:
    wrapped = EnergonDataloader(loader_of(range(4)))
    iterator: Any = iter(wrapped)
    assert list(islice(iterator, 6)) == [0, 1, 2, 3, 0, 1]
    assert list(islice(wrapped, 2)) == [2, 3]
    assert iterator.save_state() == wrapped.dataloader.save_state_rank()


def test_iteration_continues_after_an_error() -> None:
    fails = True

    def hook(value: int) -> int | None:
        if fails and value == 2:
            raise FatalSampleError("fix it")
        return value

    wrapped = EnergonDataloader(loader_of(range(4), hook))
    for _ in range(2):
        with pytest.raises(FatalSampleError):
            list(wrapped)
    fails = False
    assert list(islice(wrapped, 3)) == [2, 3, 0]


def test_a_second_iteration_of_the_loader_raises_and_iteration_continues() -> None:
    wrapped = EnergonDataloader(loader_of(range(6)))
    assert next(wrapped) == 0
    assert next(iter(wrapped.dataloader)) == 1
    with pytest.raises(StateError, match="another one has begun"):
        next(wrapped)
    assert next(wrapped) == 2


def test_no_state_starts_at_the_beginning() -> None:
    wrapped = EnergonDataloader(loader_of(range(6)))
    wrapped.restore_state(None)
    assert next(wrapped) == 0
