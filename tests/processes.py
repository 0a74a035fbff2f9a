"""Wait for processes to change or end, with a limit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def wait_until(condition: Callable[[], object], *, timeout_s: float = 100) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    if not os.path.exists("/proc/self/stat"):
        return True  # macOS, where launchd soon collects the exit status of an orphan
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"  # a zombie has ended; its parent has not collected the exit status yet


def has_processes(group: int) -> bool:
    """Return True if a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
