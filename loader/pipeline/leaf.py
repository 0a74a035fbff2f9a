"""One dataset of a run: its samples, numbered from 0, and how their bytes become samples."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError
from ..format.dataset_folder import DatasetFolder
from ..format.nv_meta import DATASET_YAML, FOLDER, SPLIT_YAML
from ..format.sample_locations import SampleLocator
from ..samples.decoder import SampleDecoder
from ..samples.sample_builder import SampleBuilder
from ..samples.types import CrudeSample

__all__ = ["Leaf"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Leaf:
    """A split part of a prepared dataset; what is opened stays behind when it travels to another process.

    Args:
        path: The dataset's folder.
        split_part: ``"train"``, ``"val"`` …
        split_config: Which split file of ``.nv-meta`` to use.
        dataset_config: Which dataset file of ``.nv-meta`` to use.
        subset: The half-open range of the split part's samples that is used; None uses all.
        subflavors: Labels of all samples; they win over those of ``dataset.yaml``.
        decoder: Decodes the parts; None leaves them bytes.
        trust_code: Code and pickles of the dataset may run.
    """

    path: str | os.PathLike[str]
    split_part: str
    split_config: str = SPLIT_YAML
    dataset_config: str = DATASET_YAML
    subset: tuple[int, int] | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    decoder: SampleDecoder | None = field(default_factory=SampleDecoder)
    trust_code: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def path_text(self) -> str:
        """The path as text, which goes to other processes at less cost than a path."""
        return os.fspath(self.path)

    @cached_property
    def folder(self) -> DatasetFolder:
        """The dataset, opened."""
        return DatasetFolder(self.path, split_config=self.split_config, dataset_config=self.dataset_config)

    @cached_property
    def builder(self) -> SampleBuilder:
        """What makes samples of parts."""
        folder = self.folder
        return SampleBuilder(
            folder.config,
            meta_folder=folder.storage.local_path(FOLDER),
            decoder=self.decoder,
            trust_code=self.trust_code,
        )

    @property
    def is_crude(self) -> bool:
        """Its samples are dicts of parts, for cookers."""
        return issubclass(self.builder.sample_class, CrudeSample)

    @cached_property
    def locator(self) -> SampleLocator:
        """What finds the bytes of the parts that are needed."""
        index = self.folder.index
        return SampleLocator(index, [name for name in index.part_names if self.builder.part_filter(name)])

    @cached_property
    def shard_names(self) -> list[str]:
        """The names of the dataset's shards, by number."""
        return [shard.name for shard in self.folder.index.shards]

    @cached_property
    def _ranges(self) -> tuple[Integers, Integers]:
        """For each shard of the split part: its first sample in the leaf and in the index."""
        ranges = [some for some in self.folder.samples_of_part(self.split_part, excluded_shards=True) if len(some)]
        ends = np.cumsum([0, *(len(some) for some in ranges)])
        return ends, np.array([some.start for some in ranges], dtype=np.int64)

    @cached_property
    def samples(self) -> int:
        """How many samples the leaf has, after its subset, excluded ones included.

        Raises:
            ConfigError: There is no such split part, or it is empty, or all its samples are excluded: an order without
                end would look for one that is not for ever.
        """
        start, stop = self._subset
        if stop <= start:
            raise ConfigError(
                f"split part {self.split_part!r} of this dataset has no samples",
                at=self.folder.path,
                do="name another split part, or split again with energon prepare --split-ratio",
            )
        count = stop - start
        if len(self.excluded) >= count and np.isin(self.index_numbers(np.arange(count)), self.excluded).all():
            raise ConfigError(
                f"all {count} samples of split part {self.split_part!r} are excluded",
                at=self.folder.path,
                do=f"take some out of 'exclude' in {FOLDER}/{self.folder.split_file}",
            )
        return count

    @property
    def _subset(self) -> tuple[int, int]:
        total = int(self._ranges[0][-1])
        start, stop = self.subset if self.subset is not None else (0, total)
        return max(0, start), min(stop, total)

    @cached_property
    def largest_shard(self) -> int:
        """How many samples the largest shard of the split part has."""
        return int(np.diff(self._ranges[0]).max(initial=1))

    @cached_property
    def excluded(self) -> Integers:
        """The numbers in the index of all samples that the split leaves out, ascending."""
        return self.folder.excluded_samples()

    def index_numbers(self, samples: Integers) -> Integers:
        """Give the numbers in the index of samples of the leaf; shape (n,) both."""
        ends, starts = self._ranges
        samples = samples + self._subset[0]
        row = np.searchsorted(ends, samples, side="right") - 1
        numbers: Integers = starts[row] + samples - ends[row]
        return numbers

    def identity(self) -> dict[str, Any]:
        """Give what tells whether another run reads the same samples: plain data, compared on restoring."""
        return {
            "path": os.fspath(self.path),
            "uuid": self.folder.index.uuid,
            "split_part": self.split_part,
            "samples": self.samples,
            "which": self._which_samples(),
        }

    def _which_samples(self) -> int:
        """Give a number that tells samples of the index from others of the same count."""
        ends, starts = self._ranges
        return zlib.crc32(
            np.array(self._subset, np.int64).tobytes(), zlib.crc32(starts.tobytes(), zlib.crc32(ends.tobytes()))
        )
