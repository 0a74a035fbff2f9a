"""``MultiEpochDatasetResampler`` divides one sequence of numbers into epochs."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from loader import (
    EpochIndex,
    IdentityMultiEpochDatasetWrapper,
    MultiEpochDatasetResampler,
    MultiEpochDatasetWrapper,
    permute,
)

T = TypeVar("T")


class Indices:
    """Dataset that returns the index itself."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __getitem__(self, index: EpochIndex) -> EpochIndex:
        return index

    def __len__(self) -> int:
        return self.length


class Numbered(MultiEpochDatasetWrapper[str, str]):
    def apply_transform(self, sample: str, index: EpochIndex) -> str:
        return f"{sample}{index.epoch}"


def resampled(length: int, **options: Any) -> MultiEpochDatasetResampler[EpochIndex]:
    return MultiEpochDatasetResampler(Indices(length), **options)


def iterated(dataset: MultiEpochDatasetResampler[T]) -> list[T]:
    """List what iteration yields; mypy does not know iteration by ``__getitem__``."""
    return list(cast("Iterable[T]", dataset))


@given(length=st.integers(1, 50), epochs=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_every_epoch_has_each_sample_once(length: int, epochs: int, seed: int) -> None:
    dataset = resampled(length, num_epochs=epochs, seed=seed)
    assert (len(dataset), dataset.num_samples, dataset.num_epochs) == (length * epochs, length * epochs, epochs)
    seen = [dataset[index] for index in range(len(dataset))]
    assert [index.epoch for index in seen] == [epoch for epoch in range(epochs) for _ in range(length)]
    for epoch in range(epochs):
        assert sorted(index.idx for index in seen[epoch * length : (epoch + 1) * length]) == list(range(length))


@given(length=st.integers(1, 50), samples=st.integers(1, 300))
def test_a_number_of_samples_cuts_the_last_epoch_short_and_changes_no_other(length: int, samples: int) -> None:
    dataset = resampled(length, num_samples=samples)
    assert len(dataset) == samples
    assert dataset.num_epochs == -(-samples // length)
    whole = resampled(length, num_epochs=dataset.num_epochs + 3)
    assert [dataset[index] for index in range(samples)] == [whole[index] for index in range(samples)]


def test_without_counts_there_is_one_epoch() -> None:
    dataset = resampled(7)
    assert (dataset.num_epochs, dataset.num_samples, len(dataset)) == (1, 7, 7)


def test_a_sample_is_the_one_that_the_docstring_says() -> None:
    dataset = resampled(7, num_epochs=3, seed=5)
    for index in range(21):
        epoch = index // 7
        assert dataset[index] == EpochIndex(epoch, permute(index % 7, 7, int(dataset.epoch_seeds[epoch])))


def test_each_epoch_has_an_order_of_its_own_and_each_seed_others() -> None:
    def orders(seed: int) -> list[tuple[int, ...]]:
        dataset = resampled(20, num_epochs=3, seed=seed)
        return [tuple(dataset[20 * epoch + place].idx for place in range(20)) for epoch in range(3)]

    assert len({*orders(42), *orders(43)}) == 6
    assert orders(42) == orders(42)


def test_without_shuffling_every_epoch_has_the_datasets_own_order() -> None:
    dataset = resampled(3, num_samples=7, shuffle=False)
    assert [tuple(index) for index in iterated(dataset)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]


def test_the_classes_are_datasets_of_torch_with_the_fields_of_the_page() -> None:
    assert [(field.name, field.default) for field in fields(MultiEpochDatasetResampler)][1:] == [
        ("num_epochs", None), ("num_samples", None), ("shuffle", True), ("seed", 42),
    ]  # fmt: skip
    wrapped = IdentityMultiEpochDatasetWrapper(["a", "b"])
    assert is_dataclass(wrapped)
    assert isinstance(wrapped, Dataset)
    assert isinstance(resampled(3), Dataset)
    assert len(Numbered(["a", "b"])) == 2
    with pytest.raises(TypeError, match="abstract"):
        MultiEpochDatasetWrapper(["a"])  # type: ignore[abstract]


def test_a_transform_gets_the_epoch() -> None:
    dataset = MultiEpochDatasetResampler(Numbered(["a", "b"]), num_epochs=2, shuffle=False)
    assert iterated(dataset) == ["a0", "b0", "a1", "b1"]


@pytest.mark.parametrize(
    ("length", "options", "message"),
    [
        (3, {"num_epochs": 1, "num_samples": 3}, "Only one of num_epochs and num_samples should be provided"),
        (3, {"num_epochs": 0}, "expected num_epochs to be at least 1, found 0"),
        (3, {"num_epochs": -2}, "expected num_epochs to be at least 1"),
        (3, {"num_samples": 0}, "expected num_samples to be at least 1, found 0"),
        (3, {"num_samples": 4.0}, "expected num_samples to be an integer"),
        (3, {"seed": -1}, "expected seed to be at least 0"),
        (3, {"seed": None}, "expected seed to be an integer"),
        (0, {}, "an empty one"),
        (0, {"num_samples": 5}, "an empty one"),
        (0, {"num_epochs": 5}, "an empty one"),
    ],
)
def test_arguments_without_samples_are_refused(length: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resampled(length, **options)


@pytest.mark.parametrize("index", [-1, 6, 10**30])
def test_an_index_that_no_sampler_gives_is_out_of_range(index: int) -> None:
    with pytest.raises(IndexError, match="out of bounds for dataset of length 6"):
        resampled(3, num_epochs=2)[index]


def test_an_index_of_numpy_is_one_and_a_float_is_none() -> None:
    dataset = resampled(3, num_epochs=2)
    four: Any = np.int64(4)
    assert dataset[four] == dataset[4]
    assert all(type(part) is int for part in dataset[four])
    with pytest.raises(TypeError):
        dataset[1.0]  # type: ignore[index]


def test_a_dataset_that_grows_is_noticed() -> None:
    letters = ["a", "b"]
    dataset = MultiEpochDatasetResampler(IdentityMultiEpochDatasetWrapper(letters), num_epochs=2)
    letters.append("c")
    with pytest.raises(RuntimeError, match="had the length 2 when it was resampled, now 3"):
        dataset[0]


def test_a_long_run_over_a_large_dataset_costs_nothing_to_set_up() -> None:
    dataset = resampled(2**55 + 1, num_samples=2**57)
    assert dataset.num_epochs == 4  # which floats would round to
    assert dataset[2**57 - 1].epoch == 3


def test_it_pickles_and_gives_the_same() -> None:
    dataset = MultiEpochDatasetResampler(Numbered(list("abcdef")), num_epochs=3)
    assert iterated(pickle.loads(pickle.dumps(dataset))) == iterated(dataset)


class ConsumedSamples:
    """Return the batches of one rank behind the consumed samples, as Megatron-LM's sampler does."""

    def __init__(self, total: int, consumed: int, batch: int, rank: int, ranks: int) -> None:
        self.total, self.consumed, self.batch, self.rank, self.ranks = total, consumed, batch, rank, ranks

    def __iter__(self) -> Iterator[list[int]]:
        together = self.batch * self.ranks
        for start in range(self.consumed, self.total - together + 1, together):
            yield list(range(start + self.rank * self.batch, start + (self.rank + 1) * self.batch))


def test_a_loop_that_counts_samples_goes_on_behind_those_it_has_consumed() -> None:
    dataset = MultiEpochDatasetResampler(Numbered([f"{number}:" for number in range(10)]), num_epochs=4)

    def batches(consumed: int, ranks: int) -> list[list[str]]:
        loaders = [
            DataLoader(dataset, batch_sampler=ConsumedSamples(40, consumed, 4 // ranks, rank, ranks), collate_fn=list)
            for rank in range(ranks)
        ]
        return [[*chain.from_iterable(parts)] for parts in zip(*loaders, strict=True)]

    whole = batches(0, 1)
    everything = [f"{number}:{epoch}" for number in range(10) for epoch in range(4)]
    assert sorted(chain.from_iterable(whole)) == sorted(everything)
    assert batches(12, 2) == whole[3:]


def test_a_distributed_sampler_deals_each_sample_to_one_rank() -> None:
    dataset = MultiEpochDatasetResampler(Numbered(list("abcdef")), num_epochs=2)
    dealt = [
        [sample for (sample,) in DataLoader(dataset, sampler=DistributedSampler(dataset, 3, rank), collate_fn=list)]
        for rank in range(3)
    ]
    assert [len(part) for part in dealt] == [4, 4, 4]
    assert sorted(chain.from_iterable(dealt)) == sorted(iterated(dataset))


class Together(list[str]):
    """Dataset with ``__getitems__`` that counts its calls."""

    calls = 0

    def __getitems__(self, indices: list[int]) -> list[str]:
        self.calls += 1
        return [self[index] for index in indices]


class Upper(IdentityMultiEpochDatasetWrapper[str]):
    """Wrapper that overrides ``__getitem__``."""

    def __getitem__(self, index: EpochIndex) -> str:
        return super().__getitem__(index).upper()


def test_a_batch_is_one_call_of_getitems() -> None:
    letters = Together("abcdef")
    dataset = MultiEpochDatasetResampler(Numbered(letters), num_epochs=2)
    batches = list(DataLoader(dataset, batch_size=4, collate_fn=list))
    assert letters.calls == 3
    assert list(chain.from_iterable(batches)) == iterated(dataset)
    with pytest.raises(IndexError):
        dataset.__getitems__([0, 12])


def test_an_overridden_getitem_is_used_for_batches() -> None:
    letters = Together("abc")
    dataset = MultiEpochDatasetResampler(Upper(letters), shuffle=False)
    assert dataset.__getitems__([0, 2]) == ["A", "C"]

    class Twice(MultiEpochDatasetResampler[str]):
        def __getitem__(self, index: int) -> str:
            return 2 * super().__getitem__(index)

    assert Twice(Numbered(letters), shuffle=False).__getitems__([1]) == ["b0b0"]
    assert resampled(3, shuffle=False).__getitems__([1]) == [EpochIndex(0, 1)]
    assert letters.calls == 0
