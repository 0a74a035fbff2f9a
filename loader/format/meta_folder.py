"""Find the meta folder of a dataset: next to its shards, in the user's folder of indexes, or in another one."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Literal, NamedTuple

from ..errors import StorageError
from ..storage import FileInfo, is_url, open_storage, url_at_commit
from ..storage.user_indexes import index_folders, index_name
from .data_kind import SHARD_SUFFIXES, data_kind
from .nv_meta import FOLDER, INDEX_UUID, INFO_JSON

_COMMITTED, _UUID = INFO_JSON.rpartition("/")[2], INDEX_UUID.rpartition("/")[2]

# In a folder of indexes: files that are named by the digest of all shards of a dataset.
_BY_SHARDS = "by-shards"
# Their text: the layout of the index of these shards. Others may have written it, so it may lead nowhere else.
_ENTRY = re.compile(r"(\w[\w.-]*)/index/([0-9a-f-]+)/layout\.json")
_MAX_ENTRY_BYTES = 512  # names of folders have at most 255


class MetaFolder(NamedTuple):
    """The folder with the index and the documents of a dataset.

    Attributes:
        path: Path or URL; ``.nv-meta`` for the folder next to the shards.
        origin: Where it is from. ``"data"``: it is next to the shards. ``"named"``: a caller named it. ``"temporary"``:
            it was made for the time of a command. ``"user"``, ``"others"``: it is in the first, or another, folder of
            indexes, under the name of the data. ``"same shards"``: it is the index of data at another URL.
    """

    path: str
    origin: Literal["data", "named", "temporary", "user", "others", "same shards"]


IN_DATA = MetaFolder(FOLDER, "data")


def index_folder_of(path: str) -> str:
    """Return the folder in the user's folder of indexes to use instead of the ``.nv-meta`` of data at a path or URL.

    Raises:
        StorageError: There is no such folder: no variable names one, and the user has no home.
    """
    return os.path.join(index_folders()[0], index_name(path))


def find_meta(path: str) -> MetaFolder:
    """Return the meta folder of data at a path or URL.

    What this user has written, because the data are read-only, comes before the ``.nv-meta`` of the data, and that
    before the indexes of others. Shards at a URL for which no index was made find one of the same shards elsewhere.
    """
    name, folders = index_name(path), list[str]()
    with suppress(StorageError):  # this user has no folder
        folders = index_folders()
    # The user's own index, that of the data, and then those of others: a URL that is down hides none before it.
    if folders and _exists(index := os.path.join(folders[0], name), _COMMITTED):
        return MetaFolder(index, "user")
    if not folders[1:] and not (is_url(path) and _with_entries(folders)):
        return IN_DATA  # the usual case, in which the data need not be asked
    with suppress(StorageError):  # data that cannot be read are named where they are opened
        if open_storage(path).exists(INFO_JSON):
            return IN_DATA
    for folder in folders[1:]:
        if _exists(index := os.path.join(folder, name), _COMMITTED):
            return MetaFolder(index, "others")
    for folder in _with_entries(folders) if is_url(path) else ():
        if by_shards := _index_of_shards(folder, path):
            return MetaFolder(by_shards, "same shards")
    return IN_DATA


def note_index(folder: str, uuid: str, shards: Iterable[FileInfo]) -> None:
    """Note the shards of an index in the user's folder of indexes, so that they find it under another URL, too.

    Args:
        folder: The folder with the index; nothing is noted of folders that are elsewhere.
        uuid: The uuid of the index.
    """
    indexes, name = os.path.split(folder)
    with suppress(StorageError):  # without the note, the index is found by its URL alone
        if os.path.abspath(indexes) == os.path.abspath(index_folders()[0]):
            for digest in _digests(shards):
                open_storage(indexes).write(f"{_BY_SHARDS}/{digest}", f"{name}/index/{uuid}/layout.json".encode())


def have_same_shards(path: str, shards: Iterable[FileInfo]) -> bool:
    """Return True if the shards at a URL are these, by their names, sizes and versions."""
    return any(digest in _digests_at(_url_as_read(path)) for digest in _digests(shards))


def _with_entries(folders: Iterable[str]) -> list[str]:
    """Return the folders of indexes that may note shards."""
    return [each for each in folders if is_url(each) or os.path.isdir(os.path.join(each, _BY_SHARDS))]


def _index_of_shards(folder: str, path: str) -> str | None:
    with suppress(StorageError):  # an entry that cannot be read hides none of other folders
        for digest in _digests_at(_url_as_read(path)):
            if _exists(folder, f"{_BY_SHARDS}/{digest}"):
                indexes = open_storage(folder)
                text = indexes.read(f"{_BY_SHARDS}/{digest}", 0, _MAX_ENTRY_BYTES).decode("utf-8", "replace")
                entry = _ENTRY.fullmatch(text)
                # An index that was rebuilt is of other shards.
                if entry and indexes.read(f"{entry[1]}/{_UUID}", 0, 64).strip() == entry[2].encode():
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
