"""Where a sample comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["SourceInfo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo:
    """The place of a sample's parts on disk.

    Args:
        dataset_path: The dataset's folder.
        index: The sample's index in the dataset, or its name in an auxiliary source.
        shard_name: The shard, relative to the dataset.
        file_names: The members of the shard that were read: ``("0001.jpg", "0001.txt")``.
    """

    dataset_path: Any
    index: int | str | None
    shard_name: str | None
    file_names: tuple[str, ...]

    def __str__(self) -> str:
        where = str(self.dataset_path) if self.shard_name is None else f"{self.dataset_path}/{self.shard_name}"
        return f"{where}: {', '.join(self.file_names)}" if self.file_names else where
