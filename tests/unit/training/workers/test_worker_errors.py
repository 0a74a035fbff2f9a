"""Errors of workers arrive whole, and a dead worker is named with its last sample."""

from __future__ import annotations

import copyreg
import multiprocessing
import pickle
import threading
import traceback
from typing import Any

import pytest
from tblib import pickling_support

from loader.errors import ConfigError, Fault, FormatError, SampleError, WorkerError
from loader.training.workers.dead_worker import worker_died_error
from loader.training.workers.worker_errors import pack_error, raise_packed
from tests.unit.training import real_workers as hooks
from tests.unit.training.real_workers import workers


class OfTwoArgumentsError(Exception):
    def __init__(self, key: str, *, size: int) -> None:
        super().__init__(f"{key} has {size} bytes")
        self.key = key
        self.size = size


class OfItsOwnTextError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def __str__(self) -> Any:
        return f"text of {self.key}"


class AddsToItsTextError(Exception):
    """An exception whose ``__init__`` accepts its ``args``, but changes the text."""

    def __init__(self, key: str) -> None:
        super().__init__(f"bad {key}")


class HasNoTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def sent(error: BaseException, worker: int | None = 1) -> Any:
    """Return the error that arrives in another process; every packed error must pickle."""
    packed = pickle.loads(pickle.dumps(pack_error(error, worker=worker)))
    try:
        raise_packed(packed)
    except BaseException as arrived:  # noqa: BLE001 - whatever it is
        return arrived


ERRORS = [
    ValueError("no caption"),
    KeyError("txt"),
    FileNotFoundError(2, "No such file", "/ds/a.tar"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    SampleError("part 'jpg' is no image", key="a.tar/1", part="jpg", source="a.tar, bytes 0–3", hint="exclude it"),
    FormatError("a header is damaged", shard="a.tar", offset=512),
    ConfigError(file="split.yaml", faults=[Fault(place="train", message="is empty")]),
    OfTwoArgumentsError("a.tar/1", size=3),
    OfItsOwnTextError("a.tar/1"),
    AddsToItsTextError("a.tar/1"),
    KeyboardInterrupt(),
    ExceptionGroup("two", [ValueError("one"), TypeError("other")]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_type_text_and_fields_arrive(error: Any) -> None:
    arrived = sent(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert arrived.args == error.args or isinstance(error, ExceptionGroup)
    fields = {name: value for name, value in vars(arrived).items() if name != "__notes__"}
    assert fields == {name: value for name, value in vars(error).items() if name != "__notes__"}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_arrive_in_programs_that_import_dask(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # tblib registers its functions for each class of exceptions when Dask imports it.
    for kind in (type(error), *type(error).__mro__):
        monkeypatch.setitem(copyreg.dispatch_table, kind, pickling_support.pickle_exception)
    test_type_text_and_fields_arrive(error)


def test_fields_that_c_code_stores_arrive() -> None:
    arrived = sent(FileNotFoundError(2, "No such file", "/ds/a.tar"))
    assert (arrived.errno, arrived.filename) == (2, "/ds/a.tar")


def users_hook() -> None:
    raise ValueError("in the hook")


def test_the_traceback_of_the_worker_is_printed_with_the_error() -> None:
    with pytest.raises(ValueError, match="in the hook") as caught:
        users_hook()
    arrived = sent(caught.value, worker=3)
    printed = "".join(traceback.format_exception(arrived))
    assert "in worker process 3:\n  Traceback (most recent call last):" in printed
    assert "in users_hook\n" in printed
    assert "in the worker process:\n" in "".join(traceback.format_exception(sent(ValueError(), worker=None)))


def test_notes_of_the_worker_arrive_before_its_traceback() -> None:
    error = ValueError("x")
    error.add_note("raised by encode_sample")
    assert sent(error).__notes__[0] == "raised by encode_sample"
    assert error.__notes__ == ["raised by encode_sample"]


def test_causes_arrive_with_their_types_and_fields() -> None:
    error = SampleError("encode failed", key="k")
    error.__cause__ = OfTwoArgumentsError("k", size=3)
    error.__cause__.__context__ = KeyError("txt")
    arrived = sent(error)
    assert arrived.__cause__.size == 3
    assert isinstance(arrived.__cause__.__cause__, KeyError)
    assert arrived.__cause__.__cause__.__cause__ is None


def test_a_suppressed_context_stays_hidden() -> None:
    error = ValueError("x")
    error.__context__ = KeyError("hidden")
    error.__suppress_context__ = True
    assert sent(error).__cause__ is None


def test_circular_causes_arrive_once() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    arrived = sent(one)
    assert str(arrived.__cause__) == "other"
    assert arrived.__cause__.__cause__ is None


def test_an_error_that_does_not_pickle_arrives_as_text() -> None:
    class LocalError(Exception):
        pass

    arrived = sent(LocalError("no caption"))
    assert isinstance(arrived, WorkerError)
    assert str(arrived).startswith("a worker process raised ")
    assert "LocalError: no caption" in str(arrived)


def test_an_error_with_a_field_that_does_not_pickle_arrives_as_text_and_its_cause_whole() -> None:
    error = ValueError("x")
    vars(error)["lock"] = threading.Lock()
    error.__cause__ = KeyError("txt")
    arrived = sent(error)
    assert (type(arrived), str(arrived)) == (WorkerError, "a worker process raised ValueError: x")
    assert isinstance(arrived.__cause__, KeyError)


def test_an_error_without_a_text_arrives_as_text() -> None:
    assert "HasNoTextError" in str(sent(HasNoTextError()))


def test_an_error_of_a_module_that_only_the_worker_has_arrives_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack_error(OfItsOwnTextError("k"))
    monkeypatch.delitem(globals(), "OfItsOwnTextError")
    with pytest.raises(WorkerError, match=r"a worker process raised .*OfItsOwnTextError: text of k"):
        raise_packed(packed)


@pytest.mark.parametrize("error", [StopIteration(3), StopAsyncIteration(), GeneratorExit()])
def test_an_error_that_would_end_a_loop_unnoticed_arrives_as_text(error: Any) -> None:
    arrived = sent(error)
    assert type(arrived) is WorkerError
    assert type(error).__name__ in str(arrived)


def pack_in_a_worker(connection: Any) -> None:
    try:
        users_hook()
    except ValueError as error:
        connection.send(pack_error(error, worker=0))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_an_error_arrives_from_a_real_process(method: Any) -> None:
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=pack_in_a_worker, args=(theirs,))
    process.start()
    packed = ours.recv()
    process.join()
    with pytest.raises(ValueError, match="in the hook") as caught:
        raise_packed(packed)
    assert "in users_hook" in caught.value.__notes__[0]


# ------------------------------------------------------------------------------------------ workers that die


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("hook", "how", "hint"),
    [
        (hooks.be_killed, "was killed by SIGKILL", "memory runs out"),
        (hooks.crash_in_c_code, "was killed by SIGSEGV", "library written in C"),
        (hooks.be_notified, "was killed by SIGUSR1", "install its handlers before the first micro-batch"),
        (hooks.be_ended_by_a_nameless_signal, "was killed by signal ", "see what the process printed"),
        (hooks.leave, "ended with exit code 4 ", "see what the process printed"),
    ],
)
def test_the_error_names_the_worker_the_signal_and_the_last_sample(method: Any, hook: Any, how: Any, hint: Any) -> None:
    with workers(hooks.wait_for_a_message, hook, method=method) as started:
        started.processes[1].join()
        error = worker_died_error(1, started.processes[1], started.board)
    assert isinstance(error, WorkerError)
    assert error.message.startswith(f"worker process 1 (pid {started.processes[1].pid}) {how}")
    assert error.at == "last sample started: the sample at position 7 of lane 3"
    assert error.hint is not None
    assert hint in error.hint


def test_the_stack_of_a_crash_comes_with_it() -> None:
    with workers(hooks.crash_in_c_code) as started:
        started.processes[0].join()
        error = worker_died_error(0, started.processes[0], started.board)
    assert "in crash_in_c_code" in error.__notes__[0]


def test_the_error_names_the_last_sample_as_described() -> None:
    with workers(hooks.end_well, hooks.be_killed) as started:
        for process in started.processes:
            process.join()
        error = worker_died_error(1, started.processes[1], started.board, lambda worker: f"'a.tar/{worker}'")
    assert error.message.endswith("was killed by SIGKILL")
    assert error.at == "last sample started: 'a.tar/1'"


def test_a_worker_that_exited_with_0_too_early_is_named() -> None:
    with workers(hooks.end_well) as started:
        started.processes[0].join()
        error = worker_died_error(0, started.processes[0], started.board)
    assert error.message.endswith("ended with exit code 0 in the middle of its work")
    assert error.hint is not None
    assert error.hint.startswith("an interrupt (SIGINT, Ctrl-C) ends a worker with exit code 0")
