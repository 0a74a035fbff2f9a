"""A dataset on disk: samples by number, each with named parts, and its split file and ``dataset.yaml``."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..cached_property import cached_property
from ..errors import ConfigError
from ..format.columns.column_record import column_names
from ..format.data_kind import SHARD_SUFFIXES, Kind
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig, parse_dataset_config
from ..format.documents.dataset_files import current_split_file, read_split_config
from ..format.documents.next_command import split_hint
from ..format.documents.providers import ALL_PARTS
from ..format.documents.split_config import SplitConfig, split_sample_name
from ..format.index.layout import AbstractIndex, ShardEntry
from ..format.index.locations import SampleLocations
from ..format.nv_meta import DATASET_YAML, FOLDER, SPLIT_YAML
from ..storage import FileInfo, LocalStorage, ReadableFile, Storage, read_document
from .open_files import OpenFiles


class Documents:
    """The documents of a prepared folder, each read at its first use.

    Args:
        index: Returns the index of all samples; called only for documents that name samples or parts.
    """

    def __init__(
        self, ref: DatasetRef, storage: Storage, shards: Iterable[str], index: Callable[[], AbstractIndex]
    ) -> None:
        self.ref = ref
        self.storage = storage
        self._shards = shards
        self._index = index
        self._split_error: ConfigError | None = None

    @property
    def split_path(self) -> str:
        return self.storage.path(f"{FOLDER}/{self.split_file or self._split_name}")

    @cached_property
    def _split_name(self) -> str:
        return self._named("split_config", self.ref.split_file, SPLIT_YAML)

    def loaded_part(self, split_part: str) -> str:
        """Return the split part to load where one is requested: another one if ``dataset.yaml`` names it."""
        return self._named("split_part", split_part, ALL_PARTS) if split_part != ALL_PARTS else split_part

    def _named(self, key: str, requested: str, default: str) -> str:
        document = self._config_document
        # Parsing the document takes long, so it is searched for the key first.
        named = getattr(self.config, key) if document and key.encode() in document else None
        if named and requested not in (default, named):
            file = self.storage.path(f"{FOLDER}/{self.ref.dataset_file}")
            text = f"{key}={requested!r} has no effect: {file} names {named!r}"
            warnings.warn(text, stacklevel=1)  # of this line, so that it is shown once
        return str(named or requested)

    @cached_property
    def split(self) -> SplitConfig | None:
        """The split, whose excluded samples all have their shards; None if the dataset has no split file."""
        # To find out again why a split is refused takes seconds if the file has millions of lines.
        if self._split_error is not None:
            raise self._split_error.with_traceback(None)
        try:
            config = read_split_config(self.storage, self._split_name)
            if config is None and self._split_name != SPLIT_YAML:
                raise self._missing(self._split_name)
        except ConfigError as error:
            self._split_error = error
            raise
        return self._with_shards_of_excluded(config) if config and config.exclude else config

    def _with_shards_of_excluded(self, config: SplitConfig) -> SplitConfig:
        """Replace bare keys of excluded samples by ``<shard>/<key>``; the index is read only if there are some."""
        shards = frozenset((*self._shards, *(name for part in config.split_parts.values() for name in part)))
        names: list[str] = []
        # A name that is neither a shard nor begins with one is the bare key of a sample.
        for name in config.exclude:
            shard, key = split_sample_name(name, shards)
            is_bare = key is None and shard not in shards and not name.endswith(SHARD_SUFFIXES)
            samples = self._index().find(name) if is_bare else []
            names += [self._index().full_key(sample) for sample in samples] or [name]
        return (
            config
            if len(names) == len(config.exclude) and tuple(names) == config.exclude
            else replace(config, exclude=tuple(names))
        )

    @property
    def split_file(self) -> str | None:
        """Name in ``.nv-meta`` of the split file that is used; None if the dataset has no split file."""
        return current_split_file(self.storage, self._split_name)

    @cached_property
    def excluded_shards(self) -> frozenset[str]:
        return self.split.excluded_shards() if self.split and self.split.exclude else frozenset()

    @cached_property
    def excluded_keys(self) -> dict[str, frozenset[str]]:
        """Shard name → the keys of the samples that the split excludes in it."""
        return self.split.excluded_samples() if self.split and self.split.exclude else {}

    @cached_property
    def config(self) -> DatasetConfig | None:
        """The content of ``dataset.yaml``; None if it is missing, and samples are crude."""
        document = self._config_document
        if document is None:
            if self.ref.dataset_file != DATASET_YAML:
                raise self._missing(self.ref.dataset_file)
            return None
        path = self.storage.path(f"{FOLDER}/{self.ref.dataset_file}")
        config = parse_dataset_config(document.decode("utf-8", "replace"), file=path)
        # Only a field map that depends on the parts needs the index.
        if config.field_map is None or not config.field_map.needs_parts:
            return config
        return replace(config, field_map=config.field_map.resolved(self._index().names, file=path))

    @cached_property
    def _config_document(self) -> bytes | None:
        file = f"{FOLDER}/{self.ref.dataset_file}"
        return read_document(self.storage, file, is_short=True) if self.storage.exists(file) else None

    def _missing(self, name: str) -> ConfigError:
        return ConfigError("there is no such file", file=self.storage.path(f"{FOLDER}/{name}"), hint="check its name")

    def required_split(self) -> SplitConfig:
        if self.split is None:
            path = self.storage.path("")
            raise ConfigError("this dataset has no split file", at=path, hint=split_hint(path))
        return self.split

    def column_names(self) -> list[str]:
        return column_names(self.storage)


class NoDocuments(Documents):
    """The documents of a dataset without ``.nv-meta``, such as a single file: it has neither."""

    split = split_file = config = None

    def loaded_part(self, split_part: str) -> str:
        return split_part

    def column_names(self) -> list[str]:
        return []


class PartPlace(NamedTuple):
    """The location of a part.

    Attributes:
        name: Name of the part.
        size_bytes: Its size.
        offset: Offset of its bytes in the shard; None for a value of a JSONL, token or Parquet file.
    """

    name: str
    size_bytes: int
    offset: int | None


class Member(NamedTuple):
    """One dataset of a sample: the prefix of its parts' names, the dataset, and the sample's number there."""

    prefix: str
    dataset: Dataset
    number: int


class Dataset(ABC):
    """Samples by number, each with named parts; :func:`~.opening.dataset_at` opens one.

    Opening reads one small file; other files are read at their first use. Threads may read bytes at the same time.

    Args:
        documents: The split file and ``dataset.yaml``, with the reference and the folder of the shards.
        shard_counts: The shards in order, with their numbers of samples.
        rechecks: Compare a shard on this machine with the index again whenever the file has changed.
    """

    kind: Kind
    format = "webdataset"  # of the shards, or else `jsonl`, `binidx` or `parquet`
    is_file = False  # a single file: no `.nv-meta` describes it, and every split part is the whole file
    is_fetched = False  # samples are fetched from an object store, ahead of their use
    holds_lines = False  # samples are lines of JSONL files, which end with a line break
    holds_values = False  # the stored parts are final values, as in Parquet files, and no bytes to decode
    has_store = True  # an own store finds parts by name

    def __init__(self, documents: Documents, shard_counts: Mapping[str, int], *, rechecks: bool = False) -> None:
        self.documents = documents
        self.ref = documents.ref
        self.storage = documents.storage
        self.path = self.storage.path("")
        self.shard_counts = shard_counts
        self._files = OpenFiles()
        self._rechecks = rechecks and isinstance(self.storage, LocalStorage)
        self._checked: dict[str, FileInfo] = {}

    def __len__(self) -> int:
        """Return the number of samples in the index, excluded ones included."""
        return len(self.index)

    @property
    @abstractmethod
    def index(self) -> AbstractIndex:
        """The index of all samples."""

    @property
    def part_names(self) -> Sequence[str]:
        """Names of the parts that samples may have."""
        return self.index.part_names

    @property
    def sample_bytes(self) -> int:
        """Average size of a sample in bytes, which decides how many are fetched ahead."""
        layout = self.index.layout
        return sum(part.total_bytes for part in layout.part_stats) // max(1, layout.samples)

    @abstractmethod
    def parts(self, sample: int) -> list[PartPlace]:
        """Return the parts of a sample in their order in the shard, for tar shards without reading their bytes.

        Raises:
            FormatError: The index or the sample's line or row is damaged.
        """

    def names_of_parts(self, sample: int) -> list[str]:
        """Return the names of a sample's parts, with those that repeat."""
        return [part.name for part in self.parts(sample)]

    @abstractmethod
    def read(self, sample: int, part: str, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes ``[start, stop)`` of a part; fewer at its end.

        Raises:
            KeyError: The sample has no such part.
            FormatError: The shard has changed since it was indexed, or is damaged.
            StorageError: The shard is missing or cannot be read.
        """

    @abstractmethod
    def read_parts(
        self, sample: int, names: Collection[str] | None = None, *, max_json_bytes: int | None = None
    ) -> dict[str, Any]:
        """Read the parts of one sample.

        Args:
            sample: Number of the sample in the index.
            names: Names of the parts to read; None for all.
            max_json_bytes: Of larger JSON parts only the first bytes are read; None reads all parts whole.

        Returns:
            Part name → bytes, in the order in the shard; the values of a row's columns for Parquet files.

        Raises:
            FormatError: The shard is not the indexed one, or ends within a part.
        """

    def members_of(self, sample: int) -> list[Member]:
        """Return the datasets that a sample has parts in."""
        return [Member("", self, sample)]

    @abstractmethod
    def locator(self, wanted: Callable[[str], bool]) -> Callable[..., SampleLocations]:
        """Return the function that locates the wanted parts of samples, by their numbers in the index."""

    @abstractmethod
    def stored_parts(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool]) -> dict[str, Any]:
        """Read the parts of a sample one by one, as they are stored, for samples that are not one byte range.

        Raises:
            FormatError: The shard ends within a part, or is damaged.
        """

    def find(self, key: str) -> list[int]:
        """Return the samples of a key, ``<shard>/<key>`` or the key alone, ascending."""
        return self.index.find(key)

    def full_key(self, sample: int) -> str:
        """Return ``shard/key`` of a sample, or its number if the dataset is a single file."""
        return self.index.full_key(sample)

    def place_of(self, sample: int) -> str:
        """Describe the location of a sample, without reading it."""
        return f"{self.full_key(sample)!r} of {self.ref.path}"

    @abstractmethod
    def open_shard(self, shard: ShardEntry) -> ReadableFile:
        """Open a shard, and check that it has not changed since it was indexed.

        Raises:
            FormatError: It has changed.
            StorageError: It is missing or cannot be read.
        """

    def open_file(self, shard: ShardEntry) -> ReadableFile:
        # A file that was replaced is opened again, and then compared with the index.
        if self._rechecks:
            now = self.storage.stat(shard.name)
            if self._checked.setdefault(shard.name, now) != now:
                self._checked[shard.name] = now
                self._files.drop(shard.name)
        return self._files.find(shard.name) or self._files.add(shard.name, self.open_shard(shard))

    def close(self) -> None:
        """Close all shards; a shard that another thread reads is closed after that."""
        self._files.close()
