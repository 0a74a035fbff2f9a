"""The memory of processes, as the kernel reports it."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of control groups 2 and 1
_KIB_OF_MAXRSS = 1 if sys.platform == "darwin" else 1024


def resident_bytes(pid: int | None = None) -> int:
    """Return the resident memory of a process of this user; 0 if it has ended or the system does not report it.

    Args:
        pid: The process; None for this one, for which systems without ``/proc`` report its highest value.
    """
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0 if pid is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB_OF_MAXRSS


def memory_bytes() -> int:
    """Return the memory of the machine, or of the container if it has less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in _LIMITS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            found = min(found, int(Path(limit).read_text()))
    return found
