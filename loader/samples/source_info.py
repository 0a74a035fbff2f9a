"""Where a sample comes from."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["SourceInfo"]


class SourceInfo(NamedTuple):
    """The place of a sample's parts on disk.

    Attributes:
        dataset_path: The dataset's folder.
        index: The sample's index in the dataset, or its name in an auxiliary source.
        shard_name: The shard, relative to the dataset.
        file_names: The members of the shard that were read: ``("0001.jpg", "0001.txt")``.
    """

    dataset_path: Any
    index: int | str | None  # type: ignore[assignment]  # it hides tuple.index(), which nobody asks of a source
    shard_name: str | None
    file_names: tuple[str, ...]

    def __str__(self) -> str:
        where = str(self.dataset_path) if self.shard_name is None else f"{self.dataset_path}/{self.shard_name}"
        return f"{where}: {', '.join(self.file_names)}" if self.file_names else where
