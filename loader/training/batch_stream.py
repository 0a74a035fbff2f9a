"""The micro-batches of one rank, made in its worker processes or in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import WorkerError
from ..pipeline.packed_error import PackedError, raise_packed
from ..pipeline.randomness import kept_generators
from .lane_host import LaneHost, Message
from .last_sample import LastSampleBoard
from .sample_place import sample_at
from .watchdog import Watchdog
from .worker_bundles import StreamOptions, WorkerBundles
from .worker_death import worker_died_error

__all__ = ["BatchStream"]


class BatchStream:
    """One run through a rank's micro-batches; gives them with the states of their lanes.

    Args:
        host: What the workers do.
        options: How.
    """

    def __init__(self, host: LaneHost, options: StreamOptions) -> None:
        self._host = host
        self._board = LastSampleBoard(max(1, host.workers))
        self._watchdog = Watchdog(
            options.timeout_s,
            options.initial_timeout_s,
            fail=options.fail_on_timeout,
            board=self._board,
            describe=self._last_sample,
        )
        self._source = WorkerBundles(host, self._board, options) if host.workers else None
        self._here = self._in_this_process() if self._source is None else iter(())

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """Give the rank's next micro-batch, or :data:`~loader.pipeline.stage.SKIPPED` in its place.

        Raises:
            StopIteration: The pass is over.
            WorkerError: A worker process died, or hangs and is not to be waited for.
            Exception: What stopped the run in a worker.
        """
        while True:
            message = self._next_here() if self._source is None else self._next_of_workers(self._source)
            if isinstance(message, PackedError):
                self.close()
                raise_packed(message)
            if message is not None:
                return message

    def _next_here(self) -> Message | PackedError | None:
        try:
            with self._watchdog.waiting(0):
                return next(self._here)
        except WorkerError:
            self.close()
            raise

    def _next_of_workers(self, source: WorkerBundles) -> Message | PackedError | None:
        worker = source.worker_in_turn()
        if worker is None:
            raise StopIteration
        while not source.has_of(worker):
            try:
                with self._watchdog.waiting(source.awaited_worker()):
                    source.receive()
            except WorkerError:  # the watchdog gave one up; the others must not stay
                self.close()
                raise
            except RuntimeError as error:
                died = worker_died_error(source.processes(), self._board, self._last_sample)
                if died is None:
                    raise
                self.close()
                raise died from error
        return source.take(worker)

    def _in_this_process(self) -> Iterator[Message | None]:
        messages = self._host.messages(0, self._board.slot(0))
        if not self._host.dataset.runs_user_code:
            yield from messages
            return
        while True:
            # The generators are the trainer's own: what the chain's user code draws must not move them.
            with kept_generators():
                message = next(messages, _END)
            if message is _END:
                return
            yield message

    def _last_sample(self, worker: int) -> str:
        noted = self._board.read(worker)
        if noted is None:
            return "none"
        name = sample_at(self._host.dataset, self._host.lanes, noted.lane, noted.position)
        return str(noted) if name is None else f"{name}, {noted}"

    def close(self) -> None:
        """End the worker processes; there is nothing more to come."""
        self._watchdog.close()
        self._here = iter(())
        if self._source is not None:
            self._source.close()


_END: Any = object()
