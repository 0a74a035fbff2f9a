"""Connect to a cluster of Dask."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

from ..errors import ConfigError, WorkerError, required_package
from .clusters import check_server
from .run import Engine
from .workers import interrupts_deferred, usable_cores

_GREETING = rb".*pickle-protocol"  # a scheduler says first how it packs messages
_CONNECT_S = 15  # a scheduler answers at once, unless its machine is busy
_WORKERS_S = 60  # a queue of jobs may start them later

_MALLOC = str(128 << 20)  # bytes that workers keep: if they return memory after each object, decoding gets slow

_LOCAL: Any = {
    "threads_per_worker": 1,  # tasks of one process share a core
    "dashboard_address": None,
    "silence_logs": logging.CRITICAL,  # the errors of tasks tell more
    "set_as_default": False,
    "env": {"MALLOC_TRIM_THRESHOLD_": _MALLOC, "MALLOC_MMAP_THRESHOLD_": _MALLOC},
}
"""How a cluster on this machine is started."""


class DaskEngine(Engine):
    """The workers of a Dask cluster."""

    takes_address = True
    interrupts_calls = False  # a worker runs tasks in threads

    @classmethod
    @contextmanager
    def open(cls, address: str | None, workers: int | None, gpus: float) -> Iterator[Engine]:  # noqa: ARG003
        """Connect to a Dask cluster, or start one on this machine; the engine is valid in the block.

        Args:
            address: Address (``tcp://host:8786``) or file of the scheduler; None starts a cluster on this machine.
            workers: Number of processes of the cluster that is started; None for one per core.
            gpus: Workers have the GPUs with which they were started.
        """
        with required_package(
            "the engine dask needs the package distributed", hint="pip install 'energon-toolkit[dask]'"
        ):
            from distributed import Client
        workers = workers or usable_cores()
        with _connect(Client, address) if address else _start(Client, workers) as client:
            try:
                client.wait_for_workers(1, timeout=_WORKERS_S)
            except TimeoutError as error:
                raise WorkerError(
                    f"the Dask scheduler at {address} has no workers after {_WORKERS_S} s",
                    hint="start some: dask worker ADDRESS, or cluster.scale(64)",
                ) from error
            executor = client.get_executor(pure=False)  # a task of another command with the same arguments runs, too
            yield cls(executor=executor, workers=workers)


def _start(client: Callable[..., Any], workers: int) -> Any:
    """Return the client of a new cluster on this machine, whose processes Ctrl-C does not reach."""
    resource_tracker.ensure_running()  # else the first process does, and unblocks interrupts
    with interrupts_deferred():
        return client(n_workers=workers, **_LOCAL)


def _connect(client: Callable[..., Any], scheduler: str) -> Any:
    """Return a client of a scheduler."""
    # Check what the user gave, before a connection is tried.
    address = scheduler
    with suppress(OSError, ValueError, LookupError, TypeError), open(scheduler, "rb") as file:
        address = json.load(file)["address"]
    if not re.search(r"://|:\d+$", str(address)):
        raise ConfigError(
            "this is neither the file of a Dask scheduler nor an address",
            at=scheduler,
            hint="give an address such as tcp://node1:8786, or the file that dask scheduler --scheduler-file writes",
        )
    # Connect.
    try:
        if "tls" not in address:
            with suppress(ConnectionRefusedError):  # the client waits for a scheduler that starts
                check_server(address, _GREETING)
        return client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # TimeoutError is an OSError; without certificates, a TypeError
        raise WorkerError(
            f"cannot connect to the Dask scheduler: {error}",
            at=scheduler,
            hint="check that it runs (dask scheduler) and that this machine reaches its port, or give the file that "
            "dask scheduler --scheduler-file wrote; for tls://, set distributed.comm.tls in Dask's configuration",
        ) from error
