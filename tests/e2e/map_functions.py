"""Functions that the tests of maps run over samples with a number and a text."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from loader.errors import SkipSample


def number(sample: dict[str, Any]) -> int:
    return int(sample["json"]["number"])


def score(sample: dict[str, Any]) -> float | None:
    """Return a number for most samples; slowly, so that a kill comes in between."""
    time.sleep(0.001)
    return None if number(sample) % 7 == 0 else number(sample) / 3


def is_odd(sample: dict[str, Any]) -> bool:
    time.sleep(0.001)
    return number(sample) % 2 == 1


def new_text(sample: dict[str, Any]) -> dict[str, str] | None:
    time.sleep(0.001)
    return None if number(sample) % 5 == 0 else {"upper.txt": sample["txt"].upper()}


def copies(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """Return none, one or two samples."""
    time.sleep(0.001)
    return [{"txt": sample["txt"], "json": {"copy": copy}} for copy in range(number(sample) % 3)]


def fails_sometimes(sample: dict[str, Any]) -> Any:
    """Fail for sample 4, skip sample 5, and return for sample 6 what no column can hold."""
    if number(sample) == 5:
        raise SkipSample
    if number(sample) == 4:
        raise ValueError("four")
    return object() if number(sample) == 6 else number(sample)


SECRETS = (
    "https://me:hush1@host/a.jpg?sig=hush2 and s3://b/k?X-Amz-Signature=hush3",
    "{'Authorization': 'Bearer hush1', 'x-api-key': 'hush2', 'Accept': '*/*'}",
    "GET /a\nAuthorization: AWS4-HMAC-SHA256 Credential=hush1/s3, Signature=hush2\npassword=hush3, retry",
)


def raises_secrets(sample: dict[str, Any]) -> int:
    if number(sample) < len(SECRETS):
        raise ValueError(SECRETS[number(sample)])
    return 1


def hangs(sample: dict[str, Any]) -> int:
    """Sleep for sample 3, and hang for sample 8 so that no signal interrupts it."""
    if number(sample) == 8:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    if number(sample) in (3, 8):
        time.sleep(100)
    return number(sample)


def batch_hangs(samples: list[dict[str, Any]]) -> list[int]:
    return [hangs(sample) for sample in samples]


def large(sample: dict[str, Any]) -> dict[str, Any]:
    return {"bin": bytes(50_000), "txt": sample["txt"]}


def _faulty(
    function: Callable[[dict[str, Any]], Any], faults: dict[int, Callable[[], object]]
) -> Callable[[dict[str, Any]], Any]:
    """Return a function of a sample that first calls the fault for its number."""

    @functools.wraps(function)
    def call(sample: dict[str, Any]) -> Any:
        faults.get(number(sample), int)()
        return function(sample)

    return call


def crash() -> None:
    faulthandler.disable()  # else it prints a page
    ctypes.string_at(0)


_ENDS: dict[int, Callable[[], object]] = {
    3: lambda: os._exit(7),
    8: crash,
    12: lambda: os.kill(os.getpid(), signal.SIGKILL),
}
ends_score, ends_is_odd, ends_new_text, ends_copies = (
    _faulty(function, _ENDS) for function in (score, is_odd, new_text, copies)
)
raises_score, raises_is_odd, raises_new_text, raises_copies = (
    _faulty(function, dict.fromkeys(_ENDS, lambda: 1 / 0)) for function in (score, is_odd, new_text, copies)
)
stops = _faulty(number, {8: lambda: os.kill(os.getpid(), signal.SIGSTOP)})
ends_everywhere = _faulty(number, dict.fromkeys(range(100), lambda: os._exit(7)))


def batch_ends(samples: list[dict[str, Any]]) -> list[Any]:
    return [ends_score(sample) for sample in samples]


def forks(sample: dict[str, Any]) -> int:
    """Return from a process that it forks; for sample 5, from the process that waits for it."""
    if number(sample) not in (2, 5, 9):
        return number(sample)
    child = os.fork()
    if child == 0:
        return 7
    if number(sample) == 5:
        os.waitpid(child, 0)
    return number(sample)


def forks_after_the_first(sample: dict[str, Any]) -> int:
    return 7 if number(sample) and os.fork() == 0 else number(sample)


def forks_for_long(sample: dict[str, Any]) -> int:
    """For sample 2, return from a process of a process, after the call; sample 3 waits for that."""
    if number(sample) == 2 and os.fork() == 0:
        if os.fork():
            os._exit(0)
        time.sleep(1.3)
        return 7
    time.sleep(0.8 if number(sample) == 3 else 0)
    return number(sample)


def hanging_copies(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"txt": sample["txt"]}
    time.sleep(100 if number(sample) == 8 else 0)
    yield {"txt": sample["txt"]}


class Hangs:
    def __init__(self) -> None:
        time.sleep(100)

    def __call__(self, sample: dict[str, Any]) -> int:
        return number(sample)


class Ends(Hangs):
    def __init__(self) -> None:
        os._exit(7)
