"""The start of worker processes without names in the file system: after any kill, nothing is left.

Python's semaphores have names in ``/dev/shm`` while processes are spawned, and its fork server has a socket in the
temporary directory. A process that tidies up later is killed with the process group. Pipes have no names.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
from contextlib import suppress
from multiprocessing import connection, forkserver, util
from multiprocessing.context import BaseContext, ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess, current_process
from multiprocessing.sharedctypes import RawValue
from typing import Any

__all__ = ["start_context"]


def start_context(method: str | None) -> BaseContext | str | None:
    """Return what torch's DataLoader takes as ``multiprocessing_context``.

    Args:
        method: ``"fork"``, ``"spawn"``, ``"forkserver"``; None: the start method of the program.
    """
    if os.name != "posix":
        return method
    found = method or multiprocessing.get_start_method()
    if found == "spawn":
        return _Spawn()
    return _ForkServer() if found == "forkserver" else method


class _PipeLock:
    """A lock: who reads the only byte of the pipe holds it. Only one process may wait with a timeout."""

    def __init__(self) -> None:
        self._reader, self._writer = connection.Pipe(duplex=False)
        self.release()

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        if not (block and timeout is None) and not self._reader.poll(max(0.0, timeout or 0.0) if block else 0.0):
            return False
        return bool(os.read(self._reader.fileno(), 1))

    def release(self) -> None:
        os.write(self._writer.fileno(), b"1")

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class _Unlimited:
    """The semaphore of a queue without a limit."""

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:  # noqa: ARG002 - as semaphores have
        return True

    def release(self) -> None:
        """Do nothing."""


class _Event:
    def __init__(self) -> None:
        self._flag = RawValue("b", 0)

    def set(self) -> None:
        self._flag.value = 1

    def is_set(self) -> bool:
        return bool(self._flag.value)


class _Nameless:
    """The queues without a limit, each with one reader, and the event that torch's DataLoader makes."""

    def Lock(self) -> Any:  # noqa: N802 - as contexts name it
        return _PipeLock()

    def BoundedSemaphore(self, value: int = 1) -> Any:  # noqa: N802, ARG002 - likewise
        return _Unlimited()

    def Event(self) -> Any:  # noqa: N802 - likewise
        return _Event()


class _Spawn(_Nameless, SpawnContext):
    pass


class _ForkServer(_Nameless, ForkServerContext):
    def Process(self, *arguments: Any, **named: Any) -> BaseProcess:  # type: ignore[override] # noqa: N802
        _start_fork_server()
        return ForkServerContext.Process(*arguments, **named)


def _start_fork_server() -> None:
    """Start Python's fork server unless it runs, and remove its socket's name; a descriptor still leads to it."""
    server: Any = forkserver._forkserver  # noqa: SLF001 - Python has no public way
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
