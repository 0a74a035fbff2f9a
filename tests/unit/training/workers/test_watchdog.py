"""Waits that take too long are reported once, and ended on request."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from loader.errors import WorkerError
from loader.training.workers import watchdog, worker_board
from loader.training.workers.watchdog import Watchdog, _install_handler, _Interrupt
from loader.training.workers.worker_board import WorkerBoard
from tests.unit.training import real_workers as hooks
from tests.unit.training.real_workers import workers

TIMEOUT_S = 0.5
LONG_S = 60  # never waited for


MakeWatchdog = Callable[..., Watchdog]


@pytest.fixture
def made() -> Iterator[MakeWatchdog]:
    """Build watchdogs that are closed when the test ends."""
    living: list[Watchdog] = []

    def make(
        timeout_s: float | None = TIMEOUT_S,
        initial_timeout_s: float | None = TIMEOUT_S,
        *,
        board: WorkerBoard | None = None,
        **arguments: Any,
    ) -> Watchdog:
        if board is None:
            board = WorkerBoard(1)
            board.slot(0).note(3, 7)
        living.append(Watchdog(timeout_s, initial_timeout_s, board=board, **arguments))
        return living[-1]

    yield make
    for one in living:
        one.close()


def hang_in_the_hook(seconds: Any) -> None:
    time.sleep(seconds)


def hang_until_reported(caplog: pytest.LogCaptureFixture, times: int = 1) -> None:
    deadline = time.monotonic() + LONG_S
    while len(caplog.records) < times and time.monotonic() < deadline:
        time.sleep(0.01)


def thread_of(name: str = "loader watchdog") -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name and thread.is_alive()]


def made_thread(dog: Watchdog) -> threading.Thread:
    assert dog._thread is not None
    return dog._thread


# ------------------------------------------------------------------------------------------------- worker processes


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_hang_is_reported_once_with_the_last_sample_and_the_stack(
    method: Any, made: MakeWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    with workers(hooks.wait_for_a_message, hooks.sleep_in_the_hook, method=method) as started:
        dog = made(board=started.board)
        with dog.waiting(1):
            hang_until_reported(caplog)
            time.sleep(3 * TIMEOUT_S)
        (record,) = caplog.records
        found, at, *stack = record.getMessage().splitlines()
        assert found == f"worker process 1 (pid {started.processes[1].pid}) has made no micro-batch for 0.5 s"
        assert at == "  at: last sample started: the sample at position 7 of lane 3"
        assert any(line.endswith("in sleep_in_the_hook") for line in stack)
        assert started.processes[1].is_alive()


def test_another_hang_is_reported_again(made: MakeWatchdog, caplog: pytest.LogCaptureFixture) -> None:
    dog = made()
    for number in range(2):
        with dog.waiting():
            hang_until_reported(caplog, number + 1)
    assert len(caplog.records) == 2


def test_fail_kills_only_the_worker_that_hangs_and_ends_the_wait_with_an_error(made: MakeWatchdog) -> None:
    with workers(hooks.wait_for_a_message, hooks.sleep_in_the_hook) as started:
        dog = made(board=started.board, fail=True)
        with pytest.raises(WorkerError) as caught, dog.waiting(1):
            started.connections[1].recv()
        assert caught.value.message.startswith("worker process 1 (pid ")
        assert caught.value.at == "last sample started: the sample at position 7 of lane 3"
        assert "in sleep_in_the_hook" in caught.value.__notes__[0]
        started.processes[1].join()
        assert [process.exitcode for process in started.processes] == [None, -9]


def test_a_wait_that_does_not_end_with_its_worker_is_interrupted(
    made: MakeWatchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "_GRACE_S", 0.1)
    with workers(hooks.sleep_in_the_hook) as started:
        dog = made(board=started.board, fail=True)
        with pytest.raises(WorkerError, match="worker process 0"), dog.waiting(0):
            time.sleep(LONG_S)


def test_a_worker_without_a_stack_is_reported(
    made: MakeWatchdog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_board, "_WAIT_S", 0.1)
    with workers(hooks.be_stopped) as started, made(board=started.board).waiting(0):
        hang_until_reported(caplog)
    assert "it gives no stack" in caplog.records[0].getMessage()


def test_a_worker_that_has_not_begun_is_reported_and_ended_without_a_process_to_kill(
    made: MakeWatchdog,
) -> None:
    dog = made(board=WorkerBoard(1), fail=True)
    with pytest.raises(WorkerError, match="worker process 0 has made no micro-batch") as caught, dog.waiting(0):
        time.sleep(LONG_S)
    assert caught.value.at == "it was between samples, or in a hook for a batch"


def test_a_worker_that_has_not_begun_is_killed_if_its_process_is_known(made: MakeWatchdog) -> None:
    with workers(hooks.sleep_in_the_hook) as started:
        board = WorkerBoard(1)
        board.cells[0].pid = started.processes[0].pid
        with pytest.raises(WorkerError, match="worker process 0"), made(board=board, fail=True).waiting(0):
            started.connections[0].recv()
        started.processes[0].join()
        assert started.processes[0].exitcode == -9


# ------------------------------------------------------------------------------------------- in this process


def test_without_workers_the_stack_is_that_of_the_thread_that_waits(
    made: MakeWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    with made().waiting():
        hang_until_reported(caplog)
    (record,) = caplog.records
    assert record.getMessage().startswith("this process has made no micro-batch for 0.5 s")
    assert "in hang_until_reported\n" in record.getMessage()


def test_without_workers_the_wait_is_interrupted(made: MakeWatchdog) -> None:
    with pytest.raises(WorkerError, match="this process has made no micro-batch") as caught, made(fail=True).waiting():
        hang_in_the_hook(LONG_S)
    assert "in hang_in_the_hook" in caught.value.__notes__[0]
    assert caught.value.__suppress_context__


def hang_and_catch(caught: type[BaseException]) -> None:
    """Hang, catch an error, and record that the hook continued."""
    with suppress(caught):
        hang_in_the_hook(LONG_S)
    continued.append(caught)


continued: list[type[BaseException]] = []


def test_a_hook_that_catches_every_exception_is_interrupted(made: MakeWatchdog) -> None:
    with pytest.raises(WorkerError), made(fail=True).waiting():
        hang_and_catch(Exception)
    assert not continued


def test_a_hook_that_catches_even_the_interrupt_does_not_hide_the_hang(made: MakeWatchdog) -> None:
    with pytest.raises(WorkerError), made(fail=True).waiting():
        hang_and_catch(BaseException)
    assert continued.pop() is BaseException


def test_a_wait_in_another_thread_raises_the_error_when_it_ends(
    made: MakeWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    dog, errors = made(fail=True), []

    def wait() -> None:
        try:
            with dog.waiting():
                hang_until_reported(caplog)
                time.sleep(TIMEOUT_S)
        except WorkerError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_two_watchdogs_interrupt_their_own_waits(made: MakeWatchdog) -> None:
    training, validation = made(fail=True), made(fail=True, initial_timeout_s=2 * TIMEOUT_S)
    with training.waiting():
        pass
    with pytest.raises(WorkerError, match="for 1 s"), validation.waiting():
        hang_in_the_hook(LONG_S)
    with pytest.raises(WorkerError, match=r"for 0\.5 s"), training.waiting():
        hang_in_the_hook(LONG_S)


def test_an_interrupt_that_comes_too_late_is_not_raised() -> None:
    asked = []

    def still_waits() -> bool:
        asked.append(True)
        return False

    handler = _install_handler()
    handler.interrupt(threading.get_ident(), still_waits)
    time.sleep(0)
    assert asked
    with pytest.raises(_Interrupt):
        handler.interrupt(threading.get_ident(), lambda: True)


def test_an_error_that_comes_too_late_is_not_raised_by_the_next_wait(made: MakeWatchdog) -> None:
    dog = made(LONG_S, LONG_S, fail=True)
    with dog.waiting():
        pass
    dog._error, dog._error_of = WorkerError("late"), dog._number
    waited = False
    with dog.waiting():
        waited = True
    assert waited


def press_ctrl_c_when_ended(process: Any) -> None:
    process.join()
    raise KeyboardInterrupt


def test_ctrl_c_during_a_hang_raises_keyboard_interrupt(made: MakeWatchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_GRACE_S", LONG_S)
    with workers(hooks.sleep_in_the_hook) as started:
        dog = made(board=started.board, fail=True)
        with pytest.raises(KeyboardInterrupt), dog.waiting(0):
            press_ctrl_c_when_ended(started.processes[0])


# ------------------------------------------------------------------------------------------------------ the limits


def test_waits_within_the_limit_raise_and_log_nothing(made: MakeWatchdog, caplog: pytest.LogCaptureFixture) -> None:
    dog = made(1, 1, fail=True)
    for _ in range(8):
        with dog.waiting():
            time.sleep(0.15)
    assert not caplog.records


def test_the_first_wait_for_each_worker_has_its_own_limit(made: MakeWatchdog, caplog: pytest.LogCaptureFixture) -> None:
    dog = made(TIMEOUT_S, None, board=WorkerBoard(2))
    for worker in range(2):
        with dog.waiting(worker):
            hang_in_the_hook(2 * TIMEOUT_S)
    assert not caplog.records
    with dog.waiting(1):
        hang_until_reported(caplog)
    assert len(caplog.records) == 1


def test_a_first_wait_that_fails_does_not_count_as_a_micro_batch(
    made: MakeWatchdog, caplog: pytest.LogCaptureFixture
) -> None:
    dog = made(TIMEOUT_S, None)
    with pytest.raises(ValueError, match="in the hook"), dog.waiting():
        raise ValueError("in the hook")
    with dog.waiting():
        hang_in_the_hook(2 * TIMEOUT_S)
    assert not caplog.records


def test_only_the_first_wait_may_be_limited(made: MakeWatchdog, caplog: pytest.LogCaptureFixture) -> None:
    dog = made(None, TIMEOUT_S)
    with dog.waiting():
        hang_until_reported(caplog)
    assert len(caplog.records) == 1
    with dog.waiting():
        hang_in_the_hook(2 * TIMEOUT_S)
    assert len(caplog.records) == 1


def test_an_error_of_the_body_is_raised(made: MakeWatchdog) -> None:
    with pytest.raises(StopIteration), made(fail=True).waiting():
        next(iter(()))


# ------------------------------------------------------------------------------------------------------ the thread


def test_without_limits_there_is_no_thread(made: MakeWatchdog) -> None:
    dog = made(None, None)
    with dog.waiting():
        assert dog._thread is None


def test_the_thread_begins_with_the_first_wait_and_ends_when_the_watchdog_is_closed(
    made: MakeWatchdog,
) -> None:
    dog = made(LONG_S, LONG_S)
    assert dog._thread is None
    with dog.waiting():
        thread = made_thread(dog)
        assert thread in thread_of()
    dog.close()
    assert made_thread(dog) is thread
    thread.join(timeout=LONG_S)
    assert not thread.is_alive()


def test_the_thread_sleeps_no_longer_than_until_the_wait_is_overdue(made: MakeWatchdog) -> None:
    dog = made(LONG_S, LONG_S)
    with dog.waiting():
        time.sleep(0.1)
        assert dog.check() <= LONG_S - 0.1
    assert dog.check() == LONG_S


def test_the_thread_ends_when_the_watchdog_is_freed() -> None:
    dog = Watchdog(100 * LONG_S, 100 * LONG_S, board=WorkerBoard(1))
    with dog.waiting():
        pass
    thread, gone = dog._thread, weakref.ref(dog)
    assert thread is not None
    del dog
    gc.collect()
    assert gone() is None
    thread.join(timeout=LONG_S)
    assert not thread.is_alive()


# ------------------------------------------------------------------------------------------------- what is reported


def test_describe_names_the_last_sample(made: MakeWatchdog, caplog: pytest.LogCaptureFixture) -> None:
    with made(describe=lambda worker: f"'a.tar/0001' of worker {worker}").waiting():
        hang_until_reported(caplog)
    assert "last sample started: 'a.tar/0001' of worker 0" in caplog.text


def test_an_error_in_describe_does_not_hide_the_hang(made: MakeWatchdog, caplog: pytest.LogCaptureFixture) -> None:
    def describe(worker: Any) -> None:
        raise OSError("the index is gone")

    with made(describe=describe).waiting():
        hang_until_reported(caplog)
    assert "position 7 of lane 3 (no shard and key: the index is gone)" in caplog.text


def test_the_owner_of_describe_is_freed_without_garbage_collection() -> None:
    class Owner:
        def __init__(self) -> None:
            self.dog = Watchdog(LONG_S, LONG_S, board=WorkerBoard(1), describe=self.describe)

        def describe(self, worker: Any) -> Any:
            return "a sample"

    owner = Owner()
    with owner.dog.waiting():
        pass
    gone = weakref.ref(owner)
    gc.disable()
    try:
        del owner
        deadline = time.monotonic() + LONG_S
        while gone() is not None and time.monotonic() < deadline:
            time.sleep(0.01)  # the thread may hold a reference for a moment
        assert gone() is None
    finally:
        gc.enable()
