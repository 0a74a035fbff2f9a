"""Find samples of datasets by their keys, and read their parts as bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from ..convert import file_name
from ..dataset.dataset import PartPlace
from ..dataset.query import unknown_key_error
from ..dataset.records import as_bytes
from ..errors import ConfigError, StorageError
from ..format.dataset_ref import DatasetRef
from ..format.documents.messages import did_you_mean
from ..metadataset.datasets import OpenDataset, named_datasets, open_datasets

_MAX_NAMED = 20
_MAX_SAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleParts:
    """The parts of one sample.

    Attributes:
        dataset: Path of its dataset.
        key: Key of the sample, without its shard.
        shard: Its shard or file.
        index: Its number in the dataset, from 0.
        parts: The parts in the order of the shard.
        data: Name → bytes.
    """

    dataset: str
    key: str
    shard: str
    index: int
    parts: tuple[PartPlace, ...]
    data: Mapping[str, bytes] = field(metadata={"json": None})

    def part(self, name: str) -> bytes:
        """Return the bytes of a part.

        Raises:
            ConfigError: The sample has no such part; the message names those it has.
        """
        if name not in self.data:
            raise ConfigError(
                f"the sample has no part {name!r}{did_you_mean(name, [*self.data])}",
                at=f"{self.shard}/{self.key}",
                hint=f"name one of its parts: {', '.join(self.data)}",
            )
        return self.data[name]


class FoundSample(NamedTuple):
    """A sample that a key names.

    Attributes:
        opened: Its dataset.
        number: Its number there.
    """

    opened: OpenDataset
    number: int

    @property
    def name(self) -> str:
        """``<shard>/<key>``."""
        return self.opened.folder.index.full_key(self.number)


class SampleFinder:
    """Finds samples of some datasets by their keys, and reads them.

    Args:
        path: The path that names the datasets.
        opened: The datasets.
    """

    def __init__(self, path: str, opened: Sequence[OpenDataset]) -> None:
        self._path = path
        self._opened = opened

    def split_words(self, words: Sequence[str]) -> tuple[list[str], str | None]:
        """Return the keys among words, and the part that the last word names; None if it is a key, too.

        Args:
            words: Keys; the last of several is a part if samples have a part of this name.

        Raises:
            ConfigError: The last of several words is neither a part nor a key.
        """
        *keys, last = words
        parts = list(dict.fromkeys(name for one in self._opened for name in one.folder.index.part_names))
        if not keys or (last not in parts and self._matches(last)):
            return [*keys, last], None
        if last not in parts:
            raise ConfigError(
                f"there is no part {last!r}, and no sample of this key{did_you_mean(last, parts)}",
                at=self._path,
                hint=f"name one of the parts: {', '.join(parts[:_MAX_NAMED])}; or a sample as '<shard>/<key>'",
            )
        return keys, last

    def find(self, keys: Sequence[str]) -> list[FoundSample]:
        """Return the samples of keys, in their order.

        Args:
            keys: ``<shard>/<key>``, or bare keys that are unique.

        Raises:
            ConfigError: There is no such sample, or there are several.
        """
        found = {key: self._matches(key) for key in dict.fromkeys(keys)}
        unknown = [key for key, some in found.items() if not some]
        if unknown:
            raise unknown_key_error([one.folder for one in self._opened], unknown, at=self._path)
        for key, some in found.items():
            self._check_unique(key, some)
        return [
            found[key][-1] for key in keys
        ]  # of a key that a shard repeats, the last counts, as if it were unpacked

    def read(self, sample: FoundSample) -> SampleParts:
        """Read the parts of a sample.

        Raises:
            FormatError: The shard has changed, or is damaged.
        """
        folder, number = sample.opened.folder, sample.number
        offsets = {part.name: part.offset for part in folder.parts(number)}
        data = {name: as_bytes(value) for name, value in folder.read_parts(number).items()}
        return SampleParts(
            dataset=sample.opened.dataset.path,
            key=folder.index.key(number),
            shard=folder.index.shard_of(number).name,
            index=number,
            parts=tuple(PartPlace(name, len(some), offsets[name]) for name, some in data.items()),
            data=data,
        )

    def _matches(self, key: str) -> list[FoundSample]:
        return [FoundSample(one, number) for one in self._opened for number in one.folder.index.find(key)]

    def _check_unique(self, key: str, found: Sequence[FoundSample]) -> None:
        paths = list(dict.fromkeys(sample.opened.dataset.path for sample in found))
        if len(paths) > 1:
            more = " …" if len(paths) > _MAX_NAMED else ""
            raise ConfigError(
                f"{len(paths):,} datasets have a sample {key!r}: {', '.join(paths[:_MAX_NAMED])}{more}",
                at=self._path,
                hint="name one of these datasets instead",
            )
        names = list(dict.fromkeys(sample.name for sample in found))
        if len(names) > 1:
            more = " …" if len(names) > _MAX_SAMPLES else ""
            raise ConfigError(
                f"{len(found):,} samples have the key {key!r}: {', '.join(names[:_MAX_SAMPLES])}{more}",
                at=self._path,
                hint="name one with its shard",
            )


@contextmanager
def find_samples_of(ref: DatasetRef | str, words: Sequence[str]) -> Iterator[SampleFinder]:
    """Open what finds samples by their keys, until the block ends.

    Args:
        ref: A dataset, a JSONL, token or Parquet file, tar shards that are not prepared, or a metadataset, which
            represents the datasets that it reads.
        words: The keys that will be looked up, and perhaps the name of a part. Of shards that are not prepared, those
            that the keys name are scanned, or all.

    Raises:
        ConfigError: A metadataset contains faults.
        FormatError: A file or a shard that is not prepared is damaged.
        StorageError: A dataset is missing.
    """
    ref = DatasetRef.of(ref)
    datasets = named_datasets([ref])
    keys = words[:-1] if len(words) > 1 and "/" not in words[-1] else words
    with open_datasets(datasets, keys=keys) as opened:
        yield SampleFinder(ref.path, opened)


def open_sample(ref: DatasetRef | str, key: str) -> SampleParts:
    """Read one sample; see :func:`find_samples_of`.

    Args:
        ref: The dataset or file.
        key: ``<shard>/<key>``, or the bare key if it is unique.

    Raises:
        ConfigError: There is no such sample, or there are several.
        FormatError: The shard has changed, or is damaged.
        StorageError: The dataset is missing.
    """
    with find_samples_of(ref, [key]) as finder:
        return finder.read(finder.find([key])[0])


def write_parts(sample: SampleParts, folder: str, *, part: str | None = None) -> list[str]:
    """Write the parts of a sample to a folder, as ``<key>.<part>``, and return the paths; missing folders are made.

    Args:
        sample: The sample.
        folder: The folder.
        part: Only this part; None for all.

    Raises:
        ConfigError: The sample has no such part.
        StorageError: A file exists, or cannot be written.
    """
    data = sample.data if part is None else {part: sample.part(part)}
    paths = [os.path.join(folder, file_name(f"{sample.key}.{name}")) for name in data]
    try:
        os.makedirs(folder, exist_ok=True)
        for path, content in zip(paths, data.values(), strict=True):
            with open(path, "xb") as file:
                file.write(content)
    except FileExistsError as error:
        raise StorageError("this file exists", path=error.filename, hint="name another folder") from error
    except OSError as error:
        raise StorageError(
            f"cannot write: {error.strerror}", path=error.filename or folder, hint="check space and permissions"
        ) from error
    return paths
