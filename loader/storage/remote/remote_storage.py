"""A prefix of an object store as a folder of files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ...errors import StorageError
from ..protocol import ByteRange, FileInfo
from .client import ClientObject, ObjectClient, Received
from .clients import client_of, fetcher_of
from .failures import Remedy, RequestFailure
from .fetcher import Fetch
from .local_copies import local_copy
from .object_url import parse_object_url
from .options import options_for
from .remote_file import RemoteFile
from .retries import Retries

__all__ = ["RemoteStorage"]

_T = TypeVar("_T")
_DELETED_AT_ONCE = 1000
_SPOOLED_BYTES = 8 << 20
_COPIED_AT_ONCE = 8 << 20


class RemoteStorage:
    """Objects below a URL, as files; a pickled storage holds the URL alone.

    Args:
        url: The URL.

    Raises:
        ConfigError: The URL or its options are wrong.
    """

    checks_versions = True

    def __init__(self, url: str) -> None:
        self._place = parse_object_url(url)
        self.url = str(self._place)
        self._prefix = f"{self._place.key}/" if self._place.key else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStorage, (self.url,)

    @property
    def _client(self) -> ObjectClient:
        return client_of(self._place)

    def path(self, name: str) -> str:
        self._check(name)
        return f"{self.url}/{name}" if name else self.url

    def _key(self, name: str) -> str:
        self._check(name)
        return f"{self._prefix}{name}" if name else self._place.key

    def _check(self, name: str) -> None:
        if name.startswith("/") or ".." in name.split("/"):
            raise StorageError(
                f"the name {name!r} leads out of this folder",
                path=self.url,
                hint="do not trust this dataset: a file of it has this name",
            )
        if "\0" in name:
            raise StorageError(f"no file has the name {name!r}", path=self.url, hint="fix the file that references it")

    def _request(self, attempt: Callable[[ObjectClient], _T], *, action: str, name: str) -> _T:
        options = options_for(self.url)
        client = self._client
        retries = Retries(options.deadline_s, refresh=client.refresh)
        return retries.run(lambda: attempt(client), action=action, url=self.path(name))

    # ---------------------------------------------------------------------------------------------------- reading

    def open(self, name: str, info: FileInfo | None = None) -> RemoteFile:
        known = self.stat(name) if info is None else info
        return RemoteFile(self, known)

    def read_range(self, name: str, start: int, stop: int, *, info: FileInfo | None = None) -> bytes:
        """Read the bytes [start, stop) of a file.

        Args:
            name: The file.
            start: First byte.
            stop: Byte after the last one.
            info: Expected size and version; None for any.

        Raises:
            FormatError: The file has another size or version.
        """
        key = self._key(name)

        def attempt(client: ObjectClient) -> bytes:
            received = client.get(key, start, stop)
            if info is not None:
                _check_version(received, info)
            return bytes(received.data)

        return self._request(attempt, action=f"read bytes {start}–{stop} of", name=name)

    def fetch_range(self, info: FileInfo, start: int, stop: int) -> Fetch:
        """Begin to read the bytes [start, stop) of a file of a known size and version."""
        read = partial(self.read_range, info.name, start, stop, info=info)
        return Fetch(fetcher_of(self._place), read, stop - start)

    def read(self, name: str, byte_range: ByteRange | None = None) -> bytes:
        if byte_range is not None:
            return self.read_range(name, byte_range.start, byte_range.stop)
        return bytes(self._get_all(name).data)

    def _get_all(self, name: str) -> Received:
        key = self._key(name)
        return self._request(lambda client: client.get_all(key), action="read", name=name)

    def exists(self, name: str) -> bool:
        if name:
            try:
                self.stat(name)
            except StorageError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
            else:
                return True
        return next(self.objects(name), None) is not None

    def stat(self, name: str) -> FileInfo:
        key = self._key(name)
        found = self._request(lambda client: client.head(key), action="read the status of", name=name)
        return _info(name, found)

    def list(self, folder: str = "") -> Iterator[FileInfo]:
        for name, found in self.objects(folder):
            inner = name[len(folder) + 1 :] if folder else name
            is_hidden = any(part.startswith(".") for part in inner.split("/")[:-1])
            if not is_hidden and not name.endswith("/"):  # some tools mark folders by empty objects
                yield _info(name, found)

    def objects(self, folder: str = "") -> Iterator[tuple[str, ClientObject]]:
        """Yield the name and entry of every object below a folder, hidden ones too, sorted."""
        prefix = f"{self._key(folder)}/" if self._key(folder) else ""
        pages: Iterator[Sequence[ClientObject]] | None = None
        last = ""
        while True:

            def next_page(client: ObjectClient) -> Sequence[ClientObject] | None:
                nonlocal pages
                if pages is None:
                    pages = client.pages(prefix)
                try:
                    return next(pages, None)
                except RequestFailure:
                    pages = None  # the listing starts again, and skips what was yielded
                    raise

            page = self._request(next_page, action="list", name=folder)
            if page is None:
                return
            for found in page:
                if found.key > last:
                    last = found.key
                    yield found.key[len(self._prefix) :], found

    def local_path(self, name: str = "") -> Path:
        """Return the path of a copy on this machine."""
        return self._copy(name, self.stat(name))

    def copy_of_fixed(self, name: str) -> Path:
        """Return the path of a copy of a file that never changes under its name."""
        return self._copy(name, None)

    def _copy(self, name: str, info: FileInfo | None) -> Path:
        version = "" if info is None else info.etag or f"{info.size_bytes}-{info.mtime_ns}"

        def download(path: Path) -> None:
            key = self._key(name)
            first = self._request(lambda client: client.get(key, 0, _COPIED_AT_ONCE), action="download", name=name)
            known = FileInfo(name=name, size_bytes=first.size_bytes, mtime_ns=0, etag=first.etag)
            with path.open("xb") as file:
                file.write(first.data)
                for start in range(len(first.data), first.size_bytes, _COPIED_AT_ONCE):
                    stop = min(start + _COPIED_AT_ONCE, first.size_bytes)
                    file.write(self.read_range(name, start, stop, info=known))

        return local_copy(self.path(name), version, download)

    # ---------------------------------------------------------------------------------------------------- writing

    @contextmanager
    def create(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:  # noqa: ARG002 - stores are durable
        with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES) as file:
            yield file  # type: ignore[misc]
            file.seek(0)
            self.put(name, file.read())

    def write_new(self, name: str, data: bytes) -> None:
        self.put(name, data)

    def put(self, name: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:
        """Store a file, and return its version; only if there is none, or only over one version."""
        key = self._key(name)
        return self._request(
            lambda client: client.put(key, data, if_absent=if_absent, if_etag=if_etag), action="write", name=name
        )

    def create_once(self, name: str, data: bytes) -> bool:
        try:
            self.put(name, data, if_absent=True)
        except StorageError as error:
            if isinstance(error.__cause__, RequestFailure) and error.__cause__.kind == "exists":
                return False
            raise
        return True

    def is_writable(self, folder: str) -> bool:  # noqa: ARG002 - known only by writing
        return True

    def check_target(self, name: str) -> None:
        self._check(name)

    def rename(self, old: str, new: str) -> None:
        raise StorageError("objects cannot be renamed", path=self.path(old), hint=f"write {new} instead")

    def flush(self, names: Iterable[str]) -> None:
        pass  # an object that was stored is durable

    def remove(self, name: str) -> None:
        keys = [self._key(name), *(found.key for _, found in self.objects(name))] if name else []
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            some = keys[start : start + _DELETED_AT_ONCE]
            self._request(lambda client, some=some: client.delete(some), action="remove", name=name)  # type: ignore[misc]

    def remove_file(self, name: str) -> None:
        """Remove one file; a missing one is no error."""
        key = self._key(name)
        self._request(lambda client: client.delete([key]), action="remove", name=name)

    def lock(self, name: str, *, wait: bool = False, shared: bool = False) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()  # a commit is conditional instead


def _check_version(received: Received, info: FileInfo) -> None:
    if received.size_bytes != info.size_bytes:
        cause = f"it had {info.size_bytes} bytes, now {received.size_bytes}"
    elif info.etag and received.etag != info.etag:
        cause = f"it had version {info.etag}, now {received.etag}"
    else:
        return
    raise RequestFailure(cause, Remedy.GIVE_UP, kind="changed")


def _info(name: str, found: ClientObject) -> FileInfo:
    return FileInfo(name=name, size_bytes=found.size_bytes, mtime_ns=found.mtime_ns, etag=found.etag)
