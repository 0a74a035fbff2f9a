"""Remove what a forked process inherits and cannot use: locks of threads, and threads, that it does not have."""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any


def restart_imports_of_other_threads() -> None:
    """Forget the modules that other threads were importing at the fork, so that this process imports them itself.

    Python holds a lock for each module while a thread imports it. A fork copies the lock, but not the thread, so a
    process that imports the same module would wait without end. Call it before this process starts threads.
    """
    bootstrap: Any = getattr(importlib, "_bootstrap", None)
    locks: dict[str, Any] = getattr(bootstrap, "_module_locks", {})  # Python has no public way
    own = threading.get_ident()
    for name, reference in list(locks.items()):
        lock = reference()
        owner = getattr(lock, "owner", None)
        if owner is not None and owner != own:
            locks.pop(name, None)
            sys.modules.pop(name, None)


def forget_executors() -> None:
    """Join no thread of an inherited executor at the end of this process; Python 3.13 does the same at a fork.

    A process that a thread of an executor forked (a Ray actor, ``asyncio.to_thread``) would join itself, which is an
    error, and end with exit code 1.
    """
    executors = sys.modules.get("concurrent.futures.thread")
    getattr(executors, "_threads_queues", {}).clear()  # Python has no public way
