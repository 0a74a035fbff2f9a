"""The micro-batches of one rank, made in its worker processes or in its own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import WorkerError
from ...pipeline.contract.rng import preserve_rng_state
from ..workers.bundles import StreamOptions, WorkerBundles
from ..workers.lane_host import LaneHost, Message
from ..workers.sample_place import sample_at
from ..workers.watchdog import Watchdog
from ..workers.worker_board import LastSampleBoard
from ..workers.worker_death import worker_died_error
from ..workers.worker_errors import PackedError, raise_packed

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
        self._here: Iterator[Message | None] = iter(())
        if self._source is None:
            messages = host.messages(0, self._board.slot(0))
            self._here = _with_own_generators(messages) if host.dataset.runs_user_code else messages

    def __iter__(self) -> Iterator[Message]:
        """Yield the rank's micro-batches; :data:`.SKIPPED` stands for one without samples.

        Raises:
            WorkerError: A worker process died, or hangs and is not to be waited for.
            Exception: What stopped the run in a worker.
        """
        return self._made_here() if self._source is None else self._received(self._source)

    def _made_here(self) -> Iterator[Message]:
        while True:
            try:
                with self._watchdog.waiting(0):
                    message = next(self._here, _END)
            except WorkerError:
                self.close()
                raise
            if message is _END:
                return
            if message is not None:
                yield message

    def _received(self, source: WorkerBundles) -> Iterator[Message]:
        while (worker := source.worker_in_turn()) is not None:
            self._wait_for(worker, source)
            message = source.take(worker)
            if isinstance(message, PackedError):
                self.close()
                raise_packed(message)
            if message is not None:
                yield message

    def _wait_for(self, worker: int, source: WorkerBundles) -> None:
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


def _with_own_generators(messages: Iterator[Message | None]) -> Iterator[Message | None]:
    """Make messages in the trainer's process: what user code of the chain draws must not move its generators."""
    while True:
        with preserve_rng_state():
            message = next(messages, _END)
        if message is _END:
            return
        yield message
