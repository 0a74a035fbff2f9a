"""Worker processes that make items of tasks, and an aggregator in this process that receives them in order."""

import pickle
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Generic, TypeVar

from ..engine.workers import WorkerOptions, stream_from_workers

_SHOWN = 200  # characters of a task in an error

T_input_data = TypeVar("T_input_data")
T_aggregation_data = TypeVar("T_aggregation_data")
T_result = TypeVar("T_result")


class BaseAggregator(ABC, Generic[T_aggregation_data, T_result]):
    """Base of aggregators, which receive the items of all tasks."""

    def on_start(self, aggregator_pool: "AggregatorPool[Any, T_aggregation_data, T_result]") -> None:
        """Prepare for the first items."""

    @abstractmethod
    def on_item(
        self,
        items: list[T_aggregation_data],
        aggregator_pool: "AggregatorPool[Any, T_aggregation_data, T_result]",
    ) -> None:
        """Receive items of a task: as many as the pool's ``batch_size``, or the last ones."""

    def on_finish(self, aggregator_pool: "AggregatorPool[Any, T_aggregation_data, T_result]") -> None:
        """Finish after the last items."""

    def get_final_result_data(self) -> T_result:
        """Return the result of the pool; by default None."""
        return None  # type: ignore[return-value] # the type of an aggregator without a result


class AggregatorPool(Generic[T_input_data, T_aggregation_data, T_result]):
    """Produce the items of tasks in forked processes, and pass them to an aggregator in the order of the tasks.

    Args:
        num_workers: Number of processes; 0 makes the items in this one.
        user_produce_data: Returns the items of a task. It may be a generator or a closure.
        aggregator: Receives the items, in the process that calls :meth:`process`.
        batch_size: Items of a task that the aggregator receives together.
    """

    def __init__(
        self,
        num_workers: int,
        user_produce_data: Callable[[T_input_data], Iterable[T_aggregation_data]],
        aggregator: BaseAggregator[T_aggregation_data, T_result],
        *,
        batch_size: int = 1,
    ) -> None:
        self.num_workers = num_workers
        self.user_produce_data = user_produce_data
        self.aggregator = aggregator
        self.batch_size = batch_size
        self._tasks: list[T_input_data] = []

    def submit_task(self, task: T_input_data) -> None:
        """Add a task; the aggregator may add some, too."""
        self._tasks.append(task)

    def process(self) -> T_result:
        """Work on the tasks, and return the result of the aggregator.

        Raises:
            Exception: The error of a task or of the aggregator, which ends the work.
            WorkerError: A process died; the message names its exit code or signal, and its task.
        """
        self.aggregator.on_start(self)
        while tasks := self._tasks:
            self._tasks = []
            with closing(self._batches(tasks)) as batches:
                for items in batches:
                    self.aggregator.on_item(items, self)
        self.aggregator.on_finish(self)
        return self.aggregator.get_final_result_data()

    def _batches(self, tasks: Sequence[T_input_data]) -> Generator[list[T_aggregation_data], None, None]:
        if not self.num_workers:
            for task in tasks:
                yield from self._batches_of(task)
            return
        # Only names are sent to the workers, which a pipe always has space for: they inherit the tasks.
        named = {f"task {task_number}, {task!r}"[:_SHOWN]: task for task_number, task in enumerate(tasks)}

        def work(name: str) -> Generator[bytes, None, None]:
            # An error travels in place of items. An empty message ends the task.
            try:
                yield from map(pickle.dumps, self._batches_of(named[name]))
            except Exception as error:  # noqa: BLE001 - raised in the turn of its task
                yield _packed(error)
            yield b""

        # Workers finish in any order; the results of a task wait until its turn.
        options = WorkerOptions(workers=self.num_workers, apart=True)
        arrived, turn = [deque[bytes]() for _ in tasks], 0
        with closing(stream_from_workers(work, [*named], options)) as results:
            for task_number, packed in results:
                arrived[task_number].append(packed)
                while turn < len(tasks) and arrived[turn]:
                    if data := arrived[turn].popleft():
                        items = pickle.loads(data)  # noqa: S301 - its own
                        if isinstance(items, Exception):
                            raise items
                        yield items
                    else:
                        turn += 1

    def _batches_of(self, task: T_input_data) -> Iterable[list[T_aggregation_data]]:
        items = iter(self.user_produce_data(task))
        return iter(lambda: [*islice(items, self.batch_size)], [])


def _packed(error: Exception) -> bytes:
    text = "".join(traceback.format_exception(error))
    try:
        error.add_note(text)
        pickle.loads(packed := pickle.dumps(error))  # noqa: S301 - its own
    except Exception:  # noqa: BLE001 - of the error's own class
        return pickle.dumps(RuntimeError(text))
    return packed
