"""Failed requests by what to do about them."""

from __future__ import annotations

from enum import Enum

__all__ = ["Remedy", "RequestFailure"]


class Remedy(Enum):
    """What to do about a failed request."""

    RETRY = "retry"
    SLOW_DOWN = "slow down"  # and retry
    RETRY_FEW = "retry few times"  # it may be a fault on the way, or the nature of the server
    REFRESH = "refresh"  # denied: once more with new credentials
    GIVE_UP = "give up"


class RequestFailure(Exception):  # noqa: N818 - it is no error of the caller
    """A request failed.

    Args:
        cause: What happened, in words, without secrets.
        remedy: What to do about it.
        kind: ``missing``, ``changed``, ``exists``, ``denied`` or empty.
        retry_after_s: Seconds that the server asks to wait.
    """

    def __init__(self, cause: str, remedy: Remedy, *, kind: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy
        self.kind = kind
        self.retry_after_s = retry_after_s
