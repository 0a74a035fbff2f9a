"""``energon prepare-media`` as a function."""

from __future__ import annotations

import os

from energon_cli.progress import ProgressBar
from loader.format.media_filter import MediaFilter
from loader.format.media_folder import prepare_media_folder
from loader.storage import open_storage

__all__ = ["prepare_filesystem_dataset"]


def prepare_filesystem_dataset(
    root_path: str | os.PathLike[str],
    media_filter: MediaFilter,
    *,
    progress: bool,
    workers: int = 16,
    index_sqlite_tmp_path: str | os.PathLike[str] | None = None,  # noqa: ARG001 - the file is written where it stays
) -> int:
    """Collect the media metadata of a folder's files.

    Args:
        root_path: The folder.
        media_filter: Which files to look into.
        progress: Show a bar.
        workers: Processes that read.
        index_sqlite_tmp_path: Accepted for code written for megatron-energon.

    Returns:
        How many files there are metadata of.

    Raises:
        ConfigError: The folder is a dataset.
        StorageError: No media was found, or the disk is full.
    """
    with ProgressBar("Reading headers", unit="files", enabled=progress) as bar:
        report = prepare_media_folder(
            open_storage(root_path), media_filter, workers=max(1, workers), on_progress=bar.update
        )
    return report.entries
