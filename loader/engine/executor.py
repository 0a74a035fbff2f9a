"""Run a function over many items in an executor, as results arrive; open the executors of Dask and Ray clusters."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from typing import TypeVar

from ..errors import ConfigError, EnergonError, WorkerError
from .workers import STOP_PERIOD_S, StoppedError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def run_in_executor(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    executor: Executor,
    *,
    is_stopped: Callable[[], bool] | None = None,
) -> Generator[tuple[int, _Result], None, None]:
    """Yield the index of an item and ``function(item)``, in the order in which results arrive.

    The tasks are submitted when this returns; closing the generator cancels those that have not started.

    The function and the items are pickled, and the executor is not shut down. When ``is_stopped`` returns True, a
    ``StoppedError`` ends the work.
    """
    futures = {executor.submit(function, item): position for position, item in enumerate(items)}
    return _results(futures, items, is_stopped)


def _results(
    futures: dict[Future[_Result], int], items: Sequence[_Item], is_stopped: Callable[[], bool] | None
) -> Generator[tuple[int, _Result], None, None]:
    pending = set(futures)
    try:
        while pending:
            if is_stopped is not None and is_stopped():
                raise StoppedError
            # Wake up periodically only if the caller may stop the run.
            done, pending = wait(pending, None if is_stopped is None else STOP_PERIOD_S, FIRST_COMPLETED)
            for future in done:
                position = futures[future]
                try:
                    result = future.result()
                except EnergonError:
                    raise
                except Exception as error:
                    item = items[position]
                    raise WorkerError(
                        f"a task failed while it worked on {getattr(item, 'name', item)}: {type(error).__name__}:"
                        f" {error}",
                        hint="check the workers' logs: they need this library, the path of the dataset and enough"
                        " memory; the next run resumes",
                    ) from error
                yield position, result
    finally:
        # Tasks that have not begun must not run after an error or an interrupt.
        for future in futures:
            future.cancel()


_CONNECT_S = 15  # a scheduler answers at once, unless its machine is busy
_WORKERS_S = 60  # a queue of jobs may start them later


@contextmanager
def open_dask_executor(scheduler: str) -> Iterator[Executor]:
    """Connect to a Dask cluster; its executor is valid in the block.

    Args:
        scheduler: Address (``tcp://host:8786``) or file of the scheduler.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigError(
            f"the engine dask needs the package distributed: {error}", hint="pip install 'energon-toolkit[dask]'"
        ) from error
    # Check what the user gave, before a connection is tried.
    is_file = os.path.exists(scheduler)
    if not (is_file or "://" in scheduler or re.search(r":\d+$", scheduler)):
        raise ConfigError(
            "this is no file of a Dask scheduler, and no address",
            at=scheduler,
            hint="give an address such as tcp://node1:8786, or the file that dask scheduler --scheduler-file writes",
        )
    # Connect, and wait for the first worker.
    try:
        client = Client(
            None if is_file else scheduler,
            scheduler_file=scheduler if is_file else None,
            timeout=_CONNECT_S,
            set_as_default=False,
        )
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise WorkerError(
            f"cannot connect to the Dask scheduler: {error}",
            at=scheduler,
            hint="check that it runs (dask scheduler) and that this machine reaches its port, or give the file that "
            "dask scheduler --scheduler-file wrote",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError as error:
            raise WorkerError(
                f"the Dask scheduler at {scheduler} has no workers after {_WORKERS_S} s",
                hint="start some: dask worker ADDRESS, or cluster.scale(64)",
            ) from error
        yield client.get_executor()
