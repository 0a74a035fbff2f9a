"""Micro-batches that mix samples of several datasets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from loader.errors import ConfigError
from loader.pipeline.stages.batch import BatchDataset
from loader.pipeline.stages.blend import MixBatchDataset
from loader.samples.batching.concat import homogeneous_concat_mix
from loader.testing.stage import Values, check_resumes, values


@dataclass
class NumberBatch:
    numbers: torch.Tensor  # (n,)
    names: list[str]


def batch_of_one(items: list[int]) -> NumberBatch:
    return NumberBatch(torch.tensor(items), [str(item) for item in items])


def halves(batches: list[int]) -> Iterator[Any]:
    yield batches[: len(batches) // 2]
    yield batches[len(batches) // 2 :]


def numbers(first: int, count: int) -> BatchDataset[Any]:
    return BatchDataset(Values(range(first, first + count)), 1, batch_of_one)


def test_batches_of_one_type_are_joined_by_weight() -> None:
    mixed: MixBatchDataset[Any] = MixBatchDataset(
        (numbers(0, 300), 6), (numbers(1000, 300), 4), batch_size=10, batch_mix_fn=homogeneous_concat_mix
    )
    batches = values(mixed, most=25)

    assert all(batch.numbers.shape == (10,) and len(batch.names) == 10 for batch in batches)
    assert sum(int((batch.numbers < 1000).sum()) for batch in batches) == pytest.approx(150, abs=6)


def test_without_a_function_a_batch_is_a_list() -> None:
    (batch,) = values(MixBatchDataset(((Values([1, 2]), 1), (Values([3]), 1)), batch_size=4))

    assert sorted(batch) == [1, 2, 3]


def test_the_function_may_be_a_generator() -> None:
    mixed: MixBatchDataset[Any] = MixBatchDataset((Values(range(8)), 1), batch_size=4, batch_mix_fn=halves)

    assert values(mixed) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_restored_lane_continues_where_it_stopped() -> None:
    sources = ((Values(range(30), skips=(2,)), 2), (Values(range(100, 120)), 1))

    check_resumes(MixBatchDataset(*sources, batch_size=4, batch_mix_fn=halves), count=2)
    check_resumes(MixBatchDataset(*sources, batch_size=3), count=2)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ConfigError, match="batch_size of at least 1"):
        MixBatchDataset((Values([1]), 1), batch_size=0)
