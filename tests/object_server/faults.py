"""Faults of an object server, planned by the key and the number of its request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["KINDS", "Fault", "FaultPlan"]

KINDS = (
    "delay",  # answer after delay_s
    "503",
    "500",
    "501",
    "429",
    "403",
    "401",
    "408",
    "400 echo",  # repeat the request, with its headers, in the answer
    "403 echo",
    "500 echo",
    "reset",  # close the connection with a reset before the answer
    "reset in body",
    "stall",  # send half of the body, then nothing until the client gives up
    "short body",  # close the connection in an orderly way, before all of Content-Length was sent
    "whole object",  # answer a range with 200 and all bytes
    "wrong range",  # send the bytes of another range, with its Content-Range
    "changed etag",
    "dropped put",  # store the object, then reset before the answer
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, or one for each matching request.

    Attributes:
        kind: One of :data:`KINDS`.
        key: Ending of the keys that it hits; empty hits all.
        method: Method that it hits; empty hits all.
        requests: Numbers of the requests that it hits, counted from 0 for each method and key; None hits all.
        delay_s: Seconds before the answer, for any kind.
        retry_after_s: The ``Retry-After`` header, for 429 and 503.
    """

    kind: str
    key: str = ""
    method: str = ""
    requests: Sequence[int] | None = None
    delay_s: float = 0.0
    retry_after_s: int | None = None

    def hits(self, method: str, key: str, number: int) -> bool:
        return (
            key.endswith(self.key)
            and self.method in ("", method)
            and (self.requests is None or number in self.requests)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """The faults of a server.

    Attributes:
        faults: The first one that hits a request is its fault.
        seed: Of the rates.
        rates: Kind → share of the other requests that it hits. The same request is hit in every run.
        latency_s: Seconds before each answer.
        choose: Called for each request with (method, key, number); its fault comes before all others.
    """

    faults: Sequence[Fault] = ()
    seed: int = 0
    rates: Mapping[str, float] = field(default_factory=dict)
    latency_s: float = 0.0
    choose: Callable[[str, str, int], Fault | None] | None = None

    def fault(self, method: str, key: str, number: int) -> Fault | None:
        """Return the fault of the request with this number of a method and a key."""
        chosen = self.choose(method, key, number) if self.choose else None
        if chosen is not None:
            return chosen
        for fault in self.faults:
            if fault.hits(method, key, number):
                return fault
        if not self.rates:
            return None
        digest = hashlib.sha256(f"{self.seed}\0{method}\0{key}\0{number}".encode()).digest()
        draw = int.from_bytes(digest[:8], "little") / 2**64
        for kind, rate in self.rates.items():
            if draw < rate:
                return Fault(kind=kind)
            draw -= rate
        return None
