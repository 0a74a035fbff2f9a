"""Calls in several threads of one process, as on Dask."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from loader.mapping.call_limit import CallLimit, TaskCalls
from loader.mapping.user_call import CallEndedError
from tests.processes import wait_until

OTHER_PROCESS = 1


def limit_of(folder: Path) -> CallLimit:
    return CallLimit(folder=str(folder), is_repeated=True, command=OTHER_PROCESS)


def end_in_call(limit: CallLimit, first: int, sample_index: int) -> None:
    """Leave the note of a process that ends in a call of a task."""
    numbers = (sample_index, 1)
    Path(limit.path(first, f"{limit.run}.call")).write_bytes(b"".join(n.to_bytes(8, "little") for n in numbers))


def test_a_call_that_ended_a_process_runs_alone_so_that_its_next_end_blames_no_other(tmp_path: Path) -> None:
    limit, entered = limit_of(tmp_path), threading.Event()
    end_in_call(limit, 8, 9)

    def call_again() -> None:
        with closing(TaskCalls(limit, 8)) as calls, calls.limited(9):
            entered.set()

    def call_next_to_it() -> None:
        with closing(TaskCalls(limit, 0)) as other:
            thread = threading.Thread(target=call_again)
            with other.limited(3):
                thread.start()
                wait_until((tmp_path / "8.deaths").exists)
                assert not entered.wait(0.1)
            thread.join()
            assert entered.is_set()
            with other.limited(4):
                pass

    with ThreadPoolExecutor(1) as executor:
        executor.submit(call_next_to_it).result()
    assert [path.name for path in tmp_path.iterdir()] == ["8.deaths"]


def test_the_next_process_of_a_task_passes_over_a_call_that_ended_two_of_this_command(tmp_path: Path) -> None:
    limit = limit_of(tmp_path)
    for earlier in (limit_of(tmp_path), limit_of(tmp_path), limit, limit):
        with closing(TaskCalls(limit, 0)) as calls, calls.limited(3):
            pass
        end_in_call(earlier, 0, 3)
    with (
        closing(TaskCalls(limit, 0)) as calls,
        pytest.raises(CallEndedError, match="the process of the call ended"),
        calls.limited(3),
    ):
        pass
