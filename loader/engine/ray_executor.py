"""An executor over the actors of a Ray cluster."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigError, WorkerError

_PER_WORKER = 2  # tasks that an actor holds: the next one is there when the first ends
_RETRIES = 3  # a task whose actor dies again and again kills it
_ACTORS_AT_MOST = 10_000


class RayExecutor(Executor):
    """Run tasks in a pool of actors, which Ray starts again when a node is preempted or a process dies.

    Only arguments and results pass through the object store; a task that was lost with its actor is repeated.

    Args:
        ray: The package, connected to a cluster.
        workers: Number of actors.
        gpus: GPUs that each actor reserves; a fraction shares one.
    """

    def __init__(self, ray: Any, workers: int, *, gpus: float = 0.0) -> None:
        self._ray = ray
        actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=_RETRIES)(_Worker)
        # Tasks find the modules that this process finds: those of the working folder, for example.
        path = os.pathsep.join(dict.fromkeys([os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
        environment = {"env_vars": {"PYTHONPATH": path.rstrip(os.pathsep)}}
        self._actors = [actor.options(runtime_env=environment).remote() for _ in range(workers)]
        self._free = deque(self._actors * _PER_WORKER)
        self._queue: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call; it runs in the next actor that is free."""
        if kwargs:
            raise TypeError("expected positional arguments alone")
        future: Future[Any] = Future()
        with self._lock:
            self._queue.append((future, fn, args))
        self._dispatch()
        return future

    def _dispatch(self) -> None:
        while True:
            with self._lock:
                if not self._free or not self._queue:
                    return
                actor, (future, function, args) = self._free.popleft(), self._queue.popleft()
            if not future.set_running_or_notify_cancel():
                with self._lock:
                    self._free.append(actor)
                continue
            reference = actor.run.remote(function, *args)
            reference.future().add_done_callback(
                lambda done, actor=actor, future=future: self._end(actor, future, done)
            )

    def _end(self, actor: Any, future: Future[Any], done: Future[Any]) -> None:
        with self._lock:
            self._free.append(actor)
        error = done.exception()
        if error is None:
            future.set_result(done.result())
        else:
            # A RayTaskError holds the error that the function raised.
            future.set_exception(getattr(error, "cause", None) or error)
        self._dispatch()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - kills at once
        """End the actors."""
        with self._lock:
            waiting = [future for future, _, _ in self._queue]
            self._queue.clear()
        for future in waiting:
            future.cancel()
        for actor in self._actors:
            self._ray.kill(actor)


class _Worker:
    """The actor: one process, which keeps what a task's function caches, such as a model."""

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


@contextmanager
def open_ray_executor(address: str | None, *, workers: int | None, gpus: float = 0.0) -> Iterator[Executor]:
    """Connect to a Ray cluster, or start one on this machine; its executor is valid in the block.

    Args:
        address: ``auto``, ``ray://host:10001`` or ``host:6379``; None starts Ray on this machine.
        workers: Number of actors; None for one per CPU of the cluster, or as many as its GPUs serve.
        gpus: GPUs that each actor reserves.

    Raises:
        ConfigError: Ray is not installed, or the cluster has fewer GPUs than one actor needs.
        WorkerError: There is no cluster at the address.
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
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error", configure_logging=False)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise WorkerError(
                f"cannot connect to the Ray cluster: {error}",
                at=address,
                hint="start one: ray start --head; or leave --address out, which starts Ray on this machine",
            ) from error
    try:
        # Start as many actors as the cluster has room for.
        resources = ray.cluster_resources()
        if workers is None:
            workers = max(1, int(resources.get("GPU", 0) // gpus if gpus else resources.get("CPU", 1)))
        executor = RayExecutor(ray, min(workers, _ACTORS_AT_MOST), gpus=gpus)
        try:
            yield executor
        finally:
            executor.shutdown()
    finally:
        if connects:
            ray.shutdown()
