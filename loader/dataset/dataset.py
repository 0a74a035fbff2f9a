"""A dataset on disk: samples by number, each with named parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..format.index.layout import SampleIndex, ShardEntry
from ..format.index.locations import SampleLocations
from ..storage import FileInfo, LocalStorage, ReadableFile
from .documents import Documents
from .open_files import OpenFiles


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


@dataclass(frozen=True, slots=True)
class DatasetTraits:
    """The kind of a dataset.

    Attributes:
        format: Format of the shards: ``"webdataset"``, ``"jsonl"``, ``"binidx"`` or ``"parquet"``.
        is_file: It is a single file: no ``.nv-meta`` describes it, and every split part is the whole file.
        is_fetched: Samples are fetched from an object store, ahead of their use.
    """

    format: str
    is_file: bool = False
    is_fetched: bool = False

    @property
    def are_records(self) -> bool:
        """True if samples are lines, rows or documents of files; False for samples in tar shards."""
        return self.format != "webdataset"

    @property
    def holds_lines(self) -> bool:
        """True if samples are lines of JSONL files, which end with a line break."""
        return self.format == "jsonl"

    @property
    def holds_values(self) -> bool:
        """True if the stored parts are final values, as in Parquet files; False if they are bytes to decode."""
        return self.are_records and not self.holds_lines

    @property
    def has_store(self) -> bool:
        """True if an own store finds parts by name."""
        return self.is_file or not self.are_records


class Dataset(ABC):
    """Samples by number, each with named parts; :func:`~.opening.dataset_at` opens one.

    Opening reads one small file; other files are read at their first use. Threads may read bytes at the same time.

    Args:
        documents: The split file and ``dataset.yaml``, with the reference and the folder of the shards.
        traits: The kind of the dataset.
        shard_counts: The shards in order, with their numbers of samples.
        rechecks: Compare a shard on this machine with the index again whenever the file has changed.
    """

    def __init__(
        self, documents: Documents, traits: DatasetTraits, shard_counts: Mapping[str, int], *, rechecks: bool = False
    ) -> None:
        self.documents = documents
        self.traits = traits
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
    def index(self) -> SampleIndex:
        """The index of all samples."""

    @abstractmethod
    def parts(self, sample: int) -> list[PartPlace]:
        """Return the parts of a sample in their order in the shard, for tar shards without reading their bytes.

        Raises:
            FormatError: The index or the sample's line or row is damaged.
        """

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
        """Return the function that locates samples, by their numbers in the index.

        Args:
            wanted: Returns True for the names of parts that are read.
        """

    @abstractmethod
    def stored_parts(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool]) -> dict[str, Any]:
        """Read the parts of a sample one by one, as they are stored, for samples that are not one byte range.

        Raises:
            FormatError: The shard ends within a part, or is damaged.
        """

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
        """Return an open shard; open it if necessary."""
        if self._rechecks:
            now = self.storage.stat(shard.name)
            if self._checked.setdefault(shard.name, now) != now:
                self._checked[shard.name] = now
                self._files.drop(shard.name)
        return self._files.find(shard.name) or self._files.add(shard.name, self.open_shard(shard))

    def close(self) -> None:
        """Close all shards; a shard that another thread reads is closed after that."""
        self._files.close()
