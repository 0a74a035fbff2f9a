"""Compare the versions of objects: each store makes its own, and a server may make none, or several."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from ..protocol import FileInfo
from .clients import ClientObject, Received
from .failures import Remedy, RequestFailure
from .object_url import ObjectUrl
from .options import endpoint_of, options_for

_LOOKS = 4  # more answers for an object whose version differs: of two replicas in turn, one is enough


class ServedVersions:
    """The versions of the objects below a URL, as this process is served them.

    Where an object's version is not this store's, as of a dataset that was prepared in a bucket and is served by a web
    server, the first answer pins one.

    Args:
        place: The URL.
    """

    def __init__(self, place: ObjectUrl) -> None:
        self._place = place
        self._url = str(place)
        self._pinned: dict[tuple[str | None, str], FileInfo] = {}  # by store, which the options may change, and name

    @property
    def store(self) -> str | None:
        """The store that makes the versions; None if the options say that versions are not compared.

        Empty for a profile of multi-storage-client, which may be a store that has another URL, too.
        """
        protocol, container, _, account = self._place
        options = options_for(self._url)
        if not options.check_versions:
            return None
        if protocol == "msc":
            return ""
        if protocol == "az":
            account = account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        text = "\0".join((endpoint_of(protocol, options).rstrip("/"), account, container))
        # A digest, since endpoints and buckets may be confidential, and indexes are published.
        return f"{protocol}:{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}"

    def info(self, found: ClientObject) -> FileInfo:
        """Return the entry of an object whose key is its name."""
        return FileInfo(
            name=found.key, size_bytes=found.size_bytes, mtime_ns=found.mtime_ns, etag=found.etag, store=self.store
        )

    def current(self, info: FileInfo, look: Callable[[], Received]) -> FileInfo:
        """Return the entry of an object whose version is another store's as it is served now; else ``info`` itself.

        Args:
            info: The object.
            look: Gets any byte of it.
        """
        store = self.store
        if not (info.etag and info.size_bytes) or store is None or info.shares_versions(replace(info, store=store)):
            return info
        now = self._pinned.get((store, info.name)) or self._pin(self._served(info, look()))
        return now if now.size_bytes == info.size_bytes else info  # whose reads then fail

    def forget(self, name: str) -> None:
        """Forget the version of an object that was written or removed."""
        self._pinned.pop((self.store, name), None)

    def _pin(self, now: FileInfo) -> FileInfo:
        return self._pinned.setdefault((now.store, now.name), now)

    def _served(self, info: FileInfo, received: Received) -> FileInfo:
        return self.info(ClientObject(info.name, received.size_bytes, received.mtime_ns, received.etag))

    def check(self, received: Received, info: FileInfo, look: Callable[[], Received]) -> None:
        """Compare an answer with the expected size and version.

        Args:
            received: The answer.
            info: The object as it was indexed, listed or served before.
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
        now = self._served(info, received)
        known = info if info.shares_versions(now) else self._pin(now)
        if not _differ(known, now):
            return
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
