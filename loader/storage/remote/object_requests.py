"""Requests for the objects below a URL, which are sent again when they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ..protocol import FileInfo, check_name
from .clients import ClientObject, Connection, ObjectClient, Received, connection_of
from .failures import RequestFailure
from .object_url import ObjectUrl
from .versions import ServedVersions

_T = TypeVar("_T")
_DELETED_AT_ONCE = 1000


class ObjectRequests:
    """Requests for the objects below a URL, by name; threads may share them.

    Every method raises ``StorageError`` if its request fails for good.

    Args:
        place: The URL.
    """

    def __init__(self, place: ObjectUrl) -> None:
        self.url = str(place)
        self.versions = ServedVersions(place)
        self._place = place
        self._prefix = f"{place.key}/" if place.key else ""

    def path(self, name: str) -> str:
        """Return the URL of an object."""
        check_name(name, folder=self.url)
        return f"{self.url}/{name}" if name else self.url

    def _key(self, name: str) -> str:
        check_name(name, folder=self.url)
        return f"{self._prefix}{name}" if name else self._place.key

    def connection(self) -> Connection:
        """Return the connection of this process to the bucket, with the present options.

        Raises:
            ConfigError: A package is missing, or the options are wrong.
        """
        return connection_of(self._place, self.url)

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
            name: The object.
            start: First byte.
            stop: Byte after the last one.
            info: Expected size and version; None for any.
            action: What it is for, for messages; by default it is to read the range.
            connection: What :meth:`connection` returned a moment ago.
            is_wanted: As in :meth:`.Retries.run`.

        Raises:
            FormatError: The object has another size or version.
            StorageError: The request failed for good, or the server alternates between two versions.
        """
        key = self._key(name)

        def attempt(client: ObjectClient) -> Received:
            try:
                received = client.get(key, start, stop)
            except RequestFailure as failure:
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
        """Get a whole object."""
        key = self._key(name)
        return self._send(lambda client: client.get_all(key), action="read", name=name)

    def head(self, name: str) -> ClientObject:
        """Get the size and version of an object."""
        key = self._key(name)
        return self._send(lambda client: client.head(key), action="read the status of", name=name)

    def objects(self, folder: str = "") -> Iterator[ClientObject]:
        """Yield every object below a folder, sorted, with its name as its key."""
        found = {each.key: each for page in self.pages(folder) for each in page}
        # Some services sort by folders: a/b before a.tar.
        return (found[key]._replace(key=key[len(self._prefix) :]) for key in sorted(found))

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
        """Store an object, and return its version; only if there is none, or only over one version."""
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
                found = client.get_all(key)  # the answer to an earlier try may be what was lost
                if found.data != data:
                    raise
                return found.etag

        return self._send(attempt, action="write", name=name)

    def upload(self, name: str, path: str) -> str:
        """Store a file of this machine, and return its version; a few parts of it are in memory at a time."""
        key = self._key(name)
        return self._send(lambda client: client.upload(key, path), action="write", name=name)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; missing ones are no error."""
        for start in range(0, len(names), _DELETED_AT_ONCE):
            some = names[start : start + _DELETED_AT_ONCE]
            keys = [self._key(name) for name in some]
            self._send(lambda client, keys=keys: client.delete(keys), action="remove", name=some[0])  # type: ignore[misc]
