"""Obey the limits of requests of the hub, all processes of a node together.

The hub counts the requests of a token, or of an address without one, in windows of five minutes, those to its API and
those to its resolver apart. Each answer says how many requests of the window are left. A node knows its own requests
alone; how fast the others of the run use up the rest shows in how much that number falls between its own requests.
"""

from __future__ import annotations

import random
import re
import struct
import time
from collections.abc import Mapping
from typing import NamedTuple

from .....escaped_log import get_logger
from .node_files import NodeFiles, digest_of

_LIMIT = re.compile(r'"(\w+)"\s*;\s*r\s*=\s*(\d{1,9})\s*;\s*t\s*=\s*(\d{1,6})')
_POLICY = re.compile(r"q\s*=\s*(\d{1,9}).*?w\s*=\s*(\d{1,6})")
_FREE_SHARE = 0.5  # of a window's requests, which are sent as they come; the rest is spread over the time left
_RESERVED_SHARE = 0.03  # of a window's requests: those of other nodes that are on the way
_OTHERS_AT_FIRST = 4.0  # requests of all nodes for each one of this node, before it is known
_OTHERS_WEIGHT = 0.25  # of the last observation in the average
_WINDOW_S = 300.0
_BLIND_S = 15.0  # after a refusal that names no time; the tries of one request then last for a window
_JITTER_S = 3.0  # over which nodes that waited for the same window begin
_NAMED_S, _NAMED_EACH_S = 10.0, 60.0  # shorter pauses are not logged, and others once a minute

_log = get_logger(__name__)


class PaceState(NamedTuple):
    """The state of one limit; times are in seconds since the epoch."""

    limit: float = 0.0  # requests of a window; 0 if it is not known
    left: float = 0.0  # requests that are left in the window
    ends_s: float = 0.0
    window_s: float = _WINDOW_S
    others: float = _OTHERS_AT_FIRST  # requests of all that share the limit for each one of this node
    sent: float = 0.0  # by this node since the last answer
    next_s: float = 0.0  # earliest time of the next request


_STATE = struct.Struct("<7d")


def next_request(state: PaceState, now_s: float) -> tuple[PaceState, float]:
    """Return the state after one more request of this node, and the time at which it may be sent.

    >>> half = PaceState(limit=1000, left=330, ends_s=100, others=2)
    >>> [round(next_request(half, 10)[1]), round(next_request(half._replace(left=20), 10)[1])]
    [10, 100]
    >>> after, _ = next_request(half, 10)
    >>> round(next_request(after, 10)[1], 1)
    10.6
    """
    # In a new window, or without a limit, requests are sent as they come; a later end is of a clock that was set back.
    if not (state.limit and now_s < state.ends_s <= now_s + 2 * state.window_s):
        return state._replace(left=state.limit, ends_s=0.0, sent=state.sent + 1, next_s=0.0), now_s
    state = state._replace(sent=state.sent + 1, left=state.left - 1)
    usable = state.left - _RESERVED_SHARE * state.limit
    if usable <= 0:
        return state, state.ends_s
    if state.left > _FREE_SHARE * state.limit:
        return state, now_s
    # Spread this node's share of the rest over the time left.
    at_s = max(now_s, state.next_s)
    gap_s = (state.ends_s - now_s) * state.others / usable
    return state._replace(next_s=at_s + gap_s), min(at_s, state.ends_s)


def note_answer(state: PaceState, headers: Mapping[str, str], now_s: float, *, is_refused: bool) -> PaceState:
    """Return the state after an answer, whose headers name the limit.

    >>> headers = {"ratelimit": '"api";r=90;t=40', "ratelimit-policy": '"fixed window";"api";q=100;w=300'}
    >>> note_answer(PaceState(), headers, 1000.0, is_refused=False)[:4]
    (100.0, 90.0, 1040.0, 300.0)
    """
    match = _LIMIT.search(headers.get("ratelimit", ""))
    policy = _POLICY.search(headers.get("ratelimit-policy", ""))
    if policy is not None:
        state = state._replace(limit=float(policy[1]), window_s=float(policy[2]))
    if match is not None:
        left, ends_s = float(match[2]), now_s + float(match[3])
        # Requests that the others sent between two answers; of a new window, nothing is known.
        is_same = abs(ends_s - state.ends_s) < 2 and state.sent > 0  # the hub counts whole seconds
        if is_same and left <= state.left:
            seen = 1 + (state.left - left) / state.sent
            state = state._replace(others=state.others + _OTHERS_WEIGHT * (seen - state.others))
        state = state._replace(left=left, ends_s=ends_s, sent=0.0)
    if is_refused:
        wait = headers.get("retry-after", "")
        if wait.isascii() and wait.isdecimal() and len(wait) < 6:
            ends_s = now_s + float(wait)
        else:
            ends_s = state.ends_s if match is not None else now_s + _BLIND_S
        state = state._replace(limit=state.limit or 1.0, left=0.0, ends_s=min(ends_s, now_s + 2 * state.window_s))
    return state


class RequestPace:
    """Waits before requests, so that the hub refuses none.

    Args:
        files: Where the processes of this node share what they know.
        host: The hub, for messages.
        identity: Whose limit it is: a digest of the endpoint and the token.
    """

    def __init__(self, files: NodeFiles, host: str, identity: str) -> None:
        self._files, self._host, self._identity = files, host, identity
        self._named_s = 0.0

    def wait(self, limit: str) -> None:
        """Wait until one more request may be sent to the ``api`` or the ``resolver``."""
        is_late = True
        while is_late:
            now_s = time.time()
            with self._files.hold(self._name(limit)):
                state, at_s = next_request(self._state(limit), now_s)
                is_late = at_s >= state.ends_s > 0 and at_s > now_s  # it has to ask again in the next window
                if not is_late:
                    self._write(limit, state)
            if at_s <= now_s:
                return
            pause_s = min(at_s - now_s, 2 * state.window_s) + (random.uniform(0, _JITTER_S) if is_late else 0.0)
            if pause_s > _NAMED_S and now_s > self._named_s + _NAMED_EACH_S:
                self._named_s = now_s
                _log.warning(
                    "waiting %.0f s: %s of the %.0f requests that %s allows in %.0f s are left",
                    pause_s, f"{max(0, state.left):,.0f}", state.limit, self._host, state.window_s,
                )  # fmt: skip
            time.sleep(pause_s)

    def note(self, limit: str, headers: Mapping[str, str], *, is_refused: bool) -> None:
        """Note what an answer says of a limit; ``is_refused`` for status 429."""
        if is_refused or "ratelimit" in headers:
            with self._files.hold(self._name(limit)):
                self._write(limit, note_answer(self._state(limit), headers, time.time(), is_refused=is_refused))

    def _name(self, limit: str) -> str:
        return f"pace-{digest_of(self._identity, limit)}"

    def _state(self, limit: str) -> PaceState:
        data = self._files.read(self._name(limit))
        return PaceState(*_STATE.unpack(data)) if data is not None and len(data) == _STATE.size else PaceState()

    def _write(self, limit: str, state: PaceState) -> None:
        self._files.write(self._name(limit), _STATE.pack(*state))
