"""Names and records of the two files of a filter.

``filter_<name>.idx`` is an array of little-endian uint64: the kept samples, by their numbers over all shards in the
order of ``.info.json``, strictly increasing. ``filter_<name>.json`` has the number of kept samples of each shard. The
filter ``<name>`` of a single file ``x.jsonl`` is in ``x.jsonl.<name>.idx`` and ``x.jsonl.<name>.json`` next to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import FormatError
from ...storage import RemoteStorage, Storage, read_document
from ..nv_meta import FOLDER, INFO_JSON, is_filter_name

NUMBER = np.dtype("<u8")  # type of a sample's number in an ``.idx`` file

_FORMAT_VERSION = 1
_IN_FOLDER = re.compile(rf"{re.escape(FOLDER)}/filter_(.+)\.json")


def filter_names(storage: Storage) -> list[str]:
    """List the filters of a prepared dataset; none on a web server, which lists no files."""
    if (isinstance(storage, RemoteStorage) and not storage.can_list) or not storage.exists(INFO_JSON):
        return []
    found = (_IN_FOLDER.fullmatch(file.name) for file in storage.list(FOLDER))
    return sorted(match[1] for match in found if match and is_filter_name(match[1]))


@dataclass(frozen=True, slots=True)
class FilterFiles:
    """The files of one filter."""

    storage: Storage  # the dataset, or the folder of the single file
    name: str  # name of the filter
    prefix: str  # names of both files without their extensions

    @classmethod
    def of_dataset(cls, storage: Storage, name: str) -> FilterFiles:
        return cls(storage, name, f"{FOLDER}/filter_{name}")

    @classmethod
    def of_file(cls, storage: Storage, file: str, name: str) -> FilterFiles:
        return cls(storage, name, f"{file}.{name}")

    @property
    def path(self) -> str:
        """Path of the ``.idx`` file, for messages."""
        return self.storage.path(f"{self.prefix}.idx")

    def exist(self) -> bool:
        return self.storage.exists(f"{self.prefix}.json")

    def write(self, counts: Mapping[str, int], numbers: Iterator[npt.NDArray[Any]]) -> None:
        """Write both files; the ``.json`` file comes last and makes the filter valid.

        Args:
            counts: Kept samples of each shard, in the order of the shards.
            numbers: The kept samples, in pieces.
        """
        with self.storage.create(f"{self.prefix}.idx") as file:
            for some in numbers:
                file.write(np.ascontiguousarray(some, NUMBER).data)
        record = {"format_version": _FORMAT_VERSION, "shard_counts": dict(counts)}
        with self.storage.create(f"{self.prefix}.json") as file:
            file.write(json.dumps(record, indent=2).encode("ascii"))

    def read_counts(self) -> dict[str, int]:
        """Read the number of kept samples of each shard."""
        file = f"{self.prefix}.json"
        try:
            record = json.loads(read_document(self.storage, file))
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"it is not JSON: {error}", ".json") from error
        if not isinstance(record, dict):
            raise self.damaged("it is not a mapping", ".json")
        version = record.get("format_version", _FORMAT_VERSION)
        if version != _FORMAT_VERSION:
            raise self.damaged(f"expected format_version {_FORMAT_VERSION}, found {version!r}", ".json")
        counts = record.get("shard_counts")
        if not isinstance(counts, dict) or not all(type(count) is int and count >= 0 for count in counts.values()):
            raise self.damaged("expected 'shard_counts', the number of kept samples of each shard", ".json")
        return counts

    def damaged(self, found: str, extension: str = ".idx") -> FormatError:
        return FormatError(
            f"the filter {self.name!r} is damaged or stale: {found}",
            shard=self.storage.path(f"{self.prefix}{extension}"),
            hint="build the filter again with build_filter_index()",
        )
