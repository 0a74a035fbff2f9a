"""Find the index of a dataset in the user's folder of indexes, or in another one."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache

from ..errors import StorageError
from ..storage import is_url, open_storage
from ..storage.user_indexes import index_folders, index_name
from .nv_meta import INFO_JSON

_COMMITTED = INFO_JSON.rpartition("/")[2]


def index_folder_of(path: str) -> str:
    """Return the folder in the user's folder of indexes to use instead of the ``.nv-meta`` of data at a path or URL.

    Raises:
        StorageError: There is no such folder: no variable names one, and the user has no home.
    """
    return os.path.join(index_folders()[0], index_name(path))


def find_index(path: str) -> str | None:
    """Return the folder or URL to use instead of the ``.nv-meta`` of data at a path or URL; None without one.

    What this user has written, because the data are read-only, comes before the ``.nv-meta`` of the data, and that
    before the indexes of others.
    """
    name, folders = index_name(path), list[str]()
    with suppress(StorageError):  # this user has no folder
        folders = index_folders()
    for position, folder in enumerate(folders):
        index = os.path.join(folder, name)
        if (_has_index(index) if is_url(folder) else os.path.exists(os.path.join(index, _COMMITTED))) and (
            position == 0 or not open_storage(path).exists(INFO_JSON)
        ):
            return index
    return None


@cache
def _has_index(url: str) -> bool:
    return open_storage(url).exists(_COMMITTED)
