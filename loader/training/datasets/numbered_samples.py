"""Samples by number: the sequence that :func:`~.random_access.random_access` and ``open_dataset`` share."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from torch.utils.data import Dataset
from torch.utils.data._utils.collate import default_collate_fn_map

from ...arrays import IntArray
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.failures.error_handlers import joined_names
from ...pipeline.reading.pick import PickDataset
from ...pipeline.reading.source import Source
from ...samples.batching.collate import collate
from ...samples.types import CrudeSample, Sample
from ...stores.file_store import MissingFileError

T_co = TypeVar("T_co", covariant=True)


def _collate(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    del collate_fn_map
    return collate(batch)


# The documented way to extend the default collate_fn of torch's DataLoader; worker processes import this module, too.
default_collate_fn_map.update({Sample: _collate, CrudeSample: _collate})


class NumberedSamples(Dataset[T_co], ABC):
    """A sequence of samples over consecutive sources; each process opens the files that it reads.

    Samples have positions, which count all samples of the sources. Numbers count the samples of the sequence.
    """

    def __init__(self, sources: Sequence[Source], *, seed_offset: int = 0) -> None:
        config = WorkerConfig(rank=0, world_size=1, num_workers=0, seed_offset=seed_offset, lanes=1)
        self._reader = PickDataset(sources, worker_config=config)
        self._total = sum(source.samples for source in sources)

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @abstractmethod
    def _positions(self, numbers: IntArray) -> IntArray:
        """Return the positions of samples by their numbers, shape (n,)."""

    @abstractmethod
    def _read(self, positions: Sequence[int]) -> list[T_co]:
        """Return samples by their positions, in this order."""

    @abstractmethod
    def __iter__(self) -> Iterator[T_co]:
        """Yield the samples in the order of their numbers; later ones are read ahead."""

    @overload
    def __getitem__(self, index: int | str) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...

    def __getitem__(self, index: int | str | slice) -> T_co | list[T_co]:
        """Return the sample of a number or a key, or the samples of a slice.

        Raises:
            IndexError: There is no such number.
            KeyError: No sample has this key, or several have it (a ``MissingFileError``).
            SampleError: A part of the sample does not decode, or a hook raises ``SkipSample``.
            Exception: A hook raised it; a note names the sample.
        """
        if isinstance(index, slice):
            return self.__getitems__(range(len(self))[index])
        if isinstance(index, str):
            return self._read([self._position_of(index)])[0]
        return self._read([self._position(index)])[0]

    def __getitems__(self, indices: Iterable[int]) -> list[T_co]:
        """Return samples by their numbers, in this order; all are located by one search."""
        numbers = [self._number(index) for index in indices]
        return self._read(self._positions(np.array(numbers, dtype=np.int64)).tolist()) if numbers else []

    def _number(self, index: int) -> int:
        sample_number, samples = operator.index(index), len(self)
        if not -samples <= sample_number < samples:
            raise IndexError(f"there is no sample {sample_number}: the dataset has {samples}, numbered from 0")
        return sample_number % samples

    def _position(self, index: int) -> int:
        return int(self._positions(np.array([self._number(index)]))[0])

    def _position_of(self, key: str) -> int:
        """Return the position of the sample with a key.

        Raises:
            MissingFileError: There is none, or there are several.
        """
        positions = self._positions_of(key)
        kept = self._kept(positions)
        if len(kept) != 1:
            raise self._not_one(key, kept, positions)
        return kept[0]

    def _positions_of(self, key: str) -> list[int]:
        """Return the positions of all samples that have a key, ascending; of a row of a join, the first member's."""
        first = 0
        positions: list[int] = []
        for source in self._reader.sources:
            numbers = source.folder.find(key)
            if numbers and self._is_whole(source):
                positions += [first + sample_number for sample_number in numbers]
            elif numbers:
                positions += (first + source.selection.positions(np.array(numbers, np.int64))).tolist()
            first += source.samples
        return sorted(positions)

    def _is_whole(self, source: Source) -> bool:  # noqa: ARG002 - for those that know
        return False

    @abstractmethod
    def _kept(self, positions: Sequence[int]) -> list[int]:
        """Return the positions, of ascending ones, that have a number."""

    def _not_one(self, key: str, kept: Sequence[int], positions: Sequence[int]) -> MissingFileError:
        places = joined_names([self._reader.picking.place_of(position) for position in kept])
        return MissingFileError(
            f"expected one sample with the key {key!r}, found "
            f"{places or ('an excluded one' if positions else 'none')}{self._guess(key) if not positions else ''}",
            at=joined_names([source.describe() for source in self._reader.sources]),
            hint=self._key_hint,
        )

    _key_hint = "pass shard/key"

    def _guess(self, key: str) -> str:  # noqa: ARG002 - for those that guess
        return ""
