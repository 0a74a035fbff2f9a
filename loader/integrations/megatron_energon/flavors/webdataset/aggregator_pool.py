"""Worker processes that make items of tasks, and an aggregator in this process that receives them in order."""

import pickle
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Generic, TypeVar

__all__ = ["AggregatorPool", "BaseAggregator"]

T_input_data = TypeVar("T_input_data")
T_aggregation_data = TypeVar("T_aggregation_data")
T_result = TypeVar("T_result")

_produce: list[Callable[[Any], Iterable[Any]]] = []  # of a worker process


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
        self._tasks: deque[T_input_data] = deque()

    def submit_task(self, task: T_input_data) -> None:
        """Add a task; the aggregator may add some, too."""
        self._tasks.append(task)

    def process(self) -> T_result:
        """Work on the tasks, and return the result of the aggregator.

        Raises:
            Exception: The error of a task or of the aggregator, which ends the work.
            concurrent.futures.process.BrokenProcessPool: A process was killed.
        """
        self.aggregator.on_start(self)
        if self.num_workers:
            with ProcessPoolExecutor(
                self.num_workers, get_context("fork"), initializer=_produce.append, initargs=(self.user_produce_data,)
            ) as workers:
                self._aggregate(workers)
        else:
            while self._tasks:
                self._pass_on(list(self.user_produce_data(self._tasks.popleft())))
        self.aggregator.on_finish(self)
        return self.aggregator.get_final_result_data()

    def _aggregate(self, workers: ProcessPoolExecutor) -> None:
        waiting: deque[Future[list[T_aggregation_data]]] = deque()
        try:
            while self._tasks or waiting:
                while self._tasks:
                    waiting.append(workers.submit(_items_of, self._tasks.popleft()))
                self._pass_on(waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()

    def _pass_on(self, items: list[T_aggregation_data]) -> None:
        for start in range(0, len(items), self.batch_size):
            self.aggregator.on_item(items[start : start + self.batch_size], self)


def _items_of(task: Any) -> list[Any]:
    try:
        return list(_produce[-1](task))
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - its own
        except Exception:  # noqa: BLE001 - of the error's own class
            raise RuntimeError("".join(traceback.format_exception(error))) from None
        raise
