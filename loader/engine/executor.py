"""Run a function over many items in an executor, as results arrive."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from dataclasses import dataclass
from typing import Any

from ..errors import EnergonError, WorkerError, error_text
from .clusters import CONTINUES
from .workers import MAX_DEATHS, STOP_PERIOD_S, StoppedError

CHECK_PERIOD_S = 3.0  # between two checks whether the cluster is still there


@dataclass(frozen=True, slots=True)
class _SentFunction:
    """A pickled function, which each thread of a worker unpickles once and keeps, with what it caches.

    Attributes:
        data: The function.
        paths: Folders of the modules of the sending process, such as its working folder.
        sender: Host and number of the sending process.
    """

    data: bytes
    paths: tuple[str, ...]
    sender: tuple[str, int]

    def __repr__(self) -> str:
        return "energon_task"  # in names of tasks and in logs

    def __call__(self, item: Any) -> Any:
        kept, function = getattr(_UNPICKLED, "kept", (None, None))
        if kept != self or function is None:
            if self.sender != _process():
                sys.path.extend(path for path in self.paths if path not in sys.path)
            function = pickle.loads(self.data)  # noqa: S301 - of the program that sends tasks
            _UNPICKLED.kept = self, function
        return function(item)


_UNPICKLED = threading.local()
"""The function that a thread has called last: those of Dask workers may be several, and readers are for one."""


def _process() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


def _sent(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function for the tasks of an executor."""
    # Packages of clusters bring a pickle that takes functions of the main program, too.
    pickler = sys.modules.get("ray.cloudpickle") or sys.modules.get("cloudpickle") or pickle
    try:
        data = pickler.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return function  # threads of this process need no pickle
    return _SentFunction(data, tuple(os.path.abspath(path) for path in sys.path), _process())


def run_in_executor(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    executor: Executor,
    is_stopped: Callable[[], bool] | None,
    on_death: Callable[[Any, str], bool | None] | None,
) -> Generator[Any, None, None]:
    """Yield once when the tasks are submitted, then the index of an item and ``function(item)`` as results arrive.

    Closing the generator cancels tasks that have not started. The function and the items are pickled, and the executor
    is not shut down. Its method ``check_alive``, if it has one, is called every few seconds, and raises the error of a
    cluster that is lost. An executor that has started another worker for one that has ended fails the task with
    ``BrokenExecutor`` itself. For ``is_stopped`` and ``on_death`` see :class:`.Engine`.
    """
    sent = _sent(function)
    futures = {executor.submit(sent, item): (position, item) for position, item in enumerate(items)}
    pending, deaths = set(futures), Counter[int]()
    check_alive: Callable[[], None] | None = getattr(executor, "check_alive", None)
    try:
        yield None
        while pending:
            if is_stopped is not None and is_stopped():
                raise StoppedError
            if check_alive is not None:
                check_alive()
            # Wake up often only if the caller may stop the run.
            done, pending = wait(pending, CHECK_PERIOD_S if is_stopped is None else STOP_PERIOD_S, FIRST_COMPLETED)
            for future in done:
                position, item = futures[future]
                if future.cancelled():  # by the client of a scheduler
                    raise WorkerError("the cluster is lost: its scheduler has ended", hint=CONTINUES)
                try:
                    result = future.result()
                except EnergonError:
                    raise
                except BaseException as error:
                    # Dask has tried it some times, but it may have waited in workers that died for others.
                    name = type(error).__name__
                    if name == "BrokenExecutor" or (name == "KilledWorker" and on_death is not None):
                        deaths[position] += on_death is None or not on_death(item, "ended")
                        if deaths[position] < MAX_DEATHS:
                            pending.add(again := executor.submit(sent, item))
                            futures[again] = position, item
                            continue
                    raise WorkerError(
                        f"a task failed while it worked on {getattr(item, 'name', item)}: {error_text(error)}",
                        hint="check the workers' logs: they need this library, the path of the dataset and enough"
                        " memory; the next run resumes",
                    ) from error
                yield position, result
    finally:
        # Tasks that have not begun must not run after an error or an interrupt.
        for future in futures:
            future.cancel()
