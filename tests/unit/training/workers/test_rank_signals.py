"""A worker leaves the signals that its rank handles to the rank, and keeps all others as they are."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import pytest

from loader.training.workers.worker_process import RankSignals, blocked_signals

SetHandler = Callable[[signal.Signals, Any], None]


@pytest.fixture
def handle() -> Iterator[SetHandler]:
    """Return a function that installs handlers, which are removed after the test."""
    before: dict[signal.Signals, Any] = {}

    def install(number: signal.Signals, handler: Any) -> None:
        before.setdefault(number, signal.signal(number, handler))

    yield install
    for number, handler in before.items():
        signal.signal(number, handler)


def in_worker(action: Callable[[], Any]) -> Any:
    """Run an action in a forked process that was started as workers are; raises EOFError if it dies."""
    context = get_context("fork")
    ours, theirs = context.Pipe()

    def work(signals: RankSignals) -> None:
        pickle.loads(pickle.dumps(signals)).leave_to_rank()
        theirs.send(action())

    with blocked_signals() as signals:
        process = context.Process(target=work, args=(signals,))
        process.start()
    theirs.close()
    process.join()
    return ours.recv()


def on_signal(number: int, frame: Any) -> None:
    raise AssertionError(f"the handler of signal {number} ran in process {os.getpid()}")


HANDLED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGCONT, signal.SIGXCPU)


def test_a_worker_survives_what_its_rank_handles(handle: SetHandler) -> None:
    for number in HANDLED:
        handle(number, on_signal)

    def receive_all() -> bool:
        for number in HANDLED:
            os.kill(os.getpid(), number)
        return True

    assert in_worker(receive_all)


def test_signals_that_arrive_while_a_worker_starts_run_no_handler_there(handle: SetHandler) -> None:
    handle(signal.SIGUSR1, on_signal)
    with blocked_signals() as signals:
        process = os.fork()
        if process == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
            signals.leave_to_rank()
            os._exit(0)
    assert os.waitpid(process, 0)[1] == 0


def test_sigterm_ends_a_worker_and_sigchld_lets_it_wait_for_processes(handle: SetHandler) -> None:
    handle(signal.SIGTERM, on_signal)
    handle(signal.SIGCHLD, lambda *_: None)  # this process gets it, too
    found = in_worker(lambda: (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGCHLD)))
    assert found == (signal.SIG_DFL, signal.SIG_DFL)


def test_other_signals_stay_as_they_are(handle: SetHandler) -> None:
    handle(signal.SIGUSR1, signal.SIG_DFL)
    handle(signal.SIGUSR2, signal.SIG_IGN)
    handle(signal.SIGALRM, on_signal)  # for the timer of a hook
    kept = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGINT)
    assert in_worker(lambda: [signal.getsignal(number) for number in kept]) == [
        signal.SIG_DFL,
        signal.SIG_IGN,
        on_signal,
        signal.default_int_handler,
    ]


def test_a_stack_that_the_rank_asked_for_by_signal_is_written_by_a_worker(tmp_path: Any) -> None:
    with (tmp_path / "stack").open("w") as file:
        faulthandler.register(signal.SIGUSR2, file=file)
        try:
            assert in_worker(lambda: os.kill(os.getpid(), signal.SIGUSR2)) is None
        finally:
            faulthandler.unregister(signal.SIGUSR2)
    assert "most recent call first" in (tmp_path / "stack").read_text()


def test_the_mask_of_the_rank_stays(handle: SetHandler) -> None:
    handle(signal.SIGUSR1, on_signal)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        assert in_worker(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ())) == before | {signal.SIGUSR2}
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before | {signal.SIGUSR2}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
