"""Keep the signed addresses of a repository's files until they expire, for all processes of a node."""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import msgspec

from ...failures import Remedy, RequestFailure
from ..http_client import redirected
from ..limited_answer import AddressKind
from .hub_requests import HubRequests
from .node_files import digest_of

_LEAST_S = 60.0  # of the time that is left, or a tenth of it: a read must end before the address expires
_UNKNOWN_S = 300.0  # of an address that names no time; one that expires sooner is requested again
_FOREVER_S = 86400.0 * 365  # files of a commit never change


class Address(msgspec.Struct, frozen=True, array_like=True):
    """The address of a file.

    Attributes:
        url: A signed address, or the resolver's own; empty for a file that does not exist.
        is_signed: The address needs no token, and gets none.
        size_bytes: Size of the file.
        digest: SHA-256 of the file, or its object of git.
        until_s: Time at which a new address is requested, in seconds since the epoch.
        hub_kind: Kind of the hub's own address; a public hub never leads to a private one.
    """

    url: str
    is_signed: bool
    size_bytes: int
    digest: str
    until_s: float
    hub_kind: AddressKind


class Addresses:
    """The addresses of the files of a repository at a commit.

    Args:
        root: URL of the files at the resolver.
        clock: Returns seconds since the epoch.
    """

    def __init__(self, requests: HubRequests, root: str, *, clock: Callable[[], float] = time.time) -> None:
        self._requests, self._root, self._clock = requests, root, clock
        self._known: dict[str, Address] = {}

    def of(self, path: str, *, instead_of: Address | None = None) -> Address:
        """Return the address of a file, by its quoted path.

        Args:
            instead_of: An address that was refused: it is requested again, unless another process has.
        """
        known = self._known.get(path)
        if known is not None and known != instead_of and self._clock() < known.until_s:
            return known
        name = f"address-{digest_of(self._requests.identity, self._root, path)}"
        address = self._shared(name, instead_of)
        if address is None:
            with self._requests.files.hold(name):  # one process asks, the others wait for its answer
                address = self._shared(name, instead_of)
                if address is None:
                    address = self._resolve(path)
                    self._requests.files.write(name, msgspec.json.encode(address))
        self._known[path] = address
        return address

    def _shared(self, name: str, instead_of: Address | None) -> Address | None:
        data = self._requests.files.read(name)
        if data is None:
            return None
        try:
            address = msgspec.json.decode(data, type=Address)
        except msgspec.DecodeError:
            return None  # of another release
        return address if address != instead_of and self._clock() < address.until_s else None

    def _resolve(self, path: str) -> Address:
        url = f"{self._root}/{path}"
        answer = self._requests.ask("HEAD", url, limit="resolver")
        try:
            self._requests.check(answer)
        except RequestFailure as failure:
            if failure.kind != "missing":
                raise
            # A mirror without the hub's word for it may get the file later.
            lasts_s = _FOREVER_S if "x-error-code" in answer.headers else _UNKNOWN_S
            return Address("", False, 0, "", self._clock() + lasts_s, answer.kind)
        size = answer.headers.get("x-linked-size") or answer.headers.get("content-length") or ""
        if not (size.isascii() and size.isdecimal() and len(size) < 20):
            raise RequestFailure("the hub does not say how large this file is", Remedy.RETRY_FEW)
        etag = (answer.headers.get("x-linked-etag") or answer.headers.get("etag") or "").removeprefix("W/").strip('"')
        target = answer.headers.get("location")
        if not target:
            return Address(answer.url, False, int(size), etag, self._clock() + _FOREVER_S, answer.kind)
        signed = redirected(answer.url, target)
        return Address(signed, True, int(size), etag, self._until(signed), answer.kind)

    def _until(self, url: str) -> float:
        now_s = self._clock()
        left_s = expiry_of(url, now_s) - now_s
        if left_s <= 0:  # it was signed a moment ago, so the clocks differ
            left_s = _UNKNOWN_S
        return now_s + max(left_s - max(_LEAST_S, 0.1 * left_s), left_s / 2)


def expiry_of(url: str, now_s: float) -> float:
    """Return the time at which a signed address expires, in seconds since the epoch.

    >>> expiry_of("https://cdn/x?Expires=2000&Signature=s", 1000.0), expiry_of("https://cdn/x", 1000.0)
    (2000.0, 1300.0)
    >>> expiry_of("https://cas/x?X-Amz-Date=19700101T000010Z&X-Amz-Expires=3600", 20.0)
    3610.0
    """
    query = {name.lower(): values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    try:
        if "x-amz-expires" in query:
            begin_s = timegm(time.strptime(query.get("x-amz-date", ""), "%Y%m%dT%H%M%SZ"))
            return float(begin_s + int(query["x-amz-expires"]))
        if "expires" in query:
            return float(int(query["expires"]))
    except (ValueError, OverflowError):
        pass
    return now_s + _UNKNOWN_S
