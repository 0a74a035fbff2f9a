"""Stacks of worker processes that do not answer, or that crash."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from loader.training.workers import stack_dump
from loader.training.workers.stack_dump import WATCHDOG_SIGNAL, crash_stack, take_stack_dump
from loader.training.workers.worker_board import LastSampleBoard
from tests.unit.training import real_workers as hooks
from tests.unit.training.real_workers import workers


@pytest.fixture
def short_wait(monkeypatch):
    monkeypatch.setattr(stack_dump, "_WAIT_S", 0.3)


def stack_inside(hook, started, worker=0):
    """The stack of a worker once it is in its hook."""
    stack = take_stack_dump(started.board, worker)
    while f"in {hook.__name__}\n" not in stack:
        assert started.processes[worker].is_alive()
        stack = take_stack_dump(started.board, worker)
    return stack


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("hook", [hooks.sleep_beside_a_thread, hooks.be_stuck_in_c_code])
def test_a_worker_that_hangs_writes_its_stack(method, hook):
    with workers(hook, method=method) as started:
        stack = stack_inside(hook, started)
        assert stack.startswith(("Current thread", "Stack")), "the thread that works comes first"
        assert started.processes[0].is_alive()


def test_each_dump_is_read_once():
    with workers(hooks.sleep_in_the_hook) as started:
        stack_inside(hooks.sleep_in_the_hook, started)
        assert take_stack_dump(started.board, 0).count("in sleep_in_the_hook") == 1


def test_the_stack_of_the_worker_that_is_asked_comes():
    with workers(hooks.sleep_in_the_hook, hooks.wait_for_a_word) as started:
        assert "sleep_in_the_hook" not in stack_inside(hooks.wait_for_a_word, started, 1)
        assert "wait_for_a_word" not in stack_inside(hooks.sleep_in_the_hook, started, 0)


def test_a_worker_that_is_stopped_gives_no_stack(short_wait):
    with workers(hooks.be_stopped) as started:
        os.waitid(os.P_PID, started.processes[0].pid, os.WSTOPPED | os.WNOWAIT)
        assert take_stack_dump(started.board, 0) is None


def test_a_worker_that_is_not_prepared_for_the_signal_does_not_get_it():
    with workers(hooks.sleep_in_the_hook, registers=False) as started:
        assert take_stack_dump(started.board, 0) is None
        assert started.processes[0].is_alive()


def test_a_worker_that_has_ended_gives_no_stack():
    with workers(hooks.end_well) as started:
        started.processes[0].join()
        assert take_stack_dump(started.board, 0) is None
    assert take_stack_dump(LastSampleBoard(1), 0) is None, "nor does one that has not begun"


def test_a_crash_is_written_where_the_trainer_has_taken_the_handler_away():
    faulthandler.enable(file=sys.__stderr__)
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # as Lightning does at the end of a training
    try:
        with workers(hooks.crash_in_c_code) as started:
            started.processes[0].join()
            assert "in crash_in_c_code\n" in crash_stack(started.board, 0)
    finally:
        faulthandler.disable()
        faulthandler.enable(file=sys.__stderr__)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_worker_that_crashes_has_written_its_stack(method):
    with workers(hooks.crash_in_c_code, method=method) as started:
        started.processes[0].join()
        stack = crash_stack(started.board, 0)
        assert stack.startswith("Fatal Python error: Segmentation fault")
        assert "in crash_in_c_code\n" in stack
        assert "Extension modules" not in stack


def test_a_dump_of_a_hang_is_not_taken_for_one_of_a_crash():
    with workers(hooks.sleep_in_the_hook) as started:
        take_stack_dump(started.board, 0)
        assert crash_stack(started.board, 0) is None


def catches(pid, number):
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_the_signal_does_not_hide_how_a_worker_ended():
    # At its end Python takes faulthandler's handlers away; a forked process leaves without that.
    with workers(hooks.take_a_second_to_leave, method="spawn") as started:
        process = started.processes[0]
        assert catches(process.pid, WATCHDOG_SIGNAL)
        while catches(process.pid, WATCHDOG_SIGNAL):
            time.sleep(0.01)
        os.kill(process.pid, WATCHDOG_SIGNAL)
        process.join()
        assert process.exitcode == 1


def test_nobody_else_uses_the_signal():
    assert WATCHDOG_SIGNAL not in {signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
