"""Find samples of datasets by their keys, and read their parts as bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..convert import file_name
from ..dataset.dataset import PartPlace
from ..dataset.query import unknown_key_error
from ..dataset.records import as_bytes
from ..errors import ConfigError, StorageError, plural
from ..format.dataset_ref import DatasetRef
from ..format.documents.messages import did_you_mean
from ..metadataset.datasets import OpenDataset, named_datasets, open_datasets

_MAX_NAMED = 20  # datasets or parts in a message
_MAX_SAMPLES = 3  # samples in a message: their names are long


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedParts:
    """The parts of one sample.

    Attributes:
        key: Key of the sample, without its shard.
        index: Its number in the dataset, from 0.
        data: Name → bytes.
    """

    dataset: str
    key: str
    shard: str
    index: int
    parts: tuple[PartPlace, ...]
    data: Mapping[str, bytes] = field(metadata={"json": None})

    def part(self, name: str) -> bytes:
        """Return the bytes of a part."""
        if name not in self.data:
            raise ConfigError(
                f"the sample has no part {name!r}{did_you_mean(name, [*self.data])}",
                at=f"{self.shard}/{self.key}",
                hint=f"name one of its parts: {', '.join(self.data)}",
            )
        return self.data[name]


FoundSample = tuple[OpenDataset, int]
"""A dataset, and the number of a sample in it."""


class SampleFinder:
    """Finds samples of some datasets by their keys, and reads them."""

    def __init__(self, path: str, opened: Sequence[OpenDataset]) -> None:
        self._path = path
        self._opened = opened

    def split_words(self, words: Sequence[str]) -> tuple[list[str], str | None]:
        """Return the keys among words, and the part that the last word names if samples have it, unless it is a key."""
        *keys, last = words
        parts = list(dict.fromkeys(name for opened in self._opened for name in opened.folder.index.part_names))
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
        """Return the samples of keys, ``<shard>/<key>`` or bare keys that are unique, in their order."""
        matches = {key: self._matches(key) for key in dict.fromkeys(keys)}
        unknown = [key for key, some in matches.items() if not some]
        if unknown:
            raise unknown_key_error([opened.folder for opened in self._opened], unknown, at=self._path)
        for key, some in matches.items():
            self._check_unique(key, some)
        # Of a key that a shard repeats, the last one counts, as if the shard were unpacked.
        return [matches[key][-1] for key in keys]

    def read(self, sample: FoundSample) -> ListedParts:
        """Read the parts of a sample."""
        opened, index = sample
        folder = opened.folder
        # Rows of Parquet files have values, which are read as text or JSON.
        offsets = {part.name: part.offset for part in folder.parts(index)}
        data = {name: as_bytes(value) for name, value in folder.read_parts(index).items()}
        return ListedParts(
            dataset=opened.dataset.path,
            key=folder.index.key(index),
            shard=folder.index.shard_of(index).name,
            index=index,
            parts=tuple(PartPlace(name, len(some), offsets[name]) for name, some in data.items()),
            data=data,
        )

    def _matches(self, key: str) -> list[FoundSample]:
        return [(opened, index) for opened in self._opened for index in opened.folder.index.find(key)]

    def _check_unique(self, key: str, matches: Sequence[FoundSample]) -> None:
        # Several datasets of one metadataset may have the key, or several shards of one dataset.
        paths = list(dict.fromkeys(opened.dataset.path for opened, _ in matches))
        if len(paths) > 1:
            fault = f"{plural(len(paths), 'dataset has', 'datasets have')} a sample {key!r}"
            raise self._not_unique(fault, paths, _MAX_NAMED, hint="name one of these datasets instead")
        names = list(dict.fromkeys(opened.folder.index.full_key(index) for opened, index in matches))
        if len(names) > 1:
            fault = f"{plural(len(matches), 'sample has', 'samples have')} the key {key!r}"
            raise self._not_unique(fault, names, _MAX_SAMPLES, hint="name one with its shard")

    def _not_unique(self, fault: str, names: Sequence[str], most: int, *, hint: str) -> ConfigError:
        more = " …" if len(names) > most else ""
        return ConfigError(f"{fault}: {', '.join(names[:most])}{more}", at=self._path, hint=hint)


@contextmanager
def find_samples_of(ref: DatasetRef | str, words: Sequence[str]) -> Iterator[SampleFinder]:
    """Open what finds samples by their keys, until the block ends.

    Args:
        ref: A dataset, a JSONL, token or Parquet file, tar shards that are not prepared, or a metadataset, which
            represents the datasets that it reads.
        words: The keys that will be looked up, and perhaps the name of a part. Of shards that are not prepared, those
            that the keys name are scanned, or all.
    """
    ref = DatasetRef.of(ref)
    datasets = named_datasets([ref])
    # The last word may be a part; a word with a slash is a key.
    keys = words[:-1] if len(words) > 1 and "/" not in words[-1] else words
    with open_datasets(datasets, keys=keys) as opened:
        yield SampleFinder(ref.path, opened)


def open_sample(ref: DatasetRef | str, key: str) -> ListedParts:
    """Read one sample by ``<shard>/<key>``, or by the bare key if it is unique; see :func:`find_samples_of`."""
    with find_samples_of(ref, [key]) as finder:
        return finder.read(finder.find([key])[0])


def write_parts(sample: ListedParts, folder: str, *, part: str | None = None) -> list[str]:
    """Write the parts of a sample, or one of them, to a folder as ``<key>.<part>``, and return the paths."""
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
