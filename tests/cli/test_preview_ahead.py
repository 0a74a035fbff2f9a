"""The thread that computes ahead."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from energon_cli.commands.look.preview import search
from energon_cli.commands.look.preview.search import AheadWorker


class Waiting:
    """A worker, and how to wait for its results."""

    def __init__(self) -> None:
        self._done = threading.Semaphore(0)
        self.worker = AheadWorker(self._done.release)

    def wait(self, results: int) -> None:
        for _ in range(results):
            assert self._done.acquire(timeout=10)


def test_the_most_urgent_result_comes_first_and_only_once() -> None:
    waiting = Waiting()
    order: list[str] = []

    def compute(name: str) -> str:
        order.append(name)
        return name.upper()

    jobs = [(name, partial(compute, name)) for name in "abc"]
    waiting.worker.want(jobs)
    waiting.wait(3)
    waiting.worker.want(jobs)
    assert [waiting.worker.get(name) for name in "cba"] == ["C", "B", "A"]
    waiting.worker.close()
    assert order == ["a", "b", "c"]


def test_a_guess_waits_until_the_next_wish_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_SETTLE_S", 5.0)
    waiting = Waiting()
    order: list[str] = []
    waiting.worker.want([(name, partial(order.append, name)) for name in ("seen", "guessed")])
    waiting.wait(1)
    waiting.worker.want([("jumped to", partial(order.append, "jumped to"))])
    waiting.wait(1)
    waiting.worker.close()
    assert order == ["seen", "jumped to"]


def test_results_are_bounded() -> None:
    waiting = Waiting()
    for number in range(100):
        waiting.worker.want([(number, lambda: "done")])
        waiting.wait(1)
    assert waiting.worker.get(99) == "done"
    assert waiting.worker.get(0) is None
    waiting.worker.close()


def test_an_error_reaches_the_caller() -> None:
    waiting = Waiting()
    waiting.worker.want([("a", lambda: 1 / 0)])
    waiting.wait(1)
    with pytest.raises(ZeroDivisionError):
        waiting.worker.get("a")
    waiting.worker.close()
