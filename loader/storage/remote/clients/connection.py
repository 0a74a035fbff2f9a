"""The interface of clients, and the connection to a bucket: a client, a limit of requests at a time, and retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from ....escaped_log import get_logger
from ..failures import NO_ANSWER, Remedy, RequestFailure, error_of_failure
from ..fetcher import Pace
from ..options import StorageOptions


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


_T = TypeVar("_T")


class Connection:
    """Sends requests to a bucket; all threads of a process share it.

    Args:
        answered: Buckets whose service has answered in this process; this one is added.

    Attributes:
        can_list: True if the service lists objects.
    """

    def __init__(
        self,
        client: ObjectClient,
        pace: Pace,
        options: StorageOptions,
        bucket: tuple[str, ...],
        answered: set[tuple[str, ...]],
    ) -> None:
        self.can_list = client.can_list
        self.options = options
        self.client = client
        self._pace = pace
        self._retries = Retries(options.deadline_s, refresh=client.refresh, has_answered=lambda: bucket in answered)
        self._note_answer = partial(answered.add, bucket)
        self._is_noted = False

    def send(
        self,
        attempt: Callable[[ObjectClient], _T],
        *,
        action: str,
        url: str,
        is_wanted: Callable[[], bool] | None = None,
    ) -> _T:
        """Send a request, again after failures that may pass.

        See :meth:`.Retries.run` for ``action``, ``url``, ``is_wanted`` and the errors.
        """
        return self._retries.run(partial(self._send_once, attempt), action=action, url=url, is_wanted=is_wanted)

    def _send_once(self, attempt: Callable[[ObjectClient], _T]) -> _T:
        failure = None
        started = self._pace.begin()
        try:
            return attempt(self.client)
        except RequestFailure as raised:
            failure = raised
            raise
        finally:
            self._pace.end(started, failure)
            if not self._is_noted and (failure is None or failure.kind not in NO_ANSWER):
                self._is_noted = True
                self._note_answer()


_R = TypeVar("_R")
_log = get_logger(__name__)
_FIRST_DELAY_S, _MAX_DELAY_S = 0.1, 15.0
_CONTACT_S = 20.0  # a wrong endpoint is reported soon; a later outage may last longer
_MIN_TRIES = 3
_FEW_TRIES = 3  # also of commands, for a service that never answered: its name is probably wrong
_is_command = False
_FIRST_WARNING_S, _NEXT_WARNINGS_S = 10.0, 30.0


@contextmanager
def few_tries() -> Iterator[None]:
    """Send three requests at most to services that never answered, in this process and in processes that it forks.

    Commands do so, whose users wait for the error. Runs of training try for 20 s, since many nodes start together. A
    service that has answered is tried until ``deadline_s`` by both.
    """
    global _is_command  # noqa: PLW0603 - threads and forked workers have the same patience
    before, _is_command = _is_command, True
    try:
        yield
    finally:
        _is_command = before


@dataclass(frozen=True, slots=True)
class Retries:
    """The policy of retries."""

    deadline_s: float = 300.0  # seconds after which a request is given up, after at least three tries
    max_tries: int | None = None  # most tries, twice as many if the service asks to slow down; None counts none
    clock: Callable[[], float] = time.monotonic  # returns seconds
    sleep: Callable[[float], None] = time.sleep  # waits some seconds
    refresh: Callable[[], None] | None = None
    # Returns False for a service that never answered, which is given up sooner; see :func:`few_tries`.
    has_answered: Callable[[], bool] | None = None

    def run(
        self, attempt: Callable[[], _R], *, action: str, url: str, is_wanted: Callable[[], bool] | None = None
    ) -> _R:
        """Return what ``attempt`` returns, which is called again after failures that may pass.

        Args:
            attempt: Sends the request; raises :class:`RequestFailure`.
            action: What the request does, for messages: ``read bytes 0–512 of``.
            is_wanted: Returns False when the result came in another way, so that the request is not sent again.

        Raises:
            FormatError: The object has changed.
            StorageError: The request failed for good; the cause is a ``FileNotFoundError`` if the object is missing.
        """
        started, tries, warned_s = self.clock(), 0, _FIRST_WARNING_S
        has_refreshed = False
        while True:
            tries += 1
            try:
                return attempt()
            except RequestFailure as failure:
                spent_s = self.clock() - started
                # Denied: new credentials, once.
                if failure.remedy is Remedy.REFRESH and self.refresh is not None and not has_refreshed:
                    has_refreshed = True
                    self.refresh()
                    continue
                # Give up, or wait and try again.
                is_dropped = is_wanted is not None and not is_wanted()
                delay_s = None if is_dropped else self._delay_s(failure, tries, spent_s)
                if delay_s is None:
                    error = error_of_failure(failure, action=action, url=url, tries=tries, spent_s=spent_s)
                    raise error from error.__cause__ or failure
                if spent_s >= warned_s and self.max_tries is None:  # else the error comes soon
                    _log.warning(
                        "cannot %s %s: %s; %d tries in %.0f s, trying again", action, url, failure.cause, tries, spent_s
                    )
                    warned_s = spent_s + _NEXT_WARNINGS_S
                self.sleep(delay_s)

    def _delay_s(self, failure: RequestFailure, tries: int, spent_s: float) -> float | None:
        # A service that never answered probably has a wrong name.
        is_new = failure.kind in NO_ANSWER and self.has_answered is not None and not self.has_answered()
        if (failure.remedy is Remedy.RETRY_FEW or (is_new and _is_command)) and tries >= _FEW_TRIES:
            return None
        if failure.remedy not in (Remedy.RETRY, Remedy.SLOW_DOWN, Remedy.RETRY_FEW):
            return None
        if self.max_tries is not None and tries >= self.max_tries * (1 + (failure.remedy is Remedy.SLOW_DOWN)):
            return None
        # Random pauses keep thousands of workers from trying again at the same moment.
        delay_s = random.uniform(0, min(_MAX_DELAY_S, _FIRST_DELAY_S * 2 ** min(tries, 20)))
        least_s = failure.retry_after_s or 0.0
        deadline_s = self.deadline_s
        if failure.kind == "unreachable" and is_new:
            deadline_s = min(deadline_s, _CONTACT_S)
        # A pause that the service names is kept, unless it ends after the deadline.
        left_s = deadline_s - spent_s
        if least_s > max(left_s, 0):
            return None
        if tries < _MIN_TRIES:
            return max(delay_s, least_s)
        if left_s <= 0:
            return None
        return max(min(delay_s, left_s), least_s)  # the last try is at the deadline
