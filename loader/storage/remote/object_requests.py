"""Requests for the objects below a URL, which are sent again when they fail."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from ..protocol import FileInfo, check_name
from .clients.choice import connection_of
from .clients.connection import ClientObject, Connection, ObjectClient, Received
from .failures import Remedy, RequestFailure
from .object_url import ObjectUrl
from .options import endpoint_of, options_for

_PARTS_OF_NO_PATH = frozenset(("", ".", ".."))


def is_readable(name: str) -> bool:
    """Return True if no part of a listed name is empty, ``.`` or ``..``: no path names such a file.

    >>> is_readable("a/b.tar"), is_readable("a/"), is_readable("a//b.tar"), is_readable("./b.tar")
    (True, True, False, False)
    """
    return not name or _PARTS_OF_NO_PATH.isdisjoint(name.removesuffix("/").split("/"))


_T = TypeVar("_T")
_DELETED_AT_ONCE = 1000


class ObjectRequests:
    """Requests for the objects below a URL, by name; threads may share them.

    Every method raises ``StorageError`` if its request fails for good.
    """

    def __init__(self, object_url: ObjectUrl) -> None:
        self.url = str(object_url)
        self.versions = ServedVersions(object_url)
        self._place = object_url
        self._prefix = f"{object_url.key}/" if object_url.key else ""

    def path(self, name: str) -> str:
        check_name(name, folder=self.url)
        return f"{self.url}/{name}" if name else self.url

    def _key(self, name: str) -> str:
        check_name(name, folder=self.url)
        return f"{self._prefix}{name}" if name else self._place.key

    def connection(self) -> Connection:
        return connection_of(self._place, options_for(self.url))

    def _send(self, attempt: Callable[[ObjectClient], _T], *, action: str, name: str) -> _T:
        return self.connection().send(attempt, action=action, url=f"{self.url}/{name}" if name else self.url)

    # ---------------------------------------------------------------------------------------------------- reading

    def get(
        self,
        name: str,
        start: int,
        stop: int,
        *,
        info: FileInfo | None = None,
        action: str = "",
        connection: Connection | None = None,
        is_wanted: Callable[[], bool] | None = None,
    ) -> Received:
        """Get the bytes [start, stop) of an object, or those up to its end.

        Args:
            info: Expected size and version; None for any.
            action: What it is for, for messages; by default it is to read the range.
            is_wanted: As in :meth:`.Retries.run`.
        """
        key = self._key(name)

        def attempt(client: ObjectClient) -> Received:
            try:
                received = client.get(key, start, stop)
            except RequestFailure as failure:
                # The message then names the index, which is what has to be renewed.
                if failure.kind == "changed" and info is not None and info.is_indexed:
                    failure.kind = "not as indexed"
                raise
            if info is not None:
                self.versions.check(received, info, lambda: client.get(key, start, stop))
            return received

        sent_by = connection or self.connection()
        action = action or f"read bytes {start}–{stop} of"
        return sent_by.send(attempt, action=action, url=f"{self.url}/{name}", is_wanted=is_wanted)

    def get_all(self, name: str) -> Received:
        key = self._key(name)
        return self._send(lambda client: client.get_all(key), action="read", name=name)

    def head(self, name: str) -> ClientObject:
        key = self._key(name)
        return self._send(lambda client: client.head(key), action="read the status of", name=name)

    def objects(self, folder: str = "") -> Iterator[ClientObject]:
        by_key = {each.key: each for page in self.pages(folder) for each in page}
        # Some services sort by folders: a/b before a.tar.
        return (by_key[key]._replace(key=key[len(self._prefix) :]) for key in sorted(by_key))

    def pages(self, folder: str) -> Iterator[Sequence[ClientObject]]:
        """Yield the objects below a folder, a page a request; a listing that fails starts again."""
        prefix = f"{self._key(folder)}/" if self._key(folder) else ""
        pages: Iterator[Sequence[ClientObject]] | None = None

        def next_page(client: ObjectClient) -> Sequence[ClientObject] | None:
            nonlocal pages
            if pages is None:
                pages = client.pages(prefix)
            try:
                return next(pages, None)
            except RequestFailure:
                pages = None
                raise

        while (page := self._send(next_page, action="list", name=folder)) is not None:
            yield page

    # ---------------------------------------------------------------------------------------------------- writing

    def put(self, name: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:
        key = self._key(name)
        is_first = True

        def attempt(client: ObjectClient) -> str:
            nonlocal is_first
            was_first, is_first = is_first, False
            try:
                return client.put(key, data, if_absent=if_absent, if_etag=if_etag)
            except RequestFailure as failure:
                if was_first or failure.kind not in ("exists", "changed"):
                    raise
                stored = client.get_all(key)  # the answer to an earlier try may be what was lost
                if stored.data != data:
                    raise
                return stored.etag

        return self._send(attempt, action="write", name=name)

    def upload(self, name: str, path: str) -> str:
        key = self._key(name)
        return self._send(lambda client: client.upload(key, path), action="write", name=name)

    def delete(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), _DELETED_AT_ONCE):
            some = names[start : start + _DELETED_AT_ONCE]
            keys = [self._key(name) for name in some]
            self._send(lambda client, keys=keys: client.delete(keys), action="remove", name=some[0])  # type: ignore[misc]


_LOOKS = 4  # more answers for an object whose version differs: of two replicas in turn, one is enough


class ServedVersions:
    """The versions of the objects below a URL, as this process is served them.

    Where an object's version is not this store's, as of a dataset that was prepared in a bucket and is served by a web
    server, the first answer pins one.
    """

    def __init__(self, object_url: ObjectUrl) -> None:
        self._place = object_url
        self._url = str(object_url)
        self._pinned: dict[tuple[str | None, str], FileInfo] = {}  # by store, which the options may change, and name

    @property
    def store(self) -> str | None:
        """The store that makes the versions; None if the options say that versions are not compared.

        Empty for a profile of multi-storage-client, which may be a store that has another URL, too.
        """
        protocol, container, _, account, *_ = self._place
        options = options_for(self._url)
        if not options.check_versions:
            return None
        if protocol == "msc":
            return ""
        if protocol == "hf":
            return "hf"  # versions are digests of the contents, in each revision, repository and mirror
        if protocol == "az":
            account = account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        text = "\0".join((endpoint_of(protocol, options).rstrip("/"), account, container))
        # A digest, since endpoints and buckets may be confidential, and indexes are published.
        return f"{protocol}:{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}"

    def info(self, listed: ClientObject) -> FileInfo:
        return FileInfo(
            name=listed.key, size_bytes=listed.size_bytes, mtime_ns=listed.mtime_ns, etag=listed.etag, store=self.store
        )

    def current(self, info: FileInfo, look: Callable[[], Received]) -> FileInfo:
        """Return the entry of an object whose version is another store's as it is served now; else ``info`` itself."""
        store = self.store
        if not (info.etag and info.size_bytes) or store is None or info.shares_versions(replace(info, store=store)):
            return info
        # An entry of another store cannot be compared, so its present version is read once.
        now = self._pinned.get((store, info.name)) or self._pin(self._served(info, look()))
        return now if now.size_bytes == info.size_bytes else info  # whose reads then fail

    def forget(self, name: str) -> None:
        self._pinned.pop((self.store, name), None)

    def _pin(self, now: FileInfo) -> FileInfo:
        return self._pinned.setdefault((now.store, now.name), now)

    def _served(self, info: FileInfo, received: Received) -> FileInfo:
        return self.info(ClientObject(info.name, received.size_bytes, received.mtime_ns, received.etag))

    def check(self, received: Received, info: FileInfo, look: Callable[[], Received]) -> None:
        """Compare an answer with the expected size and version.

        Args:
            look: Gets the same bytes again.

        Raises:
            RequestFailure: The object has changed, or the server alternates between two versions.
        """
        if received.size_bytes < 0:
            return
        if received.size_bytes != info.size_bytes:
            raise _changed(info, f"it had {info.size_bytes} bytes, now {received.size_bytes}")
        if self.store is None:
            return
        # Compare versions of one store; for another store's, the first answer counts.
        now = self._served(info, received)
        known = info if info.shares_versions(now) else self._pin(now)
        if not _differ(known, now):
            return
        # Replicas may have versions of their own for the same bytes: look whether the known one comes back.
        for _ in range(_LOOKS):
            again = look()
            if again.data == received.data and not _differ(known, self._served(info, again)):
                cause = f"the server alternates between {_version(known)} and {_version(now)}, of one size and content"
                raise RequestFailure(cause, Remedy.GIVE_UP, kind="alternates")
        raise _changed(known, f"it had {_version(known)}, now {_version(now)}")


def _differ(known: FileInfo, now: FileInfo) -> bool:
    return known.etag != now.etag if known.shares_versions(now) else known.has_other_time(now)


def _version(info: FileInfo) -> str:
    if info.etag:
        return f"version {info.etag}"
    return f"the time of change {datetime.fromtimestamp(info.mtime_ns / 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _changed(known: FileInfo, cause: str) -> RequestFailure:
    return RequestFailure(cause, Remedy.GIVE_UP, kind="not as indexed" if known.is_indexed else "changed")
