"""An executor over the actors of a Ray cluster."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError, WorkerError

_MAX_DEATHS = 3  # of actors with the same task, as of the processes of one machine
_ACTORS_AT_MOST = 10_000
_CONNECT_S = 15  # a cluster answers at once, unless its machine is busy
_WORKERS_S = 300  # a cluster may start nodes for the actors


@dataclass(slots=True)
class _Call:
    """A call that is queued or runs."""

    future: Future[Any]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    deaths: int = 0


class RayExecutor(Executor):
    """Run tasks in a pool of actors, which Ray starts again when a node is preempted or a process dies.

    An actor gets tasks only while it lives, one at a time: a task that was lost with its actor goes to another one, and
    actors for which the cluster has no room delay nothing. Only arguments and results pass through the object store.

    Args:
        ray: The package, connected to a cluster.
        workers: Number of actors.
        gpus: GPUs that each actor reserves; a fraction shares one.
    """

    def __init__(self, ray: Any, workers: int, *, gpus: float = 0.0) -> None:
        self._ray = ray
        self._free: deque[Any] = deque()
        self._queue: deque[_Call] = deque()
        self._lock = threading.Lock()
        self._is_ready = threading.Event()  # an actor has started, or cannot
        self._fault: BaseException | None = None  # why actors cannot start
        actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1)(_Worker)
        self._actors = [actor.remote() for _ in range(workers)]
        for started in self._actors:
            self._await(started, retries=0)

    def wait_for_workers(self, timeout_s: float) -> None:
        """Wait until an actor has started.

        Raises:
            WorkerError: None has.
        """
        if not self._is_ready.wait(timeout_s) or self._fault is not None:
            why = f" after {timeout_s:g} s" if self._fault is None else f": {self._fault}"
            raise WorkerError(
                f"the Ray cluster has started no worker{why}",
                hint="see ray status: the cluster needs free CPUs, and the GPUs of a worker; and its nodes need this"
                " library",
            )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call; it runs in the next actor that is free."""
        if kwargs:
            raise TypeError("expected positional arguments alone")
        future: Future[Any] = Future()
        with self._lock:
            self._queue.append(_Call(future, fn, args))
        self._dispatch()
        return future

    def _await(self, actor: Any, *, retries: int = -1) -> None:
        """Let an actor have tasks as soon as it lives; one that starts again needs retries."""
        ping = actor.ping.options(max_task_retries=retries).remote()
        ping.future().add_done_callback(lambda done: self._note_started(actor, done.exception()))

    def _note_started(self, actor: Any, error: BaseException | None) -> None:
        if error is not None:
            self._fault = error
        else:
            with self._lock:
                self._fault = None
                self._free.append(actor)
        self._is_ready.set()
        self._dispatch()

    def _dispatch(self) -> None:
        while True:
            with self._lock:
                if not self._free or not self._queue:
                    return
                actor, call = self._free.popleft(), self._queue.popleft()
            # A call that is repeated runs already, for the one who waits.
            if not call.future.running() and not call.future.set_running_or_notify_cancel():
                with self._lock:
                    self._free.append(actor)
                continue
            answer = actor.run.remote(call.function, *call.arguments).future()
            answer.add_done_callback(lambda done, actor=actor, call=call: self._end(actor, call, done))

    def _end(self, actor: Any, call: _Call, done: Future[Any]) -> None:
        error = done.exception()
        is_lost = isinstance(error, self._ray.exceptions.RayActorError)
        if is_lost:
            call.deaths += 1
        # Repeat the call first, in another actor if this one does not come back.
        with self._lock:
            if is_lost and call.deaths < _MAX_DEATHS:
                self._queue.appendleft(call)
            if not is_lost:
                self._free.append(actor)
        if error is None:
            call.future.set_result(done.result())
        elif not is_lost or call.deaths == _MAX_DEATHS:
            # A RayTaskError holds the error that the function raised.
            call.future.set_exception(getattr(error, "cause", None) or error)
        if is_lost:
            self._await(actor)
        self._dispatch()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - kills at once
        """End the actors."""
        with self._lock:
            waiting = [call.future for call in self._queue]
            self._queue.clear()
            self._free.clear()
        for future in waiting:
            if future.cancel():
                future.set_running_or_notify_cancel()
        for actor in self._actors:
            self._ray.kill(actor)


class _Worker:
    """The actor: one process, which keeps what a task's function caches, such as a model."""

    def ping(self) -> None:
        """Return when the actor lives."""

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


@contextmanager
def open_ray_executor(address: str | None, *, workers: int | None, gpus: float = 0.0) -> Iterator[Executor]:
    """Connect to a Ray cluster, or start one on this machine; its executor is valid in the block.

    Args:
        address: ``auto``, ``ray://host:10001`` or ``host:6379``; None takes the cluster that ``RAY_ADDRESS`` names, or
            starts one on this machine.
        workers: Number of actors; None for one per CPU of the cluster, or as many as its GPUs serve.
        gpus: GPUs that each actor reserves.

    Raises:
        ConfigError: Ray is not installed.
        WorkerError: There is no cluster at the address, or it starts no worker.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            f"the engine ray needs the package ray: {error}", hint="pip install 'energon-toolkit[ray]'"
        ) from error
    # Connect, unless the caller's program is connected.
    connects = not ray.is_initialized()
    if connects:
        address = address or os.environ.get("RAY_ADDRESS")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of this command reports nothing
        try:
            # Ray itself would wait for minutes for an address where nothing answers.
            if named := re.search(r"(?:^|//)([^/:]+):(\d+)$", address or ""):
                socket.create_connection((named[1], int(named[2])), _CONNECT_S).close()
            ray.init(
                address=address or "local",  # else Ray joins any cluster that runs on this machine
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
                configure_logging=False,
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise WorkerError(
                f"cannot connect to the Ray cluster: {error}",
                at=address,
                hint="start one: ray start --head; or leave out --address and RAY_ADDRESS, which starts Ray on this"
                " machine",
            ) from error
    try:
        # Start as many actors as the cluster has room for.
        resources = ray.cluster_resources()
        if workers is None:
            workers = max(1, int(resources.get("GPU", 0) // gpus if gpus else resources.get("CPU", 1)))
        with RayExecutor(ray, min(workers, _ACTORS_AT_MOST), gpus=gpus) as executor:
            executor.wait_for_workers(_WORKERS_S)
            yield executor
    finally:
        if connects:
            ray.shutdown()
