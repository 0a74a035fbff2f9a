"""Requests and answers of a hub, and the errors that it answers with."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from .repositories import Blob

__all__ = ["Answer", "LoggedRequest", "Refused", "Request", "json_answer", "unescaped"]

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(slots=True)
class Request:
    """A request as it came in.

    Attributes:
        method: ``GET``, ``HEAD``, ``PUT``, ``POST`` or ``DELETE``.
        path: The path as it was written, with its escapes: ``refs%2Fpr%2F1`` is one name.
        query: The query as it was written.
        headers: By name in small letters.
        body: All of it.
        is_cdn: Whether it came in at the second port, which serves files by signed addresses.
        host: The client's address.
        port: The client's port, one for each connection.
        fault: Kind of the planned fault.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    is_cdn: bool
    host: str
    port: int
    fault: str = ""

    @property
    def token(self) -> str:
        """The token of the client; empty without one."""
        return self.headers.get("authorization", "").removeprefix("Bearer ").strip()

    @property
    def segments(self) -> list[str]:
        """The parts of the path, each still escaped."""
        return self.path.strip("/").split("/")

    @property
    def arguments(self) -> dict[str, list[str]]:
        return parse_qs(self.query, keep_blank_values=True)

    def argument(self, name: str, default: str = "") -> str:
        return self.arguments.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        return self.argument(name).lower() in ("true", "1")

    @property
    def range(self) -> tuple[int, int] | None:
        """The first and last byte that are requested; of the last n bytes (-n, -1)."""
        match = _RANGE.fullmatch(self.headers.get("range", ""))
        if match is None or match[0].endswith("=-"):
            return None  # several ranges are answered by the whole file, too
        if not match[1]:
            return -int(match[2]), -1
        return int(match[1]), int(match[2]) if match[2] else 1 << 62


@dataclass(slots=True)
class LoggedRequest:
    """A request as it is logged, without secrets.

    Attributes:
        method: As of :class:`Request`.
        path: The path, without its escapes and without the query.
        kind: ``api``, ``resolver``, ``page`` (each has its rate limit) or ``cdn``, which has none.
        has_token: Whether it had a token.
        host: The client's address.
        port: The client's port, one for each connection.
        range: As of :class:`Request`.
        status: Status of the answer; 0 if there was none.
        sent_bytes: Bytes of the body that were sent.
        fault: Kind of the planned fault.
        started: When it arrived, in seconds of :func:`time.monotonic`.
    """

    method: str
    path: str
    kind: str
    has_token: bool
    host: str
    port: int
    range: tuple[int, int] | None
    status: int = 0
    sent_bytes: int = 0
    fault: str = ""
    started: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Answer:
    """An answer.

    Attributes:
        status: Of HTTP.
        body: The body, if it is not of a blob.
        headers: All but ``Content-Length``, which is added.
        blob: The blob whose bytes are the body.
        start: First byte of the blob that is sent.
        size: How many bytes of the blob are sent.
    """

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    blob: Blob | None = None
    start: int = 0
    size: int = 0

    @property
    def length(self) -> int:
        return len(self.body) if self.blob is None else self.size

    def read(self) -> bytes:
        """Return all bytes of the body."""
        return self.body if self.blob is None else self.blob.read(self.start, self.size)


def json_answer(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    body = json.dumps(document).encode()
    return Answer(status, body, {"Content-Type": "application/json; charset=utf-8", **(headers or {})})


class Refused(Exception):  # noqa: N818 - an answer
    """A request that is answered with an error, as the hub words it.

    Args:
        status: Of HTTP.
        code: The ``X-Error-Code``, by which the client chooses its exception; empty for errors without one.
        message: The ``X-Error-Message``.
        more: More fields of the body.
    """

    def __init__(self, status: int, code: str, message: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": message, **(more or {})}
        self.headers = {"X-Error-Message": " ".join(message.split()).encode("ascii", "replace").decode()}
        if code:
            self.headers["X-Error-Code"] = code

    def answer(self) -> Answer:
        return json_answer(self.body, self.status, self.headers)

    # The client also takes a 401 without a code for a missing repository, but only of https://; hence the code.
    @classmethod
    def no_repository(cls, *, is_anonymous: bool) -> Refused:
        if is_anonymous:
            return cls(401, "RepoNotFound", "Invalid username or password.")
        return cls(404, "RepoNotFound", "Repository not found")

    @classmethod
    def no_revision(cls, revision: str) -> Refused:
        return cls(404, "RevisionNotFound", f"Invalid rev id: {revision}")

    @classmethod
    def no_entry(cls, path: str = "") -> Refused:
        return cls(404, "EntryNotFound", f"{path} does not exist" if path else "Entry not found")

    @classmethod
    def gated(cls, kind: str, name: str, url: str, *, is_anonymous: bool) -> Refused:
        what = f"Access to {kind.removesuffix('s')} {name} is restricted"
        if is_anonymous:
            return cls(401, "GatedRepo", f"{what}. You must have access to it and be authenticated to access it.")
        return cls(403, "GatedRepo", f"{what} and you are not in the authorized list. Visit {url} to ask for access.")

    @classmethod
    def disabled(cls) -> Refused:
        return cls(403, "", "Access to this resource is disabled.")  # the client compares the text

    @classmethod
    def bad_token(cls) -> Refused:
        return cls(401, "", "Invalid credentials in Authorization header")  # the client compares the text

    @classmethod
    def moved(cls, location: str) -> Refused:
        refused = cls(307, "", f"Temporary Redirect. Redirecting to {location}")
        refused.headers = {"Location": location}
        return refused

    @classmethod
    def too_many(cls, headers: Mapping[str, str]) -> Refused:
        refused = cls(429, "", "We had to rate limit you. To continue using our service, log in or retry later.")
        refused.headers |= headers
        return refused


def unescaped(segments: list[str]) -> str:
    return "/".join(unquote(segment) for segment in segments)
