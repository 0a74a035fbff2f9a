"""Imports in a forked process that other threads of its parent had begun.

Python holds a lock for each module while a thread imports it. A fork copies the lock, but not the thread, so a process
that imports the same module would wait without end.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

__all__ = ["restart_imports_of_other_threads"]


def restart_imports_of_other_threads() -> None:
    """Forget the modules that other threads were importing at the fork, so that this process imports them itself.

    Call it in a forked process before it starts threads.
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
