"""Keep the signed addresses of a repository's files until they expire, for all processes of a node."""

from __future__ import annotations

import time
from calendar import timegm
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from ...failures import Remedy, RequestFailure
from ..http_client import redirected
from ..limited_answer import AddressKind
from .hub_requests import HubRequests

_LEAST_S = 60.0  # of the time that is left, or a tenth of it: a read must end before the address expires
_UNKNOWN_S = 300.0  # of an address that names no time; one that expires sooner is requested again
_FOREVER_S = 86400.0 * 365  # files of a commit never change


class Address(NamedTuple):
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
    """

    def __init__(self, requests: HubRequests, root: str) -> None:
        self._requests, self._root = requests, root
        self._known: dict[str, Address] = {}

    def of(self, path: str, *, instead_of: Address | None = None) -> Address:
        """Return the address of a file, by its quoted path.

        Args:
            instead_of: An address that was refused: it is requested again, unless another process has.
        """

        def is_valid(address: Address) -> bool:
            return address != instead_of and time.time() < address.until_s

        address = self._known.get(path)
        if address is None or not is_valid(address):
            question, resolve = ("address", self._root, path), partial(self._resolve, path)
            address = self._known[path] = self._requests.answer(question, Address, resolve, is_valid)
        return address

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
            return Address("", False, 0, "", time.time() + lasts_s, answer.kind)
        size = answer.headers.get("x-linked-size") or answer.headers.get("content-length") or ""
        if not (size.isascii() and size.isdecimal() and len(size) < 20):
            raise RequestFailure("the hub does not say how large this file is", Remedy.RETRY_FEW)
        etag = (answer.headers.get("x-linked-etag") or answer.headers.get("etag") or "").removeprefix("W/").strip('"')
        target = answer.headers.get("location")
        if not target:
            return Address(answer.url, False, int(size), etag, time.time() + _FOREVER_S, answer.kind)
        signed = redirected(answer.url, target)
        return Address(signed, True, int(size), etag, _until(signed), answer.kind)


def _until(url: str) -> float:
    """Return the time at which another address is requested in place of a signed one, in seconds since the epoch."""
    now_s = time.time()
    left_s = seconds_left(url, now_s)
    return now_s + max(left_s - max(_LEAST_S, 0.1 * left_s), left_s / 2)


def seconds_left(url: str, now_s: float) -> float:
    """Return the seconds until a signed address expires; 300 if it names no time, or one that is over by this clock.

    >>> seconds_left("https://cdn/x?Expires=2000&Signature=s", 1000.0), seconds_left("https://cdn/x", 1000.0)
    (1000.0, 300.0)
    >>> seconds_left("https://cas/x?X-Amz-Date=19700101T000010Z&X-Amz-Expires=3600", 20.0)
    3590.0
    """
    query = {name.lower(): values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    end_s = now_s
    with suppress(ValueError, OverflowError):
        if "x-amz-expires" in query:
            begin_s = timegm(time.strptime(query.get("x-amz-date", ""), "%Y%m%dT%H%M%SZ"))
            end_s = float(begin_s + int(query["x-amz-expires"]))
        elif "expires" in query:
            end_s = float(int(query["expires"]))
    return end_s - now_s if end_s > now_s else _UNKNOWN_S  # it was signed a moment ago, so the clocks differ
