"""The error for a worker that died names it, how it ended, and what it was at."""

from __future__ import annotations

import pytest

from loader.errors import WorkerError
from loader.training.workers.worker_death import worker_died_error
from tests.unit.training import real_workers as hooks
from tests.unit.training.real_workers import workers


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("hook", "how", "hint"),
    [
        (hooks.be_killed, "was killed by SIGKILL", "memory runs out"),
        (hooks.crash_in_c_code, "was killed by SIGSEGV", "library written in C"),
        (hooks.be_ended_by_a_nameless_signal, "was killed by signal ", "see what the process printed"),
        (hooks.leave, "ended with exit code 4 ", "see what the process printed"),
    ],
)
def test_it_says_which_worker_ended_how_and_where(method, hook, how, hint):
    with workers(hooks.wait_for_a_word, hook, method=method) as started:
        started.processes[1].join()
        error = worker_died_error(started.processes, started.board)
    assert isinstance(error, WorkerError)
    assert error.message.startswith(f"worker process 1 (pid {started.processes[1].pid}) {how}")
    assert error.at == "the last sample it began is the sample at position 7 of lane 3"
    assert hint in error.hint


def test_the_stack_of_a_crash_comes_with_it():
    with workers(hooks.crash_in_c_code) as started:
        started.processes[0].join()
        error = worker_died_error(started.processes, started.board)
    assert "in crash_in_c_code" in error.__notes__[0]


def test_while_all_are_alive_it_is_something_else():
    with workers(hooks.wait_for_a_word) as started:
        assert worker_died_error(started.processes, started.board) is None


def test_the_worker_that_failed_is_named_before_one_that_ended_well():
    with workers(hooks.end_well, hooks.be_killed) as started:
        for process in started.processes:
            process.join()
        error = worker_died_error(started.processes, started.board, lambda worker: f"'a.tar/{worker}'")
    assert error.message.endswith("was killed by SIGKILL; 1 more ended, too")
    assert error.at == "the last sample it began is 'a.tar/1'"


def test_a_worker_that_ended_well_too_early_is_named():
    with workers(hooks.end_well) as started:
        started.processes[0].join()
        error = worker_died_error(started.processes, started.board)
    assert error.message.endswith("ended with exit code 0 in the middle of its work")
