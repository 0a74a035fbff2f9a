"""Commit the files of a finished prepare to an object store, where nothing can be renamed.

The index folder is stored first, then the small files, and ``.info.json`` last, on the condition that it has the
version that it had when the prepare began. A kill at any moment leaves the old index in force or the new one; folders
of killed prepares are removed after the next commit.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ...errors import EnergonError, StorageError
from ...escaped_log import get_logger
from ...storage import LocalStorage, RemoteStorage
from ..nv_meta import INDEX_FOLDER, INDEX_UUID, INFO_JSON, WORK_FOLDER

__all__ = ["ObjectCommit", "commit_mark", "marked_index"]

_log = get_logger(__name__)
_UPLOADS_AT_ONCE = 8
_MARK_BITS = 128
_LAYOUT = "/layout.json"


def commit_mark(uuid_number: int) -> bytes:
    """Return white space that ends an ``.info.json`` and makes each commit's one unique, for any shards.

    A store's version (ETag) may be a hash of the contents: without the mark, a commit could not tell the file of
    another prepare of the same shards from its own, or from the one that it replaces.
    """
    return b"\n" + bytes(b" \t"[uuid_number >> bit & 1] for bit in reversed(range(_MARK_BITS)))


def marked_index(info: bytes) -> int | None:
    """Return the number of the uuid whose mark ends an ``.info.json``; None if it has none."""
    mark = info[-_MARK_BITS:]
    if len(info) <= _MARK_BITS or info[-_MARK_BITS - 1] != ord("\n") or mark.strip(b" \t"):
        return None
    return int(mark.translate(bytes.maketrans(b" \t", b"01")), 2)


class ObjectCommit:
    """The commit of a prepare to an object store. Create it before the prepare reads anything.

    Args:
        storage: The dataset.
        work: The local folder with the staged files.
    """

    def __init__(self, storage: RemoteStorage, work: LocalStorage) -> None:
        self._storage = storage
        self._work = work
        self._version = self._current_version()

    def _current_version(self) -> str | None:
        """Return the version of ``.info.json``; None if there is none."""
        try:
            return self._storage.stat(INFO_JSON).etag
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def __call__(self, renames: Sequence[tuple[str, str]], removals: Sequence[str] = ()) -> None:
        """Store staged files under their names, the last one as the commit; then remove files, and the journal.

        Args:
            renames: Pairs (staged file or folder, final name), in order; the last one is ``.info.json``.
            removals: Files and folders that the new state does not need.

        Raises:
            StorageError: Another prepare has committed since this one began; or a file cannot be stored.
        """
        files = [pair for rename in renames[:-1] for pair in self._files(*rename)]
        small = [pair for pair in files if not pair[1].startswith(f"{INDEX_FOLDER}/")]
        index = [pair for pair in files if pair[1].startswith(f"{INDEX_FOLDER}/")]
        layouts = [pair for pair in index if pair[1].endswith(_LAYOUT)]  # a folder that has one is whole
        with ThreadPoolExecutor(_UPLOADS_AT_ONCE) as threads:
            for group in ([pair for pair in index if pair not in layouts], layouts):
                list(threads.map(self._put, group))
            if self._current_version() != self._version:
                raise self._lost()
            list(threads.map(self._put, small))
        self._put_info(self._work.read(renames[-1][0]))
        for name in (*removals, WORK_FOLDER):
            try:
                self._storage.remove(name)
            except StorageError as error:
                _log.warning("the dataset is prepared, but a file of before is left: %s", error)

    def _files(self, staged: str, final: str) -> Iterator[tuple[str, str]]:
        path = self._work.path(staged)
        if not os.path.isdir(path):
            yield staged, final
            return
        for name in sorted(os.listdir(path)):
            yield f"{staged}/{name}", f"{final}/{name}"

    def _put(self, pair: tuple[str, str]) -> None:
        staged, final = pair
        self._storage.upload(final, self._work.path(staged))

    def _put_info(self, data: bytes) -> None:
        try:
            if self._version is None:
                self._storage.put(INFO_JSON, data, if_absent=True)
            else:
                self._storage.put(INFO_JSON, data, if_etag=self._version)
        except EnergonError:
            # The answer to an earlier try may have been lost: then the file is there, and the next try was refused.
            found = self._storage.read(INFO_JSON) if self._current_version() is not None else b""
            if found == data:
                return
            if self._current_version() != self._version:
                self._restore_uuid(found)
                raise self._lost() from None
            raise

    def _restore_uuid(self, info: bytes) -> None:
        """Name the index of the other prepare, whose ``index.uuid`` this one has replaced."""
        number = marked_index(info)
        if number is not None:
            self._storage.put(INDEX_UUID, str(uuid.UUID(int=number)).encode())

    def _lost(self) -> StorageError:
        return StorageError(
            "another prepare of this dataset has finished since this one began; its result is kept",
            path=self._storage.path(INFO_JSON),
            hint="run the same command again: shards that have not changed are not scanned again",
        )
