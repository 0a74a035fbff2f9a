"""An executor over the actors of a Ray cluster."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from ..errors import WorkerError, required_package
from .clusters import CONTINUES, connect
from .executor import CHECK_PERIOD_S
from .run import Engine
from .workers import usable_cores

_MISSES = 5  # checks in a row: the head may start again, but Ray ends this process after a minute
_ACTORS_AT_MOST = 10_000
_WORKERS_S = 300  # a cluster may start nodes for the actors

# Ray would print lines about a fault for a minute, and report statistics. It reads these while it is imported.
_VARIABLES = {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_DEDUP_LOGS_SKIP_REGEX": ".", "RAY_USAGE_STATS_ENABLED": "0"}


class RayExecutor(Executor):
    """Run tasks in a pool of actors, which Ray starts again when a node is preempted or a process dies.

    An actor gets tasks only while it lives, one at a time: a task that was lost with its actor fails with
    ``BrokenExecutor``, and actors for which the cluster has no room delay nothing. Only arguments and results pass
    through the object store.

    Args:
        ray: The package, connected to a cluster.
        workers: Number of actors.
        gpus: GPUs that each actor reserves; a fraction shares one.
        head: Address of the head, ``host:port``.
    """

    def __init__(self, ray: Any, workers: int, *, gpus: float = 0.0, head: str) -> None:
        self._head = head
        self._checked = self._misses = -math.inf  # misses count when the head has answered once at this address
        self._ray = ray
        self._free: deque[Any] = deque()
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1)
        actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1)(_Worker)
        self._actors = [actor.remote() for _ in range(workers)]
        self._started = [self._await(each, retries=0) for each in self._actors]

    def wait_for_workers(self, timeout_s: float) -> None:
        """Wait until an actor has started.

        Raises:
            WorkerError: None has.
        """
        end = time.monotonic() + timeout_s
        while not (started := wait(self._started, CHECK_PERIOD_S, FIRST_COMPLETED).done) and time.monotonic() < end:
            self.check_alive()
        fault = next(iter(started)).exception() if started else None  # why actors cannot start
        if not started or fault is not None:
            why = f" after {timeout_s:g} s" if fault is None else f": {fault}"
            raise WorkerError(
                f"the Ray cluster has started no worker{why}",
                hint="see ray status: the cluster needs free CPUs, and the GPUs of a worker; and its nodes need this"
                " library",
            )

    def check_alive(self) -> None:
        """Raise a WorkerError if the head of the cluster is lost: tasks would not end. Call this every few seconds."""
        if time.monotonic() - self._checked < CHECK_PERIOD_S:
            return
        self._checked = time.monotonic()
        host, _, port = self._head.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CHECK_PERIOD_S).close()
            self._misses = 0
        except OSError as error:
            self._misses += 1
            if self._misses == _MISSES:
                what = "the Ray cluster is lost: its head does not answer"
                raise WorkerError(what, at=self._head, hint=CONTINUES) from error

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call; it runs in the next actor that is free."""
        future: Future[Any] = Future()
        with self._lock:
            self._queue.append((future, partial(fn, *args, **kwargs)))
        self._dispatch()
        return future

    def _await(self, actor: Any, *, retries: int = -1) -> Future[Any]:
        """Let an actor have tasks as soon as it lives; one that starts again needs retries."""
        answer: Future[Any] = actor.ping.options(max_task_retries=retries).remote().future()
        answer.add_done_callback(lambda done: self._later(self._note_started, actor, done.exception()))
        return answer

    def _note_started(self, actor: Any, error: BaseException | None) -> None:
        if error is None:
            with self._lock:
                self._free.append(actor)
            self._dispatch()

    def _later(self, function: Callable[..., None], *args: Any) -> None:
        """Call a function in another thread, unless this executor has ended; Ray Client blocks calls in its thread."""
        with suppress(RuntimeError):
            self._thread.submit(function, *args)

    def _dispatch(self) -> None:
        while True:
            with self._lock:
                if not self._free or not self._queue:
                    return
                actor, (future, call) = self._free.popleft(), self._queue.popleft()
            if not future.set_running_or_notify_cancel():
                with self._lock:
                    self._free.append(actor)
                continue
            answer = actor.run.remote(call).future()
            answer.add_done_callback(partial(self._later, self._end, actor, future))

    def _end(self, actor: Any, future: Future[Any], done: Future[Any]) -> None:
        error = done.exception()
        if isinstance(error, self._ray.exceptions.RayActorError):
            future.set_exception(BrokenExecutor("its worker process has ended"))
            self._await(actor)
            return
        if error is None:
            future.set_result(done.result())
        else:
            # A RayTaskError holds the error that the function raised.
            future.set_exception(getattr(error, "cause", None) or error)
        self._note_started(actor, None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - kills at once
        """End the actors."""
        is_lost = self._misses >= _MISSES  # then Ray Client would wait
        self._thread.shutdown(wait=not is_lost, cancel_futures=True)
        with self._lock:
            while self._queue:
                self._queue.popleft()[0].cancel()
            self._free.clear()
        for actor in () if is_lost else self._actors:
            self._ray.kill(actor)


class _Worker:
    """The actor: one process, which keeps what a task's function caches, such as a model."""

    def ping(self) -> None:
        """Return when the actor lives."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in other processes that run tasks

    def run(self, call: Callable[[], Any]) -> Any:
        return call()


class RayEngine(Engine):
    """The actors of a Ray cluster."""

    takes_address = True

    @classmethod
    @contextmanager
    def open(cls, address: str | None, workers: int | None, gpus: float) -> Iterator[Engine]:
        """Connect to a Ray cluster, or start one on this machine; the engine is valid in the block.

        Args:
            address: ``auto``, ``ray://host:10001`` or ``host:6379``; None takes the cluster that ``RAY_ADDRESS`` names,
                or starts one on this machine.
            workers: Number of actors; None for one per CPU of the cluster, or as many as its GPUs serve.
            gpus: GPUs that each actor reserves.

        Raises:
            ConfigError: Ray is not installed.
            WorkerError: There is no cluster at the address, or it asks for a token, or it starts no worker.
        """
        os.environ.update(_VARIABLES | dict(os.environ))
        with required_package("the engine ray needs the package ray", hint="pip install 'energon-toolkit[ray]'"):
            import ray
        # Connect, unless the caller's program is connected.
        address = address or os.environ.get("RAY_ADDRESS") or ""
        connects = not ray.is_initialized()
        if connects:
            connect(ray, address)
        head = (connects and address.partition("ray://")[2]) or ray.get_runtime_context().gcs_address
        try:
            # Start as many actors as the cluster has room for.
            resources = ray.cluster_resources()
            room = int(resources.get("GPU", 0) // gpus if gpus else resources.get("CPU", 1))
            actors = min(workers or max(1, room), _ACTORS_AT_MOST)
            with RayExecutor(ray, actors, gpus=gpus, head=head) as executor:
                executor.wait_for_workers(_WORKERS_S)
                yield cls(executor=executor, workers=workers or usable_cores())
        finally:
            if connects:
                ray.shutdown()
