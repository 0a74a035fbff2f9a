"""Failed requests, and how to handle each."""

from __future__ import annotations

from enum import Enum


class Remedy(Enum):
    """Ways to handle a failed request."""

    RETRY = "retry"
    SLOW_DOWN = "slow down"  # and retry
    RETRY_FEW = "retry few times"  # it may be a fault on the way, or the nature of the server
    REFRESH = "refresh"  # denied: once more with new credentials
    GIVE_UP = "give up"


class RequestFailure(OSError):  # noqa: N818 - it is no error of the caller
    """A request failed. As the cause of a ``StorageError`` it ends a run, as every ``OSError`` does.

    Args:
        cause: What happened, in words, without secrets.
        remedy: What to do about it.
        kind: ``missing``, ``changed``, ``not as indexed`` (changed since), ``alternates`` (between two versions),
            ``exists``, ``denied``, ``unreachable`` (no connection was made), ``slow``, ``broken`` (no whole answer),
            ``refused`` (an address), ``too large``, ``given up`` (the host was), ``no bucket``, ``no listing``,
            ``no ranges``, ``odd name`` (of a listed object), ``read-only``, ``wrong region`` or empty.
        retry_after_s: Seconds that the server asks to wait.
    """

    def __init__(self, cause: str, remedy: Remedy, *, kind: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy
        self.kind = kind
        self.retry_after_s = retry_after_s


def failure_of_status(status: int, words: str, retry_after_s: float | None = None) -> RequestFailure:
    """Return the failure for an answer with a status other than 200 and 206."""
    if status in (429, 503):
        return RequestFailure(words, Remedy.SLOW_DOWN, retry_after_s=retry_after_s)
    if status == 408 or status >= 500:
        return RequestFailure(words, Remedy.RETRY, retry_after_s=retry_after_s)
    if status in (401, 403):
        return RequestFailure(words, Remedy.REFRESH, kind="denied")
    if status in (404, 410):
        return RequestFailure(words, Remedy.GIVE_UP, kind="missing")
    if status == 416:
        return RequestFailure("it is shorter now", Remedy.GIVE_UP, kind="changed")
    return RequestFailure(words, Remedy.GIVE_UP)
