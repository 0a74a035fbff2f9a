"""The code blocks of seed page 002 (datasets of several epochs) run unchanged, and our classes behave the same.

The blocks are copied from the page, without its line numbers. :data:`PREAMBLE` has their imports; ``permute`` is ours.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st

import loader

PREAMBLE = """\
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from torch.utils.data import Dataset

from loader import permute

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U_co = TypeVar("U_co", covariant=True)


"""

PAGE = '''\
class EpochIndex(NamedTuple):
    """A tuple that contains both the current epoch and index for multi-epoch training."""

    epoch: int
    """An integer representing the current epoch."""

    idx: int
    """An integer representing the index within the current epoch."""


class SizedDataset(Protocol[T_co]):
    """A protocol for integer-indexed datasets that have a fixed length."""

    def __getitem__(self, index: int) -> T_co:  # noqa: D105
        ...

    def __len__(self) -> int:  # noqa: D105
        ...


class MultiEpochDataset(Protocol[T_co]):
    """A protocol for datasets for multi-epoch training in Megatron-LM.

    !!! important "Dataset determinism in Megatron-LM"
        In megatron training, the sampler and dataset objects are used to ensure consistent data loading across
        model-parallel ranks. For datasets to work with megatron training, they must return exactly the same data for
        every call to `__getitem__` with the same index.
    """

    def __getitem__(self, index: EpochIndex) -> T_co:  # noqa: D105
        ...

    def __len__(self) -> int:  # noqa: D105
        ...


@dataclass
class MultiEpochDatasetResampler(Dataset[T_co]):
    """A dataset wrapper class that converts the sequential sampling from Megatron-LM to epoch-based sampling.

    Either `num_epochs` or `num_samples` should be provided. If neither are provided, the dataset will use a single
    epoch. If `num_epochs` is given, the resampled dataset will have `len(dataset) * num_epochs` samples. If
    `num_samples` the resampled dataset will have `num_samples` samples. For `num_samples`, the dataset will be repeated
    for multiple epochs until the desired number of samples is reached (with the final epoch being truncated).
    """

    dataset: MultiEpochDataset[T_co]
    """The dataset to resample. Must support indexing with an `EpochIndex`."""

    num_epochs: int | None = None
    """The total number of epochs. The length of the resampled dataset will be len(dataset) * num_epochs."""

    num_samples: int | None = None
    """The total number of samples to draw.

    The number of epochs will be determined by the number of samples and the length of the dataset.
    """

    shuffle: bool = True
    """Whether to shuffle the samples in the dataset each epoch."""

    seed: int = 42  # type: ignore
    """A random seed for reproducibility."""

    def __post_init__(self):
        """Pre-shuffle each epoch's samples."""
        if self.num_epochs is None and self.num_samples is None:
            self.num_epochs = 1
        elif self.num_epochs is not None and self.num_samples is not None:
            raise ValueError("Only one of num_epochs and num_samples should be provided.")

        if self.num_epochs is None and self.num_samples is not None:
            self.num_epochs = math.ceil(self.num_samples / len(self.dataset))

        elif self.num_samples is None and self.num_epochs is not None:
            self.num_samples = len(self.dataset) * self.num_epochs

        # Type guard statements, the above if/elif block should ensure these are not None.
        assert self.num_epochs is not None
        assert self.num_samples is not None

        if self.num_epochs < 1:
            raise ValueError("num_epochs must be at least 1.")

        rng = np.random.default_rng(self.seed)

        # Initialize a vector of random seeds so that each epoch is shuffled differently.
        self.epoch_seeds = rng.integers(0, np.iinfo(np.int32).max, size=self.num_epochs)

    def __getitem__(self, index: int) -> T_co:
        """Get the sample at the given index."""
        if index not in range(len(self)):
            raise IndexError(f"Index {index} out of bounds for dataset of length {len(self)}.")
        return self.dataset[self._global_index_to_permuted_local_index(index)]

    def __len__(self) -> int:
        """Return the length of the resampled dataset."""
        return self.num_samples  # type: ignore

    def _global_index_to_permuted_local_index(self, index: int) -> EpochIndex:
        """Convert a global index to an epoch index."""
        epoch = index // len(self.dataset)
        idx = index % len(self.dataset)
        if self.shuffle:
            idx = permute(idx, len(self.dataset), self.epoch_seeds[epoch])
        return EpochIndex(epoch, idx)


@dataclass
class MultiEpochDatasetWrapper(Dataset[U_co], Generic[T, U_co], ABC):
    """A wrapper to convert a standard pytorch dataset into one that supports multi-epoch megatron training.

    The underlying dataset's __getitem__ method must be deterministic, i.e. it must return the same data for the same
    index every time it is called. If there are any non-deterministic operations, they should be moved to the
    `apply_transform` method. This method must also be deterministic for every (epoch, index) pair, but it can use
    the epoch to implement data augmentation each epoch.
    """

    dataset: SizedDataset[T]
    """A deterministic dataset that supports indexing with an integer index."""

    @abstractmethod
    def apply_transform(self, sample: T, index: EpochIndex) -> U_co:
        """Apply any transformations to the sample for the given epoch."""
        raise NotImplementedError

    def __getitem__(self, index: EpochIndex) -> U_co:
        """Get the sample at the given epoch and index."""
        return self.apply_transform(self.dataset[index.idx], index)

    def __len__(self) -> int:
        """Return the length of the dataset."""
        return len(self.dataset)


class IdentityMultiEpochDatasetWrapper(MultiEpochDatasetWrapper[T, T]):
    """An implementation of the `MultiEpochDatasetWrapper` that does not apply any transformations."""

    def apply_transform(self, sample: T, index: EpochIndex) -> T:
        """Return the sample as is."""
        del index  # Unused.
        return sample
'''

NAMES = (
    "EpochIndex",
    "SizedDataset",
    "MultiEpochDataset",
    "MultiEpochDatasetResampler",
    "MultiEpochDatasetWrapper",
    "IdentityMultiEpochDatasetWrapper",
)


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    """The page, run as a module."""
    module = ModuleType("seed_002")
    sys.modules["seed_002"] = module  # where dataclasses look for it
    exec(compile(PREAMBLE + PAGE, "seed_002", "exec", dont_inherit=True), vars(module))
    yield module
    del sys.modules["seed_002"]


def numbered(module: Any) -> type:
    """Return a wrapper class that returns epoch and number, derived from the page's class or from ours."""

    class Numbered(module.MultiEpochDatasetWrapper):  # type: ignore[misc] # known at run time
        def apply_transform(self, sample: str, index: Any) -> tuple[str, int, int]:
            return sample, index.epoch, index.idx

    return Numbered


def outcome(module: Any, length: int, **options: Any) -> Any:
    """Return samples and attributes of a resampled dataset, or the class of the error that it raises."""
    try:
        dataset = module.MultiEpochDatasetResampler(numbered(module)([f"s{n}" for n in range(length)]), **options)
    except (ValueError, TypeError) as error:
        return type(error)
    samples = [dataset[index] for index in range(len(dataset))]
    return samples, len(dataset), dataset.num_epochs, dataset.num_samples, dataset.epoch_seeds.tolist()


OPTIONS = st.fixed_dictionaries(
    {"shuffle": st.booleans(), "seed": st.integers(-1, 2**70)},
    optional={"num_epochs": st.none() | st.integers(-1, 5), "num_samples": st.none() | st.integers(-1, 150)},
)


@given(length=st.integers(1, 40), options=OPTIONS)
def test_ours_returns_the_same_as_the_page(page: ModuleType, length: int, options: dict[str, Any]) -> None:
    assert outcome(loader, length, **options) == outcome(page, length, **options)


@pytest.mark.parametrize("name", NAMES)
def test_the_classes_have_the_names_fields_and_signatures_of_the_page(page: ModuleType, name: str) -> None:
    theirs, ours = getattr(page, name), getattr(loader, name)
    if name.endswith(("Resampler", "Wrapper")):
        assert [(one.name, one.default) for one in fields(ours)] == [(one.name, one.default) for one in fields(theirs)]
    if name == "EpochIndex":
        assert ours._fields == theirs._fields
    methods = [method for method in ("__init__", "__getitem__", "__len__", "apply_transform") if method in vars(theirs)]
    for method in methods:
        expected, found = (inspect.signature(getattr(one, method)) for one in (theirs, ours))
        assert list(found.parameters) == list(expected.parameters), method
    assert [base.__name__ for base in ours.__mro__ if base.__name__ in (*NAMES, "Dataset", "ABC", "Protocol")] == [
        base.__name__ for base in theirs.__mro__ if base.__name__ in (*NAMES, "Dataset", "ABC", "Protocol")
    ]


def test_the_pages_classes_and_ours_work_together(page: ModuleType) -> None:
    letters = list("abcdef")
    mixed = [
        one.MultiEpochDatasetResampler(other.IdentityMultiEpochDatasetWrapper(letters), num_samples=15)
        for one in (page, loader)
        for other in (page, loader)
    ]
    assert all(list(dataset) == list(mixed[0]) for dataset in mixed)
    assert sorted(list(mixed[0])[:6]) == letters


@pytest.mark.parametrize("index", [-1, 6, 100])
def test_indices_that_are_out_of_bounds_are_the_same(page: ModuleType, index: int) -> None:
    for module in (page, loader):
        dataset = module.MultiEpochDatasetResampler(module.IdentityMultiEpochDatasetWrapper("abc"), num_epochs=2)
        with pytest.raises(IndexError, match=f"Index {index} out of bounds for dataset of length 6."):
            dataset[index]


def test_where_ours_differs_the_page_fails_late_or_goes_wrong(page: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError):
        outcome(page, 0, num_samples=3)
    assert outcome(page, 0, num_epochs=2)[:2] == ([], 0)  # a run without samples
    for options in ({"num_samples": 3}, {"num_epochs": 2}):
        assert outcome(loader, 0, **options) is ValueError

    class Growing(list[str]):
        """A dataset that is still being written."""

    for module, error in ((page, None), (loader, RuntimeError)):
        letters = Growing("abc")
        dataset = module.MultiEpochDatasetResampler(
            module.IdentityMultiEpochDatasetWrapper(letters), num_epochs=2, shuffle=False
        )
        before = list(dataset)
        letters.append("d")
        if error is None:
            assert list(dataset)[3:] != before[3:]  # the first sample of the second epoch has changed
        else:
            with pytest.raises(error):
                dataset[3]

    class Huge:
        def __len__(self) -> int:
            return 2**55 + 1

    epochs = [module.MultiEpochDatasetResampler(Huge(), num_samples=2**57).num_epochs for module in (page, loader)]
    assert epochs == [4, 4]
