"""The start of worker processes without names in the file system: after any kill, nothing is left.

Python's semaphores have names in ``/dev/shm`` while processes are spawned, and its fork server has a socket in the
temporary directory. A process that tidies up later is killed with the process group. Pipes have no names.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from contextlib import suppress
from multiprocessing import forkserver, util
from multiprocessing.context import BaseContext, ForkServerContext
from multiprocessing.process import BaseProcess, current_process
from typing import Any

from .rank_signals import blocked_signals


def start_context(method: str) -> BaseContext:
    """Return the context that starts worker processes.

    Args:
        method: ``"fork"``, ``"spawn"`` or ``"forkserver"``.
    """
    return _ForkServer() if method == "forkserver" else multiprocessing.get_context(method)


class _ForkServer(ForkServerContext):
    def Process(self, *arguments: Any, **named: Any) -> BaseProcess:  # type: ignore[override] # noqa: N802
        _start_fork_server()
        return ForkServerContext.Process(*arguments, **named)


def _start_fork_server() -> None:
    """Start Python's fork server unless it runs, and remove its socket's name; a descriptor still leads to it."""
    server: Any = forkserver._forkserver  # noqa: SLF001 - Python has no public way
    with blocked_signals(signal.SIGINT):  # it ignores the signal, but its workers would not
        server.ensure_running()
    path = server._forkserver_address  # noqa: SLF001
    if not hasattr(os, "O_PATH") or not isinstance(path, str) or path.startswith(("\0", "/proc/")):
        return
    server._forkserver_address = f"/proc/self/fd/{os.open(path, os.O_PATH)}"  # noqa: SLF001
    os.unlink(path)
    folder, config = os.path.dirname(path), current_process()._config  # type: ignore[attr-defined] # noqa: SLF001
    if config.get("tempdir") == folder:
        with suppress(OSError):  # others have files there
            os.rmdir(folder)
            config["tempdir"] = None
            for finalizer in list(util._finalizer_registry.values()):  # type: ignore[attr-defined] # noqa: SLF001
                if finalizer._args == (shutil.rmtree, folder):  # noqa: SLF001
                    finalizer.cancel()  # it would fail at exit, with a traceback
