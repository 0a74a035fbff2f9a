"""Reader of a JSONL file's samples by number, or by the name ``<number>.json``."""

import os
from collections.abc import Callable, Iterator
from typing import Any

from loader.format.jsonl.index import JsonlReader
from loader.samples.source_info import SourceInfo
from loader.storage import open_parent
from loader.storage.epath import EPath

from .ijsonl import CachedIJsonlOffsetReader

__all__ = ["CachedIJsonlOffsetReader", "EPath", "IJsonlReader", "SourceInfo"]


class IJsonlReader:
    """A reader of an indexed JSONL file in any order.

    Args:
        jsonl_path: The JSONL file.
        sample_filter: Function that returns True for the keys of samples to read; others are None.
        index_cache_size: Accepted for code written for megatron-energon.

    Raises:
        FormatError: The index is missing, damaged, or not of this file.
    """

    def __init__(
        self,
        jsonl_path: str | os.PathLike[str],
        sample_filter: Callable[[str], bool] | None = None,
        index_cache_size: int = 5,
    ) -> None:
        self.jsonl_path = EPath(jsonl_path)
        self.sample_filter = sample_filter
        self.cached_offset_reader = CachedIJsonlOffsetReader(jsonl_path, index_cache_size)
        self._reader = JsonlReader(*open_parent(jsonl_path))

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, idx: int | str) -> dict[str, Any] | tuple[bytes, SourceInfo] | None:
        """Return a sample by its number, or its line and source by the name ``<number>.json``.

        Raises:
            IndexError: There is no sample with this number.
            KeyError: The name is not of this form.
        """
        number = idx if isinstance(idx, int) else _number(idx)
        name = self.jsonl_path.name
        source = SourceInfo(
            dataset_path=str(self.jsonl_path), index=number, shard_name=name, file_names=(f"{number}.json",)
        )
        if isinstance(idx, str):
            return self._reader.read_line(number), source
        if self.sample_filter is not None and not self.sample_filter(str(number)):
            return None
        return {
            "__key__": str(number),
            "__shard__": name,
            "__restore_key__": ("Webdataset", number),
            "__sources__": (source,),
            "json": self._reader.read_line(number),
        }

    def list_all_samples(self) -> Iterator[tuple[str, int, int]]:
        """Yield key, size in bytes, and 0 (the number of the file) of each sample."""
        for number in range(len(self)):
            yield str(number), self.cached_offset_reader.get_ijsonl_byte_offset(number)[1], 0

    def list_all_sample_parts(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, size in bytes, and 0 of the only part of each sample."""
        return ((f"{key}.json", size, file) for key, size, file in self.list_all_samples())

    def list_sample_parts(self, sample_key: str) -> Iterator[tuple[str, int, int]]:
        """Yield name, size in bytes, and 0 of the only part of one sample."""
        number = int(sample_key)
        yield f"{number}.json", self.cached_offset_reader.get_ijsonl_byte_offset(number)[1], 0

    def get_total_size(self) -> int:
        """Return the size of the JSONL file in bytes."""
        return self.cached_offset_reader.get_total_size()

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


def _number(name: str) -> int:
    text, _, part = name.partition(".")
    if part != "json" or not text.isdecimal():
        raise KeyError(f"{name!r}: expected a name such as '17.json'")
    return int(text)
