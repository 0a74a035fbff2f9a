"""Datasets of several epochs for loops that count samples from 0 and know of no epochs, as Megatron-LM's do.

They are those of seed page 002 (``bionemo.core.data.multi_epoch_dataset``): a dataset with numbered samples, a wrapper
that may change a sample from epoch to epoch, and above both the
:class:`~loader.integrations.multi_epoch_dataset.MultiEpochDatasetResampler`, which turns one long sequence of
numbers into epochs. :func:`loader.random_access` gives such a dataset of prepared data.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from torch.utils.data import Dataset

from ..order.index_permutation import checked_integer, epoch_seeds, permute

__all__ = [
    "EpochIndex",
    "IdentityMultiEpochDatasetWrapper",
    "MultiEpochDataset",
    "MultiEpochDatasetResampler",
    "MultiEpochDatasetWrapper",
    "SizedDataset",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U_co = TypeVar("U_co", covariant=True)


class EpochIndex(NamedTuple):
    """Which sample, and in which epoch.

    >>> EpochIndex(epoch=2, idx=7)
    EpochIndex(epoch=2, idx=7)
    """

    epoch: int
    """The epoch, counted from 0."""

    idx: int
    """The sample's number in the dataset, the same in all epochs."""


class SizedDataset(Protocol[T_co]):
    """A dataset of a fixed length whose samples are numbered from 0; a list is one."""

    def __getitem__(self, index: int) -> T_co:
        """Give a sample by its number."""

    def __len__(self) -> int:
        """Give the number of samples."""


class MultiEpochDataset(Protocol[T_co]):
    """A dataset of a fixed length whose samples may differ from epoch to epoch.

    The same index must always give exactly the same: ranks that share a model's parts load the same data each for
    itself, and a run that goes on loads again what it had loaded ahead.
    """

    def __getitem__(self, index: EpochIndex) -> T_co:
        """Give a sample as it is in an epoch."""

    def __len__(self) -> int:
        """Give the number of samples of one epoch."""


@dataclass
class MultiEpochDatasetWrapper(Dataset[U_co], ABC, Generic[T, U_co]):
    """Make a dataset of several epochs out of one that knows of none; derive from it, and define ``apply_transform``.

    What ``dataset`` gives for a number must always be the same. What is to differ from epoch to epoch, such as
    augmentation, belongs into ``apply_transform``, which gets the epoch and the number: draw random numbers from a
    generator that is seeded with both.

    >>> class Numbered(MultiEpochDatasetWrapper):
    ...     def apply_transform(self, sample, index):
    ...         return f"{sample}, epoch {index.epoch}"
    >>> Numbered(["a", "b"])[EpochIndex(epoch=3, idx=1)]
    'b, epoch 3'
    """

    dataset: SizedDataset[T]
    """The dataset; its samples are taken by their numbers."""

    @abstractmethod
    def apply_transform(self, sample: T, index: EpochIndex) -> U_co:
        """Make what the epoch gives out of a sample; the same for the same arguments."""

    def __getitem__(self, index: EpochIndex) -> U_co:
        """Give a sample as it is in an epoch."""
        return self.apply_transform(self.dataset[index.idx], index)

    def __getitems__(self, indices: Sequence[EpochIndex]) -> list[U_co]:
        """Give several samples, as torch's loader asks for a batch; the dataset may find them together."""
        together = getattr(self.dataset, "__getitems__", None)
        if together is None or type(self).__getitem__ is not MultiEpochDatasetWrapper.__getitem__:
            return [self[index] for index in indices]
        samples = together([index.idx for index in indices])
        return [self.apply_transform(sample, index) for sample, index in zip(samples, indices, strict=True)]

    def __len__(self) -> int:
        """Give the number of samples of one epoch."""
        return len(self.dataset)


class IdentityMultiEpochDatasetWrapper(MultiEpochDatasetWrapper[T, T]):
    """Give every epoch the samples as they are.

    >>> IdentityMultiEpochDatasetWrapper(["a", "b"])[EpochIndex(epoch=3, idx=1)]
    'b'
    """

    def apply_transform(self, sample: T, index: EpochIndex) -> T:  # noqa: ARG002 - it is the same in all epochs
        """Give the sample as it is."""
        return sample


@dataclass
class MultiEpochDatasetResampler(Dataset[T_co]):
    """Give a dataset several times over, as one dataset of ``num_samples`` samples.

    With n samples in ``dataset``, sample i of the resampled one is
    ``dataset[EpochIndex(epoch=i // n, idx=permute(i % n, n, epoch_seeds[i // n]))]``: each epoch has every sample once,
    in an order of its own; the last one is cut short where ``num_samples`` says so. Which it is is computed from i
    alone, so nothing has to be saved but how many samples a run has consumed.

    Of ``num_epochs`` and ``num_samples`` one may be given; without both there is one epoch. Afterwards both say what
    they came to.

    Seed page 002 describes it. Where the page is silent or fails late: a dataset without samples is refused, and so are
    counts below 1 and what is no integer; the length of ``dataset`` is asked for once, and one that changes later is an
    error, since all epochs would move. Indices are those of a sampler: negative ones are out of range.

    Attributes:
        epoch_seeds: The seed of each epoch's order; those of a longer run begin like those of a shorter one.

    Raises:
        ValueError: Both counts are given, one is below 1, the dataset is empty, or the seed is negative.

    >>> from loader import IdentityMultiEpochDatasetWrapper
    >>> letters = MultiEpochDatasetResampler(IdentityMultiEpochDatasetWrapper("abcd"), num_samples=10)
    >>> "".join(letters), letters.num_epochs
    ('adcbdcbaac', 3)
    """

    dataset: MultiEpochDataset[T_co]
    """The dataset, which takes an :class:`~loader.integrations.multi_epoch_dataset.EpochIndex`."""

    num_epochs: int | None = None
    """How many epochs, all of them whole."""

    num_samples: int | None = None
    """How many samples, in as many epochs as that takes."""

    shuffle: bool = True
    """Shuffle each epoch; else each has the dataset's own order."""

    seed: int = 42
    """Of the orders of all epochs."""

    def __post_init__(self) -> None:
        if self.num_epochs is not None and self.num_samples is not None:
            raise ValueError(
                f"Only one of num_epochs and num_samples should be provided, found {self.num_epochs} and "
                f"{self.num_samples}."
            )
        self._length = len(self.dataset)
        if self._length < 1:
            raise ValueError("expected a dataset with samples, found an empty one")
        if self.num_samples is not None:
            self._total = checked_integer(self.num_samples, "num_samples", minimum=1)
            self.num_epochs = -(-self._total // self._length)
        else:
            self.num_epochs = checked_integer(
                1 if self.num_epochs is None else self.num_epochs, "num_epochs", minimum=1
            )
            self._total = self.num_epochs * self._length
        self.num_samples = self._total
        self.epoch_seeds = epoch_seeds(checked_integer(self.seed, "seed"), self.num_epochs)

    def __len__(self) -> int:
        """Give the number of samples of all epochs."""
        return self._total

    def __getitem__(self, index: int) -> T_co:
        """Give a sample.

        Raises:
            IndexError: There is none of this number; negative ones are not counted from the end.
            RuntimeError: The dataset has another length than when it was resampled.
        """
        return self.dataset[self._epoch_index(index)]

    def __getitems__(self, indices: Iterable[int]) -> list[T_co]:
        """Give several samples, as torch's loader asks for a batch; a wrapped dataset may find them together."""
        if type(self).__getitem__ is not MultiEpochDatasetResampler.__getitem__:
            return [self[index] for index in indices]
        wanted = [self._epoch_index(index) for index in indices]
        # Of other datasets it is not known whether they take such indices there.
        if isinstance(self.dataset, MultiEpochDatasetWrapper):
            return self.dataset.__getitems__(wanted)
        return [self.dataset[index] for index in wanted]

    def _epoch_index(self, index: int) -> EpochIndex:
        place = operator.index(index)
        if not 0 <= place < self._total:
            raise IndexError(f"Index {place} out of bounds for dataset of length {self._total}.")
        if len(self.dataset) != self._length:
            raise RuntimeError(
                f"the dataset had {self._length} samples when it was resampled and now has {len(self.dataset)}: every "
                "epoch would begin elsewhere"
            )
        epoch, idx = divmod(place, self._length)
        if self.shuffle:
            idx = permute(idx, self._length, int(self.epoch_seeds[epoch]))
        return EpochIndex(epoch, idx)
