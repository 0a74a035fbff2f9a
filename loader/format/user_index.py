"""Find the index of a dataset in the user's folder of indexes, or in another one."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from ..errors import StorageError
from ..storage import FileInfo, is_url, open_storage, url_at_commit
from ..storage.user_indexes import index_folders, index_name
from .data_kind import SHARD_SUFFIXES, data_kind
from .nv_meta import FOLDER, INFO_JSON

_COMMITTED = INFO_JSON.rpartition("/")[2]

# In a folder of indexes: files that are named by the digest of all shards of a dataset.
_BY_SHARDS = "by-shards"
# Their text: the layout of the index of these shards. Others may have written it, so it may lead nowhere else.
_ENTRY = re.compile(r"(\w[\w.-]*)/index/[0-9a-f-]+/layout\.json")


def index_folder_of(path: str) -> str:
    """Return the folder in the user's folder of indexes to use instead of the ``.nv-meta`` of data at a path or URL.

    Raises:
        StorageError: There is no such folder: no variable names one, and the user has no home.
    """
    return os.path.join(index_folders()[0], index_name(path))


def find_index(path: str) -> str | None:
    """Return the folder or URL to use instead of the ``.nv-meta`` of data at a path or URL; None without one.

    What this user has written, because the data are read-only, comes before the ``.nv-meta`` of the data, and that
    before the indexes of others. Shards at a URL for which no index was made find one of the same shards elsewhere.
    """
    name, folders = index_name(path), list[str]()
    with suppress(StorageError):  # this user has no folder
        folders = index_folders()
    for position, folder in enumerate(folders):
        index = os.path.join(folder, name)
        if _exists(index, _COMMITTED) and (position == 0 or not open_storage(path).exists(INFO_JSON)):
            return index
    with suppress(StorageError):  # data that cannot be listed are named where they are opened
        for folder in folders if is_url(path) else ():
            other = _index_of_shards(folder, path)
            if other and not open_storage(path).exists(INFO_JSON):
                return other
    return None


def note_index(folder: str, uuid: str, shards: Iterable[FileInfo]) -> None:
    """Note the shards of an index in the user's folder of indexes, so that they find it under another URL, too.

    Args:
        folder: The folder with the index; nothing is noted of folders that are elsewhere.
        uuid: The uuid of the index.
    """
    indexes, name = os.path.split(folder)
    with suppress(StorageError):  # without the note, the index is found by its URL alone
        if indexes == index_folders()[0]:
            for digest in _digests(shards):
                open_storage(indexes).write(f"{_BY_SHARDS}/{digest}", f"{name}/index/{uuid}/layout.json".encode())


def have_same_shards(path: str, shards: Iterable[FileInfo]) -> bool:
    """Return True if the shards at a URL are these, by their names, sizes and versions."""
    return any(digest in _digests_at(_url_as_read(path)) for digest in _digests(shards))


def _index_of_shards(folder: str, path: str) -> str | None:
    if not is_url(folder) and not os.path.isdir(os.path.join(folder, _BY_SHARDS)):
        return None  # the usual case, in which the data need not be listed
    for digest in _digests_at(_url_as_read(path)):
        if _exists(folder, f"{_BY_SHARDS}/{digest}"):
            entry = _ENTRY.fullmatch(open_storage(folder).read(f"{_BY_SHARDS}/{digest}").decode("utf-8", "replace"))
            # An index that was rebuilt is of other shards.
            if entry is not None and _exists(folder, entry[0]):
                return os.path.join(folder, entry[1])
    return None


def _digests(files: Iterable[FileInfo]) -> list[str]:
    """Return the digests of the shards of each format, by their names, sizes and versions, where all have a version."""
    shards = defaultdict[str, list[tuple[str, int, str]]](list)
    for file in files:
        if file.name.endswith(SHARD_SUFFIXES) and not file.name.startswith(f"{FOLDER}/"):
            shards[data_kind(file.name).format].append((file.name, file.size_bytes, file.etag))
    return [
        hashlib.sha256(json.dumps(sorted(each)).encode()).hexdigest()[:32]  # names need not be UTF-8
        for each in shards.values()
        if all(etag for _, _, etag in each)
    ]


def _url_as_read(url: str) -> str:
    open_storage(url)  # finds the commit of a branch
    return url_at_commit(url)


@cache
def _digests_at(url: str) -> list[str]:
    return _digests(open_storage(url).list())


def _exists(folder: str, name: str) -> bool:
    return _exists_at(folder, name) if is_url(folder) else os.path.exists(os.path.join(folder, name))


@cache
def _exists_at(url: str, name: str) -> bool:
    return open_storage(url).exists(name)
