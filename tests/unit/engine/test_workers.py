"""Results as they arrive, errors of functions, killed workers, and workers without a parent."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from loader.engine import run, workers as worker_pool
from loader.engine.run import Engine
from loader.errors import FormatError, WorkerError


@pytest.fixture(params=["forked", "spawned"])
def start_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with forked workers and with spawned ones, as if this process has threads."""
    method: str = request.param
    monkeypatch.setattr(worker_pool, "_has_one_thread", lambda: method == "forked")
    return method


def squared(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def fail_on_three(number: int) -> int:
    if number == 3:
        raise FormatError("it is three", shard="a.tar", offset=3)
    return number


def die_on_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leave_on_three(number: int) -> int:
    if number == 3:
        os._exit(7)
    return number


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_are_not_forked_where_torch_is_loaded_or_other_threads_are(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if threads == 1:
        monkeypatch.setitem(sys.modules, "torch", multiprocessing)
    else:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(threading, "active_count", lambda: threads)  # plugins of pytest may have threads
    monkeypatch.setattr(worker_pool, "_has_one_thread", inspect.unwrap(worker_pool._has_one_thread))
    monkeypatch.setitem(globals(), "_PARENT", os.getpid())
    assert [parent for _, parent in Engine(workers=2).run(inherited_parent, range(4))] == [None] * 4


def test_workers_are_not_forked_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "_has_one_thread", lambda: True)
    monkeypatch.setattr(worker_pool, "_MAY_FORK", False)
    monkeypatch.setitem(globals(), "_PARENT", os.getpid())
    assert [parent for _, parent in Engine(workers=2).run(inherited_parent, range(4))] == [None] * 4


_PARENT: int | None = None  # set by the tests above; only a forked worker has the value


def inherited_parent(_: int) -> int | None:
    return _PARENT


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_are_there_when_the_call_returns_and_inherit_no_file_opened_later(
    start_method: str, tmp_path: Path
) -> None:
    with closing(Engine(workers=2).run(open_paths, range(4))) as results:
        assert len(multiprocessing.active_children()) == 2
        with open(tmp_path / "later", "w"):
            found = [paths for _, paths in results]
    assert len(found) == 4
    assert not any("later" in path for paths in found for path in paths)


def open_paths(_: int) -> list[str]:
    paths = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
    return paths


@pytest.mark.parametrize("workers", [1, 2, pytest.param(5, marks=pytest.mark.slow)])
def test_every_item_is_done_once(start_method: str, workers: int) -> None:
    results = dict(Engine(workers=workers).run(squared, range(40)))
    assert {number: result for number, (result, _) in results.items()} == {n: n * n for n in range(40)}
    assert (os.getpid() in {process for _, process in results.values()}) == (workers == 1)
    assert multiprocessing.active_children() == []


def test_no_items_and_one_worker_need_no_other_process() -> None:
    assert list(Engine(workers=4).run(squared, [])) == []
    assert list(Engine(workers=1).run(squared, [3])) == [(0, (9, os.getpid()))]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_function_comes_with_its_fields(start_method: str, workers: int) -> None:
    with pytest.raises(FormatError) as caught:
        list(Engine(workers=workers).run(fail_on_three, range(10)))
    assert (caught.value.shard, caught.value.offset) == ("a.tar", 3)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("function", "how"), [(die_on_three, "was killed by signal 9"), (leave_on_three, "ended with code 7")]
)
def test_a_worker_that_dies_is_named_with_what_it_was_at(
    start_method: str, function: Callable[[int], int], how: str
) -> None:
    with pytest.raises(WorkerError, match=f"a worker process {how} while it worked on 3"):
        list(Engine(workers=2).run(function, range(40)))
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.sampled(2)
def test_a_process_that_the_function_forks_adds_no_result(start_method: str, workers: int) -> None:
    results = [*Engine(workers=workers).run(fork_and_return, range(6))]
    assert sorted(results) == [(number, number) for number in range(6)]


def fork_and_return(number: int) -> int:
    os.fork()
    return number


def be_ended_at_the_fork(results: Connection) -> None:
    """Start workers that get SIGTERM before they have begun, in a process that handles it."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
    worker_pool._has_one_thread = lambda: True
    try:
        list(Engine(workers=2).run(squared, range(4)))
    except WorkerError as error:
        results.send(str(error))
    else:
        results.send("the workers have ignored the signal")


def test_a_worker_that_is_to_end_while_it_starts_ends() -> None:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=be_ended_at_the_fork, args=(theirs,))
    process.start()
    assert ours.poll(60)
    assert "was killed by signal 15" in ours.recv()
    process.join(60)
    ours.close()
    theirs.close()


def test_leaving_early_ends_workers_at_once(start_method: str) -> None:
    with closing(Engine(workers=2).run(time.sleep, [0, 0, 600, 600, 600])) as results:
        next(results)
    assert multiprocessing.active_children() == []


def test_a_worker_that_died_idle_is_named_with_what_it_was_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    items = ["first", "second"]
    start = worker_pool._Pool.start_workers

    def start_and_kill(pool: worker_pool._Pool, *arguments: Any) -> None:
        start(pool, *arguments)
        for process in pool._processes.values():
            process.kill()
            process.join()

    monkeypatch.setattr(worker_pool._Pool, "start_workers", start_and_kill)
    with pytest.raises(WorkerError, match="was killed by signal 9 while it worked on first"):
        worker_pool.stream_from_workers(partial(run._single_result, len), items, worker_pool.WorkerOptions(workers=2))


@pytest.mark.parametrize("dies", ["waiting", "with answers unread"])
def test_a_worker_leaves_when_its_parent_is_gone(dies: str) -> None:
    ours, theirs = multiprocessing.Pipe()
    others, unused = multiprocessing.Pipe()
    function = partial(run._single_result, len)
    target, arguments = worker_pool._serve, (function, theirs, [ours, others])
    child = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    child.start()
    theirs.close()
    for item in ("a", "ab", "abc"):
        ours.send(item)
    if dies == "waiting":
        assert [ours.recv() for _ in range(6)] == [(None, found) for size in (1, 2, 3) for found in ([size], [])]
    ours.close()
    child.join(timeout=30)
    assert child.exitcode == 0
    others.close()
    unused.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_another_thread_stops_the_work_at_once(workers: int) -> None:
    stop = threading.Event()
    results = Engine(workers=workers, is_stopped=stop.is_set).run(time.sleep, [0.0, 0.0, 3600.0, 3600.0])
    assert {next(results)[0], next(results)[0]} == {0, 1}  # so all workers have started
    stop.set()
    with pytest.raises(worker_pool.StoppedError):
        next(results)
    assert multiprocessing.active_children() == []
