"""Remove the folder of finished work in one step, so that no kill leaves a part of its records."""

from __future__ import annotations

from ...storage import LocalStorage, Storage

_SUFFIX = ".done"


def remove_work_folder(storage: Storage, folder: str) -> None:
    """Remove a folder: of a dataset on this machine, it loses its name first, and all at once.

    Args:
        storage: The dataset.
        folder: Name of the folder.
    """
    if isinstance(storage, LocalStorage) and storage.exists(folder):
        storage.remove(f"{folder}{_SUFFIX}")
        storage.rename(folder, f"{folder}{_SUFFIX}")
        remove_leftovers(storage, folder)
    else:
        storage.remove(folder)


def remove_leftovers(storage: Storage, folder: str) -> None:
    """Remove what a kill during :func:`remove_work_folder` has left."""
    if isinstance(storage, LocalStorage):
        storage.remove(f"{folder}{_SUFFIX}")
