"""Datasets of several epochs for training loops that count samples from 0 and have no epochs, as Megatron-LM's.

The interface follows seed page 002 (``bionemo.core.data.multi_epoch_dataset``): a map-style dataset, a wrapper that
may change a sample from epoch to epoch, and the
:class:`~loader.integrations.multi_epoch_dataset.MultiEpochDatasetResampler` above both, which divides one long sequence
of numbers into epochs. :func:`loader.random_access` opens prepared data as a map-style dataset.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from torch.utils.data import Dataset

from ..order.index_permutation import checked_integer, epoch_seeds, permute

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U_co = TypeVar("U_co", covariant=True)


class EpochIndex(NamedTuple):
    """The number of a sample, and its epoch.

    >>> EpochIndex(epoch=2, idx=7)
    EpochIndex(epoch=2, idx=7)
    """

    epoch: int
    """The epoch, counted from 0."""

    idx: int
    """The sample's number in the dataset, the same in all epochs."""


class SizedDataset(Protocol[T_co]):
    """A dataset of a fixed length whose samples are numbered from 0, such as a list.

    >>> letters: SizedDataset[str] = ["a", "b"]
    >>> len(letters), letters[1]
    (2, 'b')
    """

    def __getitem__(self, index: int) -> T_co:
        """Return a sample by its number."""

    def __len__(self) -> int:
        """Return the number of samples."""


class MultiEpochDataset(Protocol[T_co]):
    """A dataset of a fixed length whose samples may differ from epoch to epoch.

    The same index must always return exactly the same sample: the ranks of a model-parallel group load the same data
    separately, and a resumed run reloads the samples that were prefetched.

    >>> class Numbers(MultiEpochDataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         return f"number {index.idx} in epoch {index.epoch}"
    >>> Numbers()[EpochIndex(epoch=1, idx=2)]
    'number 2 in epoch 1'
    """

    def __getitem__(self, index: EpochIndex) -> T_co:
        """Return a sample of an epoch."""

    def __len__(self) -> int:
        """Return the number of samples of one epoch."""


@dataclass
class MultiEpochDatasetWrapper(Dataset[U_co], ABC, Generic[T, U_co]):
    """Base class that turns a dataset without epochs into one of several; define ``apply_transform``.

    ``dataset`` must always return the same sample for a number. Apply changes from epoch to epoch, such as
    augmentation, in ``apply_transform``, which gets the epoch and the number: draw random numbers from a generator that
    is seeded with both.

    >>> class Numbered(MultiEpochDatasetWrapper):
    ...     def apply_transform(self, sample, index):
    ...         return f"{sample}, epoch {index.epoch}"
    >>> Numbered(["a", "b"])[EpochIndex(epoch=3, idx=1)]
    'b, epoch 3'
    """

    dataset: SizedDataset[T]
    """The map-style dataset that is wrapped."""

    @abstractmethod
    def apply_transform(self, sample: T, index: EpochIndex) -> U_co:
        """Transform a sample for its epoch; must return the same for the same arguments."""

    def __getitem__(self, index: EpochIndex) -> U_co:
        return self.apply_transform(self.dataset[index.idx], index)

    def __getitems__(self, indices: Sequence[EpochIndex]) -> list[U_co]:
        """Return several samples for torch's loader, by one call of the dataset's ``__getitems__`` if it has that."""
        get_batch = getattr(self.dataset, "__getitems__", None)
        if get_batch is None or type(self).__getitem__ is not MultiEpochDatasetWrapper.__getitem__:
            return [self[index] for index in indices]
        samples = get_batch([index.idx for index in indices])
        return [self.apply_transform(sample, index) for sample, index in zip(samples, indices, strict=True)]

    def __len__(self) -> int:
        return len(self.dataset)


class IdentityMultiEpochDatasetWrapper(MultiEpochDatasetWrapper[T, T]):
    """Wrapper that returns the dataset's samples unchanged in every epoch.

    >>> IdentityMultiEpochDatasetWrapper(["a", "b"])[EpochIndex(epoch=3, idx=1)]
    'b'
    """

    def apply_transform(self, sample: T, index: EpochIndex) -> T:  # noqa: ARG002 - it is the same in all epochs
        return sample


@dataclass
class MultiEpochDatasetResampler(Dataset[T_co]):
    """Dataset that repeats another one, reshuffled in each epoch, up to ``num_samples`` samples.

    With n samples in ``dataset``, sample i of the resampled one is
    ``dataset[EpochIndex(epoch=i // n, idx=permute(i % n, n, epoch_seeds[i // n]))]``: each epoch has every sample once,
    in a different order, and the last epoch is truncated to ``num_samples``. The order is a function of i alone, so a
    run saves only the number of consumed samples.

    Pass ``num_epochs``, ``num_samples`` or neither, for one epoch. Both attributes are set to the resulting numbers.

    Seed page 002 describes this class. In addition, an empty dataset, counts below 1 and counts that are not integers
    raise at once. The length of ``dataset`` is read once; a change raises, since it would shift all epochs. Negative
    indices are out of range.

    Attributes:
        epoch_seeds: The seed of each epoch's order; a longer run's seeds begin with a shorter run's seeds.

    Raises:
        ValueError: Both counts are given, one is below 1, the dataset is empty, or the seed is negative.

    >>> from loader import IdentityMultiEpochDatasetWrapper
    >>> letters = MultiEpochDatasetResampler(IdentityMultiEpochDatasetWrapper("abcd"), num_samples=10)
    >>> "".join(letters), letters.num_epochs
    ('adcbdcbaac', 3)
    """

    dataset: MultiEpochDataset[T_co]
    """The dataset, indexed by :class:`~loader.integrations.multi_epoch_dataset.EpochIndex`."""

    num_epochs: int | None = None
    """Number of whole epochs."""

    num_samples: int | None = None
    """Number of samples; the number of epochs follows from it."""

    shuffle: bool = True
    """Shuffle each epoch; otherwise each epoch has the dataset's order."""

    seed: int = 42
    """Seed of the orders of all epochs."""

    def __post_init__(self) -> None:
        if self.num_epochs is not None and self.num_samples is not None:
            raise ValueError(
                f"Only one of num_epochs and num_samples should be provided, found {self.num_epochs} and "
                f"{self.num_samples}."
            )
        # Take the length once: a dataset that changes it is refused later.
        self._length = len(self.dataset)
        if self._length < 1:
            raise ValueError("expected a dataset with samples, found an empty one")
        # Derive the number of epochs from the number of samples, or the reverse.
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
        return self._total

    def __getitem__(self, index: int) -> T_co:
        """Return a sample.

        Raises:
            IndexError: The index is out of range; negative indices are not counted from the end.
            RuntimeError: The length of the dataset has changed.
        """
        return self.dataset[self._epoch_index(index)]

    def __getitems__(self, indices: Iterable[int]) -> list[T_co]:
        """Return several samples for torch's loader, by one call of a wrapper's ``__getitems__`` if possible."""
        if type(self).__getitem__ is not MultiEpochDatasetResampler.__getitem__:
            return [self[index] for index in indices]
        epoch_indices = [self._epoch_index(index) for index in indices]
        # The `__getitems__` of other datasets may not accept an EpochIndex.
        if isinstance(self.dataset, MultiEpochDatasetWrapper):
            return self.dataset.__getitems__(epoch_indices)
        return [self.dataset[index] for index in epoch_indices]

    def _epoch_index(self, index: int) -> EpochIndex:
        position = operator.index(index)
        if not 0 <= position < self._total:
            raise IndexError(f"Index {position} out of bounds for dataset of length {self._total}.")
        if len(self.dataset) != self._length:
            raise RuntimeError(
                f"the dataset had the length {self._length} when it was resampled, now {len(self.dataset)}, which "
                "would shift all epochs"
            )
        epoch, idx = divmod(position, self._length)
        if self.shuffle:
            idx = permute(idx, self._length, int(self.epoch_seeds[epoch]))
        return EpochIndex(epoch, idx)
