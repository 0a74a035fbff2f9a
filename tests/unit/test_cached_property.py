"""``cached_property`` with threads and forked processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from loader.cached_property import cached_property


class Opened:
    def __init__(self, make: Callable[[], int]) -> None:
        self._make = make

    @cached_property
    def value(self) -> int:
        return self._make()


def test_a_value_is_computed_once() -> None:
    made: list[int] = []
    opened = Opened(lambda: (made.append(1), len(made))[1])  # type: ignore[func-returns-value]
    assert (opened.value, opened.value, made) == (1, 1, [1])


def test_threads_that_compute_a_value_concurrently_get_the_same_one() -> None:
    together = threading.Barrier(2)
    numbers = iter(range(2))

    def make() -> int:
        together.wait(10)  # with a lock, only one thread would get here
        return next(numbers)

    opened = Opened(make)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(opened.value))
    thread.start()
    mine = opened.value
    thread.join()
    assert found == [mine]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # about forking with threads, as tested
def test_a_process_forked_while_a_thread_computes_a_value_computes_others() -> None:
    is_making, may_end = threading.Event(), threading.Event()

    def make() -> int:
        is_making.set()
        may_end.wait(30)
        return 1

    thread = threading.Thread(target=lambda: Opened(make).value)
    thread.start()
    is_making.wait(10)
    child = os.fork()
    if not child:
        signal.alarm(5)  # ends it if it deadlocks
        os._exit(Opened(lambda: 0).value)
    status = os.waitpid(child, 0)[1]
    may_end.set()
    thread.join()
    assert status == 0
