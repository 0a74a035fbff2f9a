"""A lock that delays forks while a thread holds it."""

from __future__ import annotations

import os
import threading


class ForkLock:
    """A lock between threads: no process is forked while a thread holds it, and a forked one begins with it free.

    Without it, a fork could copy the middle of an import, or the pipe by which :mod:`subprocess` learns that a program
    has started: the child or the parent would never return. For locks that live as long as the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        os.register_at_fork(before=self._acquire, after_in_parent=self._release, after_in_child=self._renew)

    def _acquire(self) -> None:
        self._lock.acquire()

    def _release(self) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._acquire()

    def __exit__(self, *_: object) -> None:
        self._release()
