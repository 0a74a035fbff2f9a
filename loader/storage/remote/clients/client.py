"""The interface of clients: single requests to one bucket, without retries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class ClientObject(NamedTuple):
    """An object as it is listed."""

    key: str
    size_bytes: int
    mtime_ns: int
    etag: str  # without quotes; empty if the store has none


class Received(NamedTuple):
    """Bytes of an object, and what the answer says about the object."""

    data: bytes
    size_bytes: int  # of the whole object; -1 if the answer does not contain it
    etag: str
    mtime_ns: int = 0  # 0 if the answer does not contain it


class ObjectClient(Protocol):
    """Requests to one bucket. Every method raises :class:`.failures.RequestFailure`; threads may share a client.

    Attributes:
        can_list: True if it has :meth:`pages`.
    """

    can_list: bool

    def get(self, key: str, start: int, stop: int) -> Received:
        """Get the bytes [start, stop) of an object, or those up to its end; the length is checked."""

    def get_all(self, key: str) -> Received:
        """Get a whole object."""

    def head(self, key: str) -> ClientObject:
        """Get the size and version of an object."""

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:
        """Yield the objects below a prefix that ends with a slash or is empty, sorted, a page a request.

        Some may have keys that no request can name, such as ``a//b``.
        """

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:
        """Put an object, optionally only if it is absent or its ETag matches; return the new ETag."""

    def upload(self, key: str, path: str) -> str:
        """Upload a file of this machine by parts, a few of them in memory at a time; return the new ETag.

        A part that fails is sent again; an upload that fails leaves no parts behind.
        """

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; missing ones are no failure."""

    def refresh(self) -> None:
        """Get new credentials."""
