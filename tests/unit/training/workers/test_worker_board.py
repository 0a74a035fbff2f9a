"""Breadcrumbs and stacks of worker processes that hang or crash."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.training.workers import worker_board
from loader.training.workers.worker_board import WATCHDOG_SIGNAL, WorkerBoard, read_crash_stack, request_stack
from tests.unit.training import real_workers as hooks
from tests.unit.training.real_workers import Workers, workers


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_the_last_sample_and_process_of_a_killed_worker_can_be_read(method: str) -> None:
    with workers(hooks.end_well, hooks.be_killed, method=method) as started:
        started.processes[1].join()
        recorded = started.board.read(1)
        assert recorded is not None
        assert (recorded.lane, recorded.position) == (3, 7)
        assert started.board.cells[1].pid == started.processes[1].pid


def test_the_board_is_empty_before_a_worker_begins() -> None:
    board = WorkerBoard(2)
    board.slot(0)
    assert (board.read(0), board.read(1), board.cells[1].pid) == (None, None, 0)
    assert board.cells[0].pid == os.getpid()


def test_workers_do_not_write_to_each_others_slots() -> None:
    board = WorkerBoard(3)
    for worker in range(3):
        board.slot(worker).note(worker, 2**40 + worker)
    found = [board.read(worker) for worker in range(3)]
    assert [recorded and (recorded.lane, recorded.position) for recorded in found] == [
        (worker, 2**40 + worker) for worker in range(3)
    ]


def test_readers_of_more_paths_than_are_kept_are_recorded_in_any_order() -> None:
    board = WorkerBoard(2)
    slot = board.slot(1)
    slot.note_lane(5)
    paths = ["", *(f"{place}/{place % 7}/" for place in range(1, 2000)), "9" * 200 + "/"]
    notes = {path: slot.note_positions_at(path) for path in paths}
    for path in [*paths, *reversed(paths), "1999/4/", "1/1/", "1999/4/", "1998/3/"]:
        again = slot.note_positions_at(path) if path else slot.note_position
        for note in (notes[path], again):
            note(2**47 + len(path))
            found = board.read(1)
            assert found is not None
            assert (found.lane, found.position, found.path) == (5, 2**47 + len(path), path[:128])
    assert board.read(0) is None
    board.begin_again(1)
    assert board.read(1) is None


@pytest.mark.parametrize("worker", [-1, 2])
def test_there_is_no_slot_beyond_the_workers(worker: int) -> None:
    with pytest.raises(IndexError, match=rf"expected a worker of \[0, 2\), found {worker}"):
        WorkerBoard(2).slot(worker)


def test_a_board_goes_only_to_processes_that_are_being_started() -> None:
    with pytest.raises(RuntimeError, match="only be shared between processes through inheritance"):
        pickle.dumps(WorkerBoard(1))


def test_a_board_leaves_no_open_files() -> None:
    board = WorkerBoard(4)
    del board
    gc.collect()
    before = os.listdir("/dev/fd")  # with the shared memory, which is kept for the next board
    board = WorkerBoard(4)
    assert len(os.listdir("/dev/fd")) >= len(before) + 4
    del board
    gc.collect()
    assert len(os.listdir("/dev/fd")) <= len(before)


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_board, "_WAIT_S", 0.3)


def request_some_stack(board: WorkerBoard, worker: int) -> str:
    stack = request_stack(board, worker)
    assert stack is not None
    return stack


def stack_inside(hook: Callable[..., Any], started: Workers, worker: int = 0) -> str:
    """Return the stack of a worker once it is in its hook."""
    stack = request_some_stack(started.board, worker)
    while f"in {hook.__name__}\n" not in stack:
        assert started.processes[worker].is_alive()
        stack = request_some_stack(started.board, worker)
    return stack


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("hook", "innermost"),
    [
        (hooks.sleep_while_a_thread_runs, hooks.sleep_in_the_hook),
        (hooks.be_stuck_in_c_code, hooks.be_stuck_in_c_code),
    ],
)
def test_a_worker_that_hangs_writes_its_stack(
    method: str, hook: Callable[..., Any], innermost: Callable[..., Any]
) -> None:
    with workers(hook, method=method) as started:
        stack = stack_inside(innermost, started)
        assert stack.startswith(("Current thread", "Stack")), "the thread that works comes first"
        assert started.processes[0].is_alive()


def test_each_dump_is_read_once() -> None:
    with workers(hooks.sleep_in_the_hook) as started:
        stack_inside(hooks.sleep_in_the_hook, started)
        assert request_some_stack(started.board, 0).count("in sleep_in_the_hook") == 1


def test_each_worker_writes_its_own_stack() -> None:
    with workers(hooks.sleep_in_the_hook, hooks.wait_for_a_message) as started:
        assert "sleep_in_the_hook" not in stack_inside(hooks.wait_for_a_message, started, 1)
        assert "wait_for_a_message" not in stack_inside(hooks.sleep_in_the_hook, started, 0)


def test_a_worker_that_is_stopped_gives_no_stack(short_wait: Any) -> None:
    with workers(hooks.be_stopped) as started:
        os.waitid(os.P_PID, started.processes[0].pid, os.WSTOPPED | os.WNOWAIT)
        assert request_stack(started.board, 0) is None


def test_a_worker_that_is_not_prepared_for_the_signal_does_not_get_it() -> None:
    with workers(hooks.sleep_in_the_hook, registers=False) as started:
        assert request_stack(started.board, 0) is None
        assert started.processes[0].is_alive()


def test_a_worker_that_has_ended_gives_no_stack() -> None:
    with workers(hooks.end_well) as started:
        started.processes[0].join()
        assert request_stack(started.board, 0) is None
    assert request_stack(WorkerBoard(1), 0) is None, "nor does one that has not begun"


def test_a_crash_is_written_although_the_trainer_removed_the_handler() -> None:
    faulthandler.enable(file=2)
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # as Lightning does at the end of a training
    try:
        with workers(hooks.crash_in_c_code) as started:
            started.processes[0].join()
            stack = read_crash_stack(started.board, 0)
            assert stack is not None
            assert "in crash_in_c_code\n" in stack
    finally:
        faulthandler.disable()
        faulthandler.enable(file=2)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_worker_that_crashes_has_written_its_stack(method: str) -> None:
    with workers(hooks.crash_in_c_code, method=method) as started:
        started.processes[0].join()
        stack = read_crash_stack(started.board, 0)
        assert stack is not None
        assert stack.startswith("Fatal Python error: Segmentation fault")
        assert "in crash_in_c_code\n" in stack
        assert "Extension modules" not in stack


def test_a_dump_of_a_hang_is_not_taken_for_one_of_a_crash() -> None:
    with workers(hooks.sleep_in_the_hook) as started:
        request_stack(started.board, 0)
        assert read_crash_stack(started.board, 0) is None


def catches(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_the_signal_does_not_hide_how_a_worker_ended() -> None:
    # Python removes faulthandler's handlers at its exit; a forked process exits without that.
    with workers(hooks.take_a_second_to_leave, method="spawn") as started:
        process = started.processes[0]
        assert catches(process.pid, WATCHDOG_SIGNAL)
        while catches(process.pid, WATCHDOG_SIGNAL):
            time.sleep(0.01)
        os.kill(process.pid, WATCHDOG_SIGNAL)
        process.join()
        assert process.exitcode == 1


def test_the_signal_is_not_a_common_one() -> None:
    assert WATCHDOG_SIGNAL not in {signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
