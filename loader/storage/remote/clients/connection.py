"""The connection to a bucket: a client, a limit of simultaneous requests, and retries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..failures import RequestFailure
from ..options import StorageOptions
from ..pace import Pace
from ..retries import Retries
from .client import ObjectClient

_T = TypeVar("_T")


class Connection:
    """Sends requests to a bucket; all threads of a process share it.

    Args:
        client: Sends single requests.
        pace: Limits the requests at one time.
        options: Endpoint, region and limits.
        has_answered: Returns True if the service has answered before.
        note_answer: Called once it has.

    Attributes:
        can_list: True if the service lists objects.
        options: Endpoint, region and limits.
    """

    def __init__(
        self,
        client: ObjectClient,
        pace: Pace,
        options: StorageOptions,
        *,
        has_answered: Callable[[], bool],
        note_answer: Callable[[], None],
    ) -> None:
        self.can_list = client.can_list
        self.options = options
        self._client = client
        self._pace = pace
        self._retries = Retries(options.deadline_s, refresh=client.refresh, has_answered=has_answered)
        self._note_answer = note_answer
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

        ``action``, ``url``, ``is_wanted`` and the errors are those of :meth:`.Retries.run`.

        Args:
            attempt: Sends it once.
        """
        return self._retries.run(self._send_once, attempt, action=action, url=url, is_wanted=is_wanted)

    def _send_once(self, attempt: Callable[[ObjectClient], _T]) -> _T:
        failure = None
        started = self._pace.begin()
        try:
            return attempt(self._client)
        except RequestFailure as raised:
            failure = raised
            raise
        finally:
            self._pace.end(started, failure)
            if not self._is_noted and (failure is None or failure.kind != "unreachable"):
                self._is_noted = True
                self._note_answer()
