"""The number of the worker that runs this code: a process of torch's DataLoader, or a thread of the rank's process."""

from __future__ import annotations

import threading

from ..lazy_torch import torch

_thread = threading.local()


def set_worker_thread(worker: int) -> None:
    """Mark the current thread as a worker of its rank."""
    _thread.worker = worker


def is_worker_thread() -> bool:
    """Return True in a thread that is a worker.

    Python's, numpy's and torch's global generators belong to all threads of a process. A worker that is a thread must
    therefore neither seed nor restore them.
    """
    return getattr(_thread, "worker", None) is not None


def worker_number() -> int | None:
    """Return the number of this worker among the workers of its rank; None in the rank's own process."""
    worker: int | None = getattr(_thread, "worker", None)
    if worker is not None:
        return worker
    info = torch.utils.data.get_worker_info()
    return None if info is None else int(info.id)
