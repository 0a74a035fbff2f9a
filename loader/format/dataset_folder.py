"""A prepared dataset, opened for reading."""

from __future__ import annotations

import os
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from ..cached_property import cached_property
from ..errors import ConfigError, StorageError
from ..storage import ReadableFile, Storage, open_storage
from .dataset_config import DatasetConfig, parse_dataset_config
from .dataset_index import DatasetIndex
from .index_in_force import index_in_force
from .missing_index import build_missing_index
from .nv_meta import DATASET_YAML, FOLDER, SPLIT_YAML
from .sample_bytes import read_sample
from .shard_info import read_shard_info
from .split_config import SplitConfig
from .split_file import read_split_config, split_file_in_force
from .staleness import open_fresh_shard

__all__ = ["DatasetFolder"]


class DatasetFolder:
    """A folder of shards with its ``.nv-meta``. Opening reads one small file; the rest is read when asked for.

    Args:
        path: The folder.
        split_config: Which split file of ``.nv-meta`` to use.
        dataset_config: Which dataset file of ``.nv-meta`` to use.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: ``.info.json`` says something wrong.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        split_config: str = SPLIT_YAML,
        dataset_config: str = DATASET_YAML,
    ) -> None:
        self.storage: Storage = open_storage(path)
        self.path = self.storage.path("")
        self._split_name = split_config
        self._config_name = dataset_config
        if not self.storage.exists(""):
            raise StorageError("this folder does not exist", path=self.path, do="check the path")
        counts = read_shard_info(self.storage)
        if counts is None:
            raise StorageError(
                "this folder is no prepared dataset: it has no .nv-meta/.info.json",
                path=self.path,
                do=f"run: energon prepare {os.fspath(path)}",
            )
        self.shard_counts: dict[str, int] = counts
        """The shards in order, and how many samples each has."""
        self._open_shard: tuple[str, ReadableFile] | None = None

    @property
    def meta_folder(self) -> str:
        """The path of ``.nv-meta``."""
        return self.storage.path(FOLDER)

    @cached_property
    def split(self) -> SplitConfig | None:
        """The split; None where the dataset has no split file.

        Raises:
            ConfigError: The file says something wrong, or a file asked for by name is missing.
        """
        config = read_split_config(self.storage, self._split_name)
        if config is None and self._split_name != SPLIT_YAML:
            raise self._missing(self._split_name)
        return config

    @property
    def split_file(self) -> str | None:
        """The name in ``.nv-meta`` of the split file in force; None where there is none."""
        return split_file_in_force(self.storage, self._split_name)

    @cached_property
    def _excluded_shards(self) -> frozenset[str]:
        return self.split.excluded_shards() if self.split else frozenset()

    @cached_property
    def _excluded_samples(self) -> dict[str, frozenset[str]]:
        return self.split.excluded_samples() if self.split else {}

    def is_excluded(self, sample: int) -> bool:
        """Tell whether the split leaves a sample out, by its number in the index.

        Raises:
            ConfigError: The split file says something wrong.
        """
        shard = self.index.shard_of(sample).name
        if shard in self._excluded_shards:
            return True
        keys = self._excluded_samples.get(shard)
        return keys is not None and self.index.key(sample) in keys

    @cached_property
    def config(self) -> DatasetConfig | None:
        """What ``dataset.yaml`` says; None where there is none, so that samples are crude.

        Raises:
            ConfigError: The file says something wrong, or a file asked for by name is missing.
        """
        file = f"{FOLDER}/{self._config_name}"
        if not self.storage.exists(file):
            if self._config_name != DATASET_YAML:
                raise self._missing(self._config_name)
            return None
        return parse_dataset_config(self.storage.read(file).decode("utf-8", "replace"), file=self.storage.path(file))

    def _missing(self, name: str) -> ConfigError:
        return ConfigError("there is no such file", file=self.storage.path(f"{FOLDER}/{name}"), do="check its name")

    @cached_property
    def index(self) -> DatasetIndex:
        """The index over all samples; built first where another tool prepared the dataset."""
        found = index_in_force(self.storage, self.shard_counts)
        return found if found is not None else build_missing_index(self.storage, self.shard_counts)

    def read_parts(self, sample: int, names: Collection[str] | None = None) -> dict[str, bytes]:
        """Read the parts of one sample.

        Args:
            sample: Its number in the index.
            names: Which parts to read; None reads all.

        Returns:
            Part name → bytes, in the order in the shard.

        Raises:
            FormatError: The shard is not the one that was indexed, or ends within a part.
        """
        shard = self.index.shard_of(sample)
        if self._open_shard is None or self._open_shard[0] != shard.name:
            self.close()
            self._open_shard = (shard.name, open_fresh_shard(self.storage, self.index, shard))
        file = self._open_shard[1]
        return read_sample(file, self.index.parts(sample), shard=self.storage.path(shard.name), names=names)

    def excluded_samples(self) -> npt.NDArray[np.int64]:
        """Give the numbers of all samples that the split leaves out, ascending.

        Raises:
            ConfigError: The split file says something wrong.
        """
        shards = {shard.name: shard for shard in self.index.shards}
        numbers = [
            np.arange(*_ends(self.index.samples_of(shards[name]))) for name in self._excluded_shards & shards.keys()
        ]
        for name, keys in self._excluded_samples.items():
            found = [number for key in keys for number in self.index.find(f"{name}/{key}")]
            numbers.append(np.array(found, dtype=np.int64))
        return np.unique(np.concatenate([np.empty(0, np.int64), *numbers]))

    def samples_of_part(self, split_part: str, *, excluded_shards: bool = False) -> list[range]:
        """Give the numbers of the samples of a split part, one range for each shard, excluded samples included.

        Args:
            split_part: ``"train"``, ``"val"`` …
            excluded_shards: Also give the samples of shards that are left out whole.

        Raises:
            ConfigError: There is no such part; the message names those that are there.
        """
        parts = self.split.split_parts if self.split else {}
        if split_part not in parts:
            raise ConfigError(
                f"there is no split part {split_part!r}; there are: {', '.join(parts) or 'none'}",
                file=self.storage.path(f"{FOLDER}/{self.split_file or self._split_name}"),
                do="name one of these, or split again with energon prepare --split-ratio",
            )
        excluded = frozenset[str]() if excluded_shards else self._excluded_shards
        by_name = {shard.name: shard for shard in self.index.shards}
        return [
            self.index.samples_of(by_name[name])
            for name in parts[split_part]
            if name in by_name and name not in excluded
        ]

    def close(self) -> None:
        """Close the shard that is open."""
        if self._open_shard is not None:
            self._open_shard[1].close()
            self._open_shard = None


def _ends(numbers: range) -> tuple[int, int]:
    return numbers.start, numbers.stop
