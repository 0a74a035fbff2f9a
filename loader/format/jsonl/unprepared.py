"""Index a JSONL file that is not prepared: in memory, and of a large file in the user's folder of indexes, too."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress

from ...errors import FormatError, StorageError
from ...escaped_log import get_logger
from ...storage import FileInfo, LocalStorage, Storage
from ...storage.user_indexes import derived_indexes, find_derived, limit_derived
from .index import OFFSET, JsonlIndex, build_jsonl_index, find_jsonl_index, map_jsonl_index

_KEPT_FROM_BYTES = 32 << 20  # smaller files are indexed again in a twentieth of a second

_log = get_logger(__name__)


def index_of_lines(storage: Storage, name: str) -> JsonlIndex:
    """Open the index next to a JSONL file; without one, index the file, and write nothing next to it.

    Raises:
        FormatError: As for :func:`.open_jsonl_index` and :func:`.build_jsonl_index`.
    """
    index = find_jsonl_index(storage, name)
    if index is not None:
        return index
    info = storage.stat(name)
    if info.size_bytes < _KEPT_FROM_BYTES:
        return build_jsonl_index(storage, name)
    try:
        return _kept_index(storage, name, info)
    except StorageError as error:  # there is no folder that can be written
        _log.warning("the index of %s is not kept: %s", storage.path(name), error)
        return build_jsonl_index(storage, name)


def _kept_index(storage: Storage, name: str, info: FileInfo) -> JsonlIndex:
    # An index of other bytes has another name.
    inode = storage.local_path(name).stat().st_ino if isinstance(storage, LocalStorage) else 0
    path = os.path.realpath(storage.path(name)) if inode else storage.path(name)
    key = f"{path}\0{info.size_bytes}\0{info.version}\0{inode}"
    kept = f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.idx"
    # A damaged index, or one that another process removes just now, is rebuilt.
    folder = find_derived(kept)
    if folder is not None:
        with suppress(FormatError, StorageError):
            return map_jsonl_index(storage, info, folder.stat(kept), folder=folder)
    folder = derived_indexes()[0]
    _log.warning("%s is not prepared: indexing its lines in %s, once", storage.path(name), folder.path(""))
    with folder.create(kept, durable=False) as file:
        index = build_jsonl_index(storage, name)
        file.write(index.offsets.astype(OFFSET).tobytes())
    limit_derived(used=kept)
    return index
