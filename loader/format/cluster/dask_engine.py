"""The executor of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import NamedTuple

from ...errors import ConfigError, WorkerError

__all__ = ["DaskEngine", "open_dask_engine"]

_TIMEOUT_S = 60


class DaskEngine(NamedTuple):
    """The executor of a Dask cluster, and the number of tasks that it runs at a time."""

    executor: Executor
    threads: int


@contextmanager
def open_dask_engine(scheduler: str) -> Iterator[DaskEngine]:
    """Connect to a Dask cluster.

    Args:
        scheduler: Address (``tcp://host:8786``) or file of the scheduler.

    Raises:
        ConfigError: The package is missing.
        WorkerError: The scheduler cannot be reached, or has no workers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigError(
            f"the engine dask needs the package distributed: {error}", hint="pip install 'energon-toolkit[dask]'"
        ) from error
    is_file = os.path.exists(scheduler)
    try:
        client = Client(
            None if is_file else scheduler,
            scheduler_file=scheduler if is_file else None,
            timeout=_TIMEOUT_S,
            set_as_default=False,
        )
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise WorkerError(
            f"cannot connect to the Dask scheduler at {scheduler}: {error}",
            hint="check the address, or give the file that dask scheduler --scheduler-file wrote",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_TIMEOUT_S)
        except TimeoutError as error:
            raise WorkerError(
                f"the Dask scheduler at {scheduler} has no workers after {_TIMEOUT_S} s",
                hint="start some: dask worker ADDRESS, or cluster.scale(64)",
            ) from error
        yield DaskEngine(client.get_executor(), sum(client.nthreads().values()))
