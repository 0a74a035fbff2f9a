"""A prefix of an object store as a folder of files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from ...errors import EnergonError, FormatError, StorageError
from ...escaped_log import get_logger
from ..node_cache.block_cache import RemoteObject
from ..node_cache.node_cache import block_cache, local_copy
from ..node_cache.private_folder import CacheSettings, cache_settings
from ..protocol import FileInfo, FilesAhead, PendingRead, Storage, StoredFile
from ..shared_answers import answers_here, has_answers, shared
from .clients.choice import fetcher_of, has_answered, note_answer, open_url
from .clients.connection import ClientObject, Connection
from .failures import READ_ONLY_HUB, RequestFailure, missing_object
from .fetcher import Fetch
from .listed_folders import ListedFolders, is_visible
from .object_requests import ObjectRequests, is_readable
from .object_url import parse_object_url
from .options import endpoint_of, options_for, remember_options

MAX_REQUEST_BYTES = 8 << 20  # longer ranges arrive sooner by several requests at a time


class _Parts:
    def __init__(self, parts: Sequence[PendingRead]) -> None:
        self._parts = parts

    def is_done(self) -> bool:
        return all(part.is_done() for part in self._parts)

    def result(self) -> bytes:
        return b"".join([part.result() for part in self._parts])


class RemoteFile(StoredFile):
    """An object; each read is a request, which checks its size and version."""

    __slots__ = ("_is_cached", "_is_sparse", "_storage", "info", "size_bytes")

    def __init__(self, storage: RemoteStorage, info: FileInfo, *, is_cached: bool) -> None:
        self.size_bytes = info.size_bytes
        self.info = info
        self._storage, self._is_cached = storage, is_cached
        self._is_sparse = False

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        stop = min(offset + size_bytes, self.size_bytes)
        if stop <= offset:
            return b""
        if self._is_cached:
            return self._storage.read_cached(self.info, offset, stop, is_sparse=self._is_sparse)
        return self._storage.read_range(self.info.name, offset, stop, info=self.info)

    def expect_few(self) -> None:
        self._is_sparse = True

    def fetch(self, offset: int, size_bytes: int) -> PendingRead:
        # Requests of a few MiB each run at the same time.
        ends = [*range(offset, offset + size_bytes, MAX_REQUEST_BYTES), offset + size_bytes]
        fetch = partial(self._storage.fetch_range, self.info, is_sparse=self._is_sparse)
        parts = [fetch(start, stop) for start, stop in pairwise(ends)]
        return parts[0] if len(parts) == 1 else _Parts(parts)


# Bytes of a request of a copy, so that little is sent again after a failure.
_COPIED_AT_ONCE = 8 << 20
_MAX_PREFETCHED_BYTES = 16 << 20
_MAX_NAMED = 3  # in a warning
_log = get_logger(__name__)
_logged: set[str] = set()  # names whose warning was logged; global, like the log


class RemoteStorage(Storage):
    """Objects below a URL, as files; a pickled storage holds the URL and its options, without credentials."""

    checks_versions = True

    def __init__(self, url: str) -> None:
        self._place = open_url(url)
        self.url = str(self._place)
        self._requests = ObjectRequests(self._place)
        self._listed = ListedFolders()
        self._ahead: dict[str, Fetch] = {}  # whole files that are read ahead
        self._cache: tuple[Connection | None, CacheSettings | None] = None, None
        self._instead: dict[str, str] = {}
        self._unreadable: set[str] = set()  # names that no file can have, as they were listed
        self.answers = answers_here.get()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.url, has_answered(self._place), options_for(self.url).to_send())

    def path(self, name: str) -> str:
        return self._requests.path(name)

    def target(self, name: str) -> str:
        if self._place.protocol == "hf":
            raise StorageError(
                "a repository is written by commits of many files", path=self.path(name), hint=READ_ONLY_HUB
            )
        return self.path(name)

    # ---------------------------------------------------------------------------------------------------- reading

    def open(self, name: str, info: FileInfo | None = None) -> RemoteFile:
        # Without an entry its version may be any, so that the cache of this node does not help.
        if info is None:
            return RemoteFile(self, self.stat(name), is_cached=False)
        # Not by HEAD: some servers name another version there.
        look = partial(self._requests.get, info.name, 0, 1, action="read the version of")
        return RemoteFile(self, self._requests.versions.current(info, look), is_cached=True)

    def read_range(self, name: str, start: int, stop: int, *, info: FileInfo | None = None) -> bytes:
        """Read the bytes [start, stop) of a file.

        Args:
            info: Expected size and version; None for any.
        """
        ahead = self._take_ahead(name)
        if ahead is not None:
            return ahead[start:stop]
        name = self._instead.get(name, name)
        return self._requests.get(name, start, stop, info=info).data

    def read_cached(
        self,
        info: FileInfo,
        start: int,
        stop: int,
        is_wanted: Callable[[], bool] | None = None,
        *,
        is_sparse: bool = False,
    ) -> bytes:
        """Read the bytes [start, stop) of a file through the cache of this node, if it is on.

        Args:
            is_wanted: Returns False when the bytes came in another way; a block of the cache is always fetched.
            is_sparse: Few bytes of the file are read, so that no whole blocks are fetched for them.
        """
        # Only a known version can be cached: without one, later bytes may be of another object.
        connection = self._requests.connection()
        settings = self._cache_settings(connection)
        version = info.etag or (str(info.mtime_ns) if info.mtime_ns else "")
        cache = block_cache(settings) if settings is not None and version else None
        get = partial(self._requests.get, info.name, info=info, connection=connection)
        if cache is None:
            return get(start, stop, is_wanted=is_wanted).data
        source = RemoteObject(self._identity(info.name), version, info.size_bytes)
        return cache.read(source, start, stop, lambda first, last: get(first, last).data, is_sparse=is_sparse)

    def _cache_settings(self, connection: Connection) -> CacheSettings | None:
        known, settings = self._cache
        if known is not connection:
            settings = cache_settings(connection.options.cache_dir, connection.options.cache_bytes)
            self._cache = connection, settings
        return settings

    def _identity(self, name: str) -> str:
        """Return the file's URL with its endpoint: a bucket of one name may be on several services."""
        return f"{endpoint_of(self._place.protocol, options_for(self.url))}\0{self.path(name)}"

    def fetch_range(self, info: FileInfo, start: int, stop: int, *, is_sparse: bool = False) -> Fetch:
        read = partial(self.read_cached, info, start, stop, is_sparse=is_sparse)
        return Fetch(fetcher_of(self._place), read, stop - start)

    @shared
    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        ahead = self._take_ahead(name)
        if ahead is not None:
            return ahead[start:stop]
        name = self._instead.get(name, name)
        if stop is not None:
            try:
                return self._requests.get(name, start, stop, action="" if start else "read").data
            except FormatError:  # an empty object has no ranges
                if start:
                    raise
        return self._requests.get_all(name).data[start:]

    @property
    def ahead(self) -> FilesAhead:
        return self

    @property
    def can_list(self) -> bool:
        return self._requests.connection().can_list

    def list_once(self, folder: str) -> None:
        if has_answers(self):
            return  # another process has listed it
        if self.can_list and self._listed.of(folder) is None:
            self._listed.add(folder, map(self._info, self.objects(folder)))

    def read_instead(self, names: Mapping[str, str]) -> None:
        """Redirect reads: name → name of the file that is read in its place. Writes are not redirected."""
        self._instead = dict(names)

    def note_written(self, name: str) -> None:
        """Forget what is known about a file that was written or removed, here or by another process."""
        self._listed.note_written(name)
        self._requests.versions.forget(name)
        self._ahead.pop(name, None)

    def prefetch(self, names: Iterable[str]) -> None:
        # Only files of a listed folder have a known size and version, by which a change is noticed.
        for name in names:
            real = self._instead.get(name, name)
            info = (self._listed.of(real) or {}).get(real)
            if info is not None and 0 < info.size_bytes <= _MAX_PREFETCHED_BYTES and name not in self._ahead:
                self._ahead[name] = self.fetch_range(info, 0, info.size_bytes)

    def settle_prefetched(self) -> bool:
        # Wait for all of them; one that changed makes the whole listing doubtful.
        if not any(map(_is_outdated, self._ahead.values())):
            return True
        self._listed.clear()
        self._ahead.clear()
        self._instead = {}
        return False

    def _take_ahead(self, name: str) -> bytes | None:
        fetch = self._ahead.pop(name, None)
        return None if fetch is None else fetch.result()

    def prefetch_fixed(self, names: Iterable[str]) -> None:
        fetcher = fetcher_of(self._place)
        for name in names:
            fetcher.run(partial(self.local_path, name, is_fixed=True))

    @shared
    def exists(self, name: str) -> bool:
        name = self._instead.get(name, name)
        # A listing answers for free; otherwise ask for an object, then for objects below the name.
        is_listed = self._listed.has(name)
        if is_listed is not None:
            return is_listed
        if name:
            try:
                self.stat(name)
            except StorageError as error:
                if not error.is_missing:
                    raise
            else:
                return True
        return self.can_list and self.has_objects(name)

    @shared
    def stat(self, name: str) -> FileInfo:
        name = self._instead.get(name, name)
        listed = self._listed.of(name)
        if listed is not None and name:
            if name not in listed:
                raise missing_object(self.path(name))
            return listed[name]
        return self._info(self._requests.head(name)._replace(key=name))

    @shared
    def list(self, folder: str = "", *, on_skipped: Callable[[str], object] | None = None) -> Iterator[FileInfo]:
        files = self._listed.visible(folder)
        if files is None:
            files = (self._info(each) for each in self.objects(folder) if is_visible(each.key, folder))
        yield from (info for info in files if not info.name.endswith("/"))  # some tools mark folders by empty objects
        if on_skipped is not None:
            for name in sorted(self._unreadable):
                on_skipped(name)

    def objects(self, folder: str = "") -> Iterator[ClientObject]:
        """Yield every object below a folder, hidden ones too, sorted; their keys are names in this storage."""
        unreadable = []
        for listed in self._requests.objects(folder):
            if is_readable(listed.key):
                yield listed
            else:
                unreadable.append(listed.key)
        if unreadable:
            self._note_skipped(unreadable)

    def _note_skipped(self, names: Sequence[str]) -> None:
        """Remember names that no file can have, and log them once for each process."""
        self._unreadable.update(names)
        examples = ", ".join(f"{self.url}/{name}" for name in names[:_MAX_NAMED])
        if examples not in _logged:
            _logged.add(examples)
            _log.warning(
                "skipped objects with an empty part, '.' or '..' in their names: %s, such as %s; "
                "to use them, copy them to other names",
                f"{len(names):,}",
                examples,
            )

    def has_objects(self, folder: str = "") -> bool:
        return any(self._requests.pages(folder))

    def local_path(self, name: str = "", info: FileInfo | None = None, *, is_fixed: bool = False) -> Path:
        # The copy's name has the version, so a changed object has another copy.
        version = ""
        if not is_fixed:
            info = info or self.stat(name)
            version = info.etag or f"{info.size_bytes}-{info.mtime_ns}"

        def download() -> Iterator[bytes]:
            # The first answer brings the version that all later requests have to match.
            first = self._requests.get(name, 0, _COPIED_AT_ONCE, action="download")
            yield first.data
            size_bytes = first.size_bytes if first.size_bytes >= 0 else self.stat(name).size_bytes
            known = self._info(ClientObject(name, size_bytes, first.mtime_ns, first.etag))
            for start in range(len(first.data), size_bytes, _COPIED_AT_ONCE):
                yield self.read_range(name, start, min(start + _COPIED_AT_ONCE, size_bytes), info=known)

        return local_copy(
            self._cache_settings(self._requests.connection()), f"{self._identity(name)}\0{version}", download
        )

    def _info(self, listed: ClientObject) -> FileInfo:
        return self._requests.versions.info(listed)

    # ---------------------------------------------------------------------------------------------------- writing

    @contextmanager
    def create(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:  # noqa: ARG002 - stores are durable
        with tempfile.NamedTemporaryFile(prefix="energon-upload-") as file:
            yield file  # type: ignore[misc]
            file.flush()
            self.upload(name, file.name)

    def put(self, name: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:
        self.note_written(name)
        return self._requests.put(name, data, if_absent=if_absent, if_etag=if_etag)

    def upload(self, name: str, path: str | os.PathLike[str]) -> str:
        """Store a file of this machine under a name, by parts if it is large, and return its version.

        A reader sees all of it or nothing. Of a large file, about 80 MiB are in memory at a time.
        """
        self.note_written(name)
        return self._requests.upload(name, os.fspath(path))

    def create_once(self, name: str, data: bytes) -> bool:
        try:
            self.put(name, data, if_absent=True)
        except StorageError as error:
            if isinstance(error.__cause__, RequestFailure) and error.__cause__.kind == "exists":
                return False
            raise
        return True

    def remove(self, name: str) -> None:
        self.remove_files(self.names_of(name))

    def names_of(self, name: str) -> Sequence[str]:
        """Return the names of a file and of all files below it: files that were listed, and files written since."""
        if not name:
            return ()
        listed = self._listed.names(name)
        return [name, *(below.key for below in self.objects(name))] if listed is None else listed

    def remove_files(self, names: Sequence[str]) -> None:
        self._requests.delete(names)
        for name in names:
            self.note_written(name)

    def lock(self, name: str, *, wait: bool = False, shared: bool = False) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()  # a commit is conditional instead


def _unpickled(url: str, has_answered: bool, options: Mapping[str, Any]) -> RemoteStorage:
    if options != options_for(url).to_send():  # on a machine that did not inherit them
        remember_options(url, options)
    # Workers know, too, that the service lives, so they wait longer in an outage.
    if has_answered:
        note_answer(parse_object_url(url))
    return RemoteStorage(url)


def _is_outdated(fetch: Fetch) -> bool:
    """Wait for a file; return True if it is not the listed one. Other errors are raised when it is read."""
    try:
        fetch.result()
    except FormatError:
        return True
    except EnergonError as error:
        return isinstance(error.__cause__, FileNotFoundError)
    return False
