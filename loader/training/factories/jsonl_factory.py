"""Factories for JSONL files, to build a chain on by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ...format.jsonl.index import prepare_jsonl
from ...format.shard_content import iter_jsonl_content
from ...storage import open_parent
from ...stores.file_store import FileStore
from ...stores.record_file_stores import JsonlFileStore
from .record_factory import RecordDatasetFactory


class CrudeJsonlDatasetFactory(RecordDatasetFactory):
    """A JSONL file, whose index is next to it: each line is a crude sample with the single part ``json``."""

    def as_file_store(self) -> FileStore[Any]:
        """Return the lines by number."""
        return JsonlFileStore(self.path)

    @staticmethod
    def iter_dataset_content(path: str | os.PathLike[str]) -> Iterator[dict[str, bytes]]:
        """Iterate over the lines of a JSONL file, without an index.

        Yields:
            The line of each sample, as ``json``.

        Raises:
            FormatError: A line is not a JSON object.
            StorageError: The file cannot be read.
        """
        return iter_jsonl_content(path)

    @classmethod
    def prepare_dataset(cls, path: str | os.PathLike[str]) -> int:
        """Index a JSONL file, as ``energon prepare`` does.

        Returns:
            Number of samples.

        Raises:
            FormatError: A line is not a JSON object.
            StorageError: The file cannot be read, or the index cannot be written.
        """
        return len(prepare_jsonl(*open_parent(path)))


class DefaultCrudeJsonlDatasetFactory(CrudeJsonlDatasetFactory):
    """A JSONL file, under the class name that ``dataset.yaml`` files of megatron-energon use."""
