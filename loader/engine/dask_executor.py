"""Connect to a cluster of Dask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress

from ..errors import ConfigError, WorkerError, required_package
from .clusters import check_server

_GREETING = rb".*pickle-protocol"  # a scheduler says first how it packs messages
_CONNECT_S = 15  # a scheduler answers at once, unless its machine is busy
_WORKERS_S = 60  # a queue of jobs may start them later


@contextmanager
def open_dask_executor(scheduler: str) -> Iterator[Executor]:
    """Connect to a Dask cluster; its executor is valid in the block.

    Args:
        scheduler: Address (``tcp://host:8786``) or file of the scheduler.
    """
    with required_package("the engine dask needs the package distributed", hint="pip install 'energon-toolkit[dask]'"):
        from distributed import Client
    # Check what the user gave, before a connection is tried.
    address = scheduler
    with suppress(OSError, ValueError, LookupError, TypeError), open(scheduler, "rb") as file:
        address = json.load(file)["address"]
    if not re.search(r"://|:\d+$", str(address)):
        raise ConfigError(
            "this is no file of a Dask scheduler, and no address",
            at=scheduler,
            hint="give an address such as tcp://node1:8786, or the file that dask scheduler --scheduler-file writes",
        )
    # Connect, and wait for the first worker.
    try:
        if "tls" not in address:
            with suppress(ConnectionRefusedError):  # the client waits for a scheduler that starts
                check_server(address, _GREETING)
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # TimeoutError is an OSError; without certificates, a TypeError
        raise WorkerError(
            f"cannot connect to the Dask scheduler: {error}",
            at=scheduler,
            hint="check that it runs (dask scheduler) and that this machine reaches its port, or give the file that "
            "dask scheduler --scheduler-file wrote; for tls://, set distributed.comm.tls in Dask's configuration",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError as error:
            raise WorkerError(
                f"the Dask scheduler at {scheduler} has no workers after {_WORKERS_S} s",
                hint="start some: dask worker ADDRESS, or cluster.scale(64)",
            ) from error
        yield client.get_executor(pure=False)  # a task of another command with the same arguments runs, too
