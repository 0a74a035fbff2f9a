"""Datasets of several epochs for loops that count samples from 0 and know of no epochs, as Megatron-LM's do.

They are those of seed page 002 (``bionemo.core.data.multi_epoch_dataset``): a dataset with numbered samples, a wrapper
that may change a sample from epoch to epoch, and above both the
:class:`~loader.integrations.multi_epoch_resampler.MultiEpochDatasetResampler`, which turns one long sequence of
numbers into epochs. :func:`~loader.training.random_access.random_access` gives such a dataset of prepared data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from torch.utils.data import Dataset

__all__ = [
    "EpochIndex",
    "IdentityMultiEpochDatasetWrapper",
    "MultiEpochDataset",
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
