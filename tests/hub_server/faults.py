"""Faults of a hub, planned by method, path and number of the request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

__all__ = ["Fault", "FaultPlan"]

# Kinds of faults, but for a status such as "500", "503" or "429":
#   "delay"          answer after delay_s
#   "html"           answer 502 with a page, as a gateway does
#   "html 200"       answer 200 with a page, as the log-in page of a network does
#   "reset"          close the connection with a reset before the answer
#   "reset in body"  … after half of the body
#   "short body"     close it in an orderly way after half of the body
#   "stall"          send half of the body, then nothing until the client gives up
#   "whole file"     answer a range with 200 and all bytes
#   "wrong range"    send the bytes of another range, with its Content-Range
#   "expired"        answer 403, as if the signed address had expired
#   "pointer"        send the pointer of LFS in place of the file
#   "lost answer"    do what is requested, then reset before the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, or one for each matching request.

    Attributes:
        kind: One of the kinds above, or a status.
        path: Pattern of the unescaped paths that it hits: ``*`` matches any text, also ``/``.
        method: Method that it hits; empty hits all.
        of: Kind of the requests that it hits: ``api``, ``resolver``, ``page`` or ``cdn``; empty hits all.
        requests: Numbers of the requests that it hits, counted from 0 for each method and path; None hits all.
        delay_s: Seconds before the answer, for any kind.
        retry_after_s: The ``Retry-After`` header.
    """

    kind: str
    path: str = "*"
    method: str = ""
    of: str = ""
    requests: Sequence[int] | None = None
    delay_s: float = 0.0
    retry_after_s: int | None = None

    def hits(self, method: str, path: str, of: str, number: int) -> bool:
        return (
            fnmatchcase(path, self.path)
            and self.method in ("", method)
            and self.of in ("", of)
            and (self.requests is None or number in self.requests)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """The faults of a hub.

    Attributes:
        faults: The first one that hits a request is its fault.
        seed: Of the rates.
        rates: Kind → share of the other requests that it hits. The same request is hit in every run.
        rates_of: Kinds of requests that rates hit; empty: all.
        latency_s: Seconds before each answer.
        choose: Called for each request with (method, path, kind, number); its fault comes before all others.
    """

    faults: Sequence[Fault] = ()
    seed: int = 0
    rates: Mapping[str, float] = field(default_factory=dict)
    rates_of: Sequence[str] = ()
    latency_s: float = 0.0
    choose: Callable[[str, str, str, int], Fault | None] | None = None

    def fault(self, method: str, path: str, of: str, number: int) -> Fault | None:
        """Return the fault of the request with this number of a method and a path."""
        chosen = self.choose(method, path, of, number) if self.choose else None
        if chosen is not None:
            return chosen
        for fault in self.faults:
            if fault.hits(method, path, of, number):
                return fault
        if not self.rates or (self.rates_of and of not in self.rates_of):
            return None
        digest = hashlib.sha256(f"{self.seed}\0{method}\0{path}\0{number}".encode()).digest()
        draw = int.from_bytes(digest[:8], "little") / 2**64
        for kind, rate in self.rates.items():
            if draw < rate:
                return Fault(kind=kind)
            draw -= rate
        return None
