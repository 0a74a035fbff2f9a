"""Iterate over the samples of a shard or a JSONL file, without an index of it."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator

from ..storage import open_parent
from .index.shard_index import index_shard
from .jsonl.index import JsonlReader, build_jsonl_index


def iter_shard_content(
    path: str | os.PathLike[str], extract_keys: Container[str] = ()
) -> Iterator[dict[str, bytes | None]]:
    """Iterate over the samples of a shard.

    Args:
        path: Path of the shard.
        extract_keys: Names of the parts to read.

    Yields:
        For each sample its parts by name: their bytes, or None for parts that are not read.

    Raises:
        FormatError: The shard is damaged.
        StorageError: It cannot be read.
    """
    storage, name = open_parent(path)
    index = index_shard(storage, name)
    with storage.open(name) as file:
        start = 0
        for stop in index.part_ends.tolist():
            sample: dict[str, bytes | None] = {}
            for row in range(start, stop):
                part = index.part_names[index.part_name[row]]
                wanted = part in extract_keys
                sample[part] = file.read_at(int(index.part_offset[row]), int(index.part_size[row])) if wanted else None
            yield sample
            start = stop


def iter_jsonl_content(path: str | os.PathLike[str]) -> Iterator[dict[str, bytes]]:
    """Iterate over the lines of a JSONL file.

    Yields:
        For each sample its line, as the part ``json``.

    Raises:
        FormatError: A line is not a JSON object.
        StorageError: The file cannot be read.
    """
    storage, name = open_parent(path)
    with JsonlReader(storage, name, build_jsonl_index(storage, name)) as reader:
        for line in range(len(reader)):
            yield {"json": reader.read_line(line)}
