"""The methods of dataset classes that index and split folders of shards."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...format.dataset_folder import DatasetFolder
from ...format.media.kind import MediaFilter
from ...format.nv_meta import SPLIT_YAML
from ...format.shard_content import iter_shard_content
from .prepare_dataset import ProgressFunction, prepare_dataset


class WebdatasetPreparator:
    """Methods that prepare a folder of shards from a script; all dataset classes of shards inherit them."""

    @staticmethod
    def iter_dataset_content(
        path: str | os.PathLike[str], extract_keys: Container[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Iterate over the samples of a shard, without an index.

        Args:
            path: The shard.
            extract_keys: Names of the parts to read; other parts are only listed.

        Yields:
            The parts of each sample by name: bytes, or None for parts that are not read.

        Raises:
            FormatError: The shard is damaged.
            StorageError: It cannot be read.
        """
        return iter_shard_content(path, extract_keys)

    @classmethod
    def prepare_dataset(
        cls,
        parent_path: str | os.PathLike[str],
        paths: Sequence[str | os.PathLike[str]],
        *,
        split_parts_ratio: Sequence[tuple[str, float]] | None = None,
        split_parts_patterns: Sequence[tuple[str, str]] | None = None,
        split_config: str = SPLIT_YAML,
        shuffle_seed: int | None = 42,
        progress_fn: ProgressFunction | None = None,
        progress: bool = False,
        workers: int = 32,
        tar_index_only: bool = False,
        media_filter: MediaFilter | None = None,
        fix_duplicates: bool = False,
        index_sqlite_tmp_path: str | Path | None = None,  # noqa: ARG003 - files are never written in place
    ) -> set[str]:
        """Index and split shards as ``energon prepare`` does, but write no ``dataset.yaml``.

        Args:
            parent_path: Folder of the dataset; it and the others as in
                :func:`~loader.training.factories.prepare_dataset.prepare_dataset`.
            index_sqlite_tmp_path: Accepted for code written for megatron-energon.

        Returns:
            Names of all parts of samples.

        Raises:
            ConfigError: Shards are missing, or the split is invalid.
            FormatError: Shards are damaged.
            StorageError: A folder is missing or cannot be written.
        """
        prepare_dataset(
            parent_path,
            paths,
            split_parts_ratio=split_parts_ratio,
            split_parts_patterns=split_parts_patterns,
            split_config=split_config,
            shuffle_seed=shuffle_seed,
            progress_fn=progress_fn,
            progress=progress,
            workers=workers,
            tar_index_only=tar_index_only,
            media_filter=media_filter,
            fix_duplicates=fix_duplicates,
        )
        return set(DatasetFolder(parent_path).index.part_names)

    @classmethod
    def add_media_metadata(
        cls,
        parent_path: str | os.PathLike[str],
        *,
        media_filter: MediaFilter,
        progress_fn: ProgressFunction | None = None,
        workers: int = 32,
        index_sqlite_tmp_path: str | Path | None = None,  # noqa: ARG003 - files are never written in place
    ) -> int:
        """Collect the media metadata of a prepared dataset.

        Args:
            parent_path: Folder of the dataset.
            media_filter: Parts to collect metadata of.
            progress_fn: Progress display: receives an iterator and its length, and returns an iterator.
            workers: Maximum number of reading processes.
            index_sqlite_tmp_path: Accepted for code written for megatron-energon.

        Returns:
            Number of parts with metadata.

        Raises:
            StorageError: The folder is missing, not prepared, or cannot be written.
        """
        shards = list(DatasetFolder(parent_path).shard_counts)
        report = prepare_dataset(
            parent_path, shards, media_filter=media_filter, progress_fn=progress_fn, workers=workers
        )
        return report.media.entries if report.media else 0
