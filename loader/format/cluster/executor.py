"""Run a function over many items in an executor, in the order in which results arrive."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TypeVar

from ...errors import EnergonError, WorkerError
from ..worker_pool import STOP_PERIOD_S, StoppedError

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

    Args:
        function: Picklable function.
        items: Picklable items.
        executor: Runs the tasks; it is not shut down.
        is_stopped: Returns True when the work has to end.

    Raises:
        StoppedError: ``is_stopped`` returned True.
        WorkerError: A task was killed or failed; the message names its item.
        EnergonError: The function raised this error.
    """
    futures = {executor.submit(function, item): number for number, item in enumerate(items)}
    return _results(futures, items, is_stopped)


def _results(
    futures: dict[Future[_Result], int], items: Sequence[_Item], is_stopped: Callable[[], bool] | None
) -> Generator[tuple[int, _Result], None, None]:
    pending = set(futures)
    try:
        while pending:
            if is_stopped is not None and is_stopped():
                raise StoppedError
            done, pending = wait(pending, None if is_stopped is None else STOP_PERIOD_S, FIRST_COMPLETED)
            for future in done:
                number = futures[future]
                try:
                    result = future.result()
                except EnergonError:
                    raise
                except Exception as error:
                    item = items[number]
                    raise WorkerError(
                        f"a task failed while it worked on {getattr(item, 'name', item)}: {type(error).__name__}:"
                        f" {error}",
                        hint="check the workers' logs: they need this library, the path of the dataset and enough"
                        " memory; the next run resumes",
                    ) from error
                yield number, result
    finally:
        for future in futures:
            future.cancel()
