"""The samples of one dataset as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...convert.exporting import file_name, key_of, split_file_name
from ...dataset.dataset import Dataset
from ...dataset.split_parts import is_excluded, runs_of_part
from ...format.index.layout import ShardEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The arrangement of files.

    Attributes:
        sample_folders: A folder for each sample with a file for each part, instead of files ``<key>.<part>``.
        shard_folders: Files are in a folder for each shard, instead of all in one.
    """

    sample_folders: bool = False
    shard_folders: bool = False


class DatasetFiles:
    """The files of a dataset, read from its shards.

    Of samples with the same key in a folder, the last one is shown.

    Args:
        folder: The dataset.
        layout: The arrangement of the files.
        split_part: Only samples of this split part that the split does not exclude; None for all samples.

    Raises:
        ConfigError: There is no such split part.
    """

    def __init__(self, folder: Dataset, layout: Layout, *, split_part: str | None = None) -> None:
        self._folder = folder
        self._layout = layout
        self._is_restricted = split_part is not None
        every = [range(len(folder.index))] if split_part is None else runs_of_part(folder, split_part)
        self._ranges: Sequence[range] = [some for some in every if len(some)]
        self._shards = {file_name(shard.name): shard for shard in folder.index.shards if self._of_shard(shard)}

    def entry(self, path: Sequence[str]) -> Entry | None:
        """Return what is at a path; None if nothing is."""
        shard, rest = self._shard_of(path)
        if self._layout.shard_folders and path and shard is None:
            return None
        if not rest:
            return Entry(is_folder=True, mtime_ns=shard.mtime_ns if shard else 0)
        found = self._find(shard, rest)
        if found is None:
            return None
        sample, part = found
        mtime_ns = self._folder.index.shard_of(sample).mtime_ns
        if part is None:
            return Entry(is_folder=True, mtime_ns=mtime_ns)
        size = self._sizes(sample).get(part)
        return None if size is None else Entry(is_folder=False, size_bytes=size, mtime_ns=mtime_ns)

    def names(self, path: Sequence[str]) -> Iterator[str]:
        """Yield the names in a folder, each once; folders without files for a path where nothing is."""
        shard, rest = self._shard_of(path)
        if self._layout.shard_folders and not path:
            yield from self._shards
        elif not rest:
            yield from dict.fromkeys(self._sample_names(shard))
        else:
            found = self._find(shard, rest)
            if found is not None and found[1] is None:
                yield from map(file_name, self._sizes(found[0]))

    def read(self, path: Sequence[str], offset: int, size: int) -> bytes:
        """Read bytes of a file; fewer at its end.

        Raises:
            FileNotFoundError: Nothing is at the path, or a folder.
            EnergonError: The shard is missing or damaged, or has changed.
        """
        shard, rest = self._shard_of(path)
        sample, part = (self._find(shard, rest) if rest else None) or (0, None)
        if part is None:
            raise FileNotFoundError("/".join(path))
        try:
            return self._folder.read(sample, part, offset, offset + size)
        except KeyError as error:
            raise FileNotFoundError("/".join(path)) from error

    def close(self) -> None:
        """Close all shards."""
        self._folder.close()

    # ---------------------------------------------------------------------------------------------------- paths

    def _shard_of(self, path: Sequence[str]) -> tuple[ShardEntry | None, Sequence[str]]:
        """Return the shard of a path, if it has one, and the rest of the path."""
        if not self._layout.shard_folders or not path:
            return None, path
        return self._shards.get(path[0]), path[1:]

    def _find(self, shard: ShardEntry | None, path: Sequence[str]) -> tuple[int, str | None] | None:
        """Return the sample and the part at a path; no part for a sample's folder."""
        if self._layout.sample_folders:
            key, part = key_of(path[0]), key_of(path[1]) if len(path) > 1 else None
            depth = 2
        else:
            key, part = split_file_name(path[0])
            depth = 1
        if len(path) > depth or (shard is None and self._layout.shard_folders):
            return None
        sample = self._sample(shard, key)
        return None if sample is None else (sample, part)

    def _sample(self, shard: ShardEntry | None, key: str) -> int | None:
        index = self._folder.index
        found = index.find(key if shard is None else f"{shard.name}/{key}")
        for sample in reversed(found):
            if index.key(sample) == key and (shard is None or index.shard_of(sample) is shard) and self._has(sample):
                return sample
        return None

    def _has(self, sample: int) -> bool:
        if not self._is_restricted:
            return True
        return any(sample in some for some in self._ranges) and not is_excluded(self._folder, sample)

    def _of_shard(self, shard: ShardEntry) -> list[range]:
        start, stop = shard.first_sample, shard.first_sample + shard.samples
        parts = (range(max(start, some.start), min(stop, some.stop)) for some in self._ranges)
        return [some for some in parts if len(some)]

    def _sample_names(self, shard: ShardEntry | None) -> Iterator[str]:
        for some in self._ranges if shard is None else self._of_shard(shard):
            for sample in some:
                if self._is_restricted and is_excluded(self._folder, sample):
                    continue
                key = self._folder.index.key(sample)
                if self._layout.sample_folders:
                    yield file_name(key)
                else:
                    yield from (file_name(f"{key}.{part}") for part in self._sizes(sample))

    # ----------------------------------------------------------------------------------------------------- bytes

    def _sizes(self, sample: int) -> dict[str, int]:
        return {part.name: part.size_bytes for part in self._folder.parts(sample)}


class Entry(NamedTuple):
    """A file or folder.

    Attributes:
        is_folder: True for a folder.
        size_bytes: Size of a file.
        mtime_ns: Time of the last change in nanoseconds since 1970.
    """

    is_folder: bool
    size_bytes: int = 0
    mtime_ns: int = 0
