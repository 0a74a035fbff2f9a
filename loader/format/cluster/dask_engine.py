"""The executor of a Dask cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from ...errors import ConfigError, WorkerError

_CONNECT_S = 15  # a scheduler answers at once, unless its machine is busy
_WORKERS_S = 60  # a queue of jobs may start them later


@contextmanager
def open_dask_executor(scheduler: str) -> Iterator[Executor]:
    """Connect to a Dask cluster; its executor is valid in the block.

    Args:
        scheduler: Address (``tcp://host:8786``) or file of the scheduler.

    Raises:
        ConfigError: The package is missing, or there is no such file.
        WorkerError: The scheduler cannot be reached, or has no workers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigError(
            f"the engine dask needs the package distributed: {error}", hint="pip install 'energon-toolkit[dask]'"
        ) from error
    is_file = os.path.exists(scheduler)
    if not (is_file or "://" in scheduler or re.search(r":\d+$", scheduler)):
        raise ConfigError(
            "this is no file of a Dask scheduler, and no address",
            at=scheduler,
            hint="give an address such as tcp://node1:8786, or the file that dask scheduler --scheduler-file writes",
        )
    try:
        client = Client(
            None if is_file else scheduler,
            scheduler_file=scheduler if is_file else None,
            timeout=_CONNECT_S,
            set_as_default=False,
        )
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise WorkerError(
            f"cannot connect to the Dask scheduler: {error}",
            at=scheduler,
            hint="check that it runs (dask scheduler) and that this machine reaches its port, or give the file that "
            "dask scheduler --scheduler-file wrote",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError as error:
            raise WorkerError(
                f"the Dask scheduler at {scheduler} has no workers after {_WORKERS_S} s",
                hint="start some: dask worker ADDRESS, or cluster.scale(64)",
            ) from error
        yield client.get_executor()
