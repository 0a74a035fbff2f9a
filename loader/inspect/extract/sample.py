"""Find one sample of a dataset by its key, and read its parts as bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...convert.exporting import as_bytes, file_name
from ...errors import ConfigError, StorageError
from ...format.documents.messages import did_you_mean
from ...format.query import unknown_key_error
from ...format.single_file import open_samples

__all__ = ["PartPlace", "SampleParts", "open_sample", "write_parts"]


class PartPlace(NamedTuple):
    """A part of a sample.

    Attributes:
        name: Name of the part.
        size_bytes: Its size.
        offset: Offset of its bytes in the shard; None for a value of a JSONL or Parquet file.
    """

    name: str
    size_bytes: int
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleParts:
    """The parts of one sample.

    Attributes:
        key: Key of the sample, without its shard.
        shard: Its shard or file.
        index: Its number in the dataset, from 0.
        parts: The parts in the order of the shard.
        data: Name → bytes.
    """

    key: str
    shard: str
    index: int
    parts: tuple[PartPlace, ...]
    data: Mapping[str, bytes]

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


def open_sample(path: str, key: str, *, split_config: str | None = None, meta_folder: str | None = None) -> SampleParts:
    """Read a sample of a prepared dataset, or of a JSONL, token or Parquet file.

    Args:
        path: The dataset or file.
        key: ``<shard>/<key>``, or the bare key if it is unique.
        split_config: Name of the split file; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.

    Raises:
        ConfigError: There is no such sample, or there are several.
        FormatError: The shard has changed, or is damaged.
        StorageError: The dataset is missing or not prepared.
    """
    folder = open_samples(path, split_config=split_config, meta_folder=meta_folder)
    found = folder.index.find(key)
    if not found:
        raise unknown_key_error(folder, [key])
    if len(found) > 1:
        names = [folder.index.full_key(sample) for sample in found[:3]]
        if len(set(names)) > 1:
            more = " …" if len(found) > len(names) else ""
            raise ConfigError(
                f"{len(found):,} samples have the key {key!r}: {', '.join(names)}{more}",
                at=path,
                hint="name one with its shard",
            )
    sample = found[-1]  # of a key that a shard repeats, the last sample counts, as if the shard were unpacked
    values = folder.read_parts(sample)
    offsets: dict[str, int] = {}
    if folder.records is None:
        offsets = {part.name: part.offset for part in folder.tar_index.parts(sample)}
    folder.close()
    return _parts(folder.index.key(sample), folder.index.shard_of(sample).name, sample, values, offsets)


def _parts(key: str, shard: str, sample: int, values: Mapping[str, Any], offsets: Mapping[str, int]) -> SampleParts:
    data = {name: as_bytes(value) for name, value in values.items()}
    parts = tuple(PartPlace(name, len(some), offsets.get(name)) for name, some in data.items())
    return SampleParts(key=key, shard=shard, index=sample, parts=parts, data=data)


def write_parts(sample: SampleParts, folder: str) -> list[str]:
    """Write the parts of a sample to a folder, as ``<key>.<part>``, and return the paths; missing folders are made.

    Raises:
        StorageError: A file exists, or cannot be written.
    """
    paths = [os.path.join(folder, file_name(f"{sample.key}.{part}")) for part in sample.data]
    try:
        os.makedirs(folder, exist_ok=True)
        for path, data in zip(paths, sample.data.values(), strict=True):
            with open(path, "xb") as file:
                file.write(data)
    except FileExistsError as error:
        raise StorageError("this file exists", path=error.filename, hint="name another folder") from error
    except OSError as error:
        raise StorageError(
            f"cannot write: {error.strerror}", path=error.filename or folder, hint="check space and permissions"
        ) from error
    return paths
