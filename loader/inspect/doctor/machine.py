"""Limits of this machine, of its container and of this process."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...format import usable_cores

_NO_LIMIT_BYTES = 1 << 60
"""Version 1 of control groups writes a number of this size where there is no limit."""


_MAX_DRIVER_S = 20.0  # a driver that is not loaded yet takes seconds for each GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A file system.

    Attributes:
        path: A folder in it.
        total_bytes: Its size.
        free_bytes: Bytes that this user may still write.
    """

    path: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what this process may use.

    Attributes:
        machine_cores: Number of cores of the machine.
        usable_cores: Number of cores that the scheduler may give to this process.
        cgroup_cores: Cores' worth of time that the control group allows; None without a limit.
        memory_bytes: Memory of the machine; None if it is not known.
        cgroup_memory_bytes: Limit of the control group; None without a limit.
        open_files: Soft limit of open files; None without a limit.
        open_files_hard: Limit to which a process may raise it; None without a limit.
        locked_memory_bytes: Soft limit of locked memory; None without a limit.
        shared_memory: ``/dev/shm``; None if it is missing.
    """

    machine_cores: int
    usable_cores: int
    cgroup_cores: float | None
    memory_bytes: int | None
    cgroup_memory_bytes: int | None
    open_files: int | None
    open_files_hard: int | None
    locked_memory_bytes: int | None
    shared_memory: Disk | None

    @property
    def cores(self) -> int:
        """Number of processes that can compute at once."""
        quota = math.inf if self.cgroup_cores is None else max(1, math.ceil(self.cgroup_cores))
        return int(min(self.usable_cores, quota))


def read_limits(root: Path = Path("/")) -> Limits:
    """Read the limits of this process.

    Args:
        root: Folder with ``proc`` and ``sys``, and ``dev/shm``.
    """
    import resource  # missing on systems that are not POSIX

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]

    def limit(value: int) -> int | None:
        return None if value == resource.RLIM_INFINITY else value

    return Limits(
        machine_cores=os.cpu_count() or 1,
        usable_cores=usable_cores(),
        cgroup_cores=min(_cgroup_cores(root), default=None),
        memory_bytes=_memory(root),
        cgroup_memory_bytes=min(_cgroup_memory(root), default=None),
        open_files=limit(soft),
        open_files_hard=limit(hard),
        locked_memory_bytes=limit(locked),
        shared_memory=read_disk(root / "dev" / "shm"),
    )


def read_gpus() -> tuple[str, ...]:
    """Return the name and memory of each NVIDIA GPU that the driver shows; torch is not imported."""
    command = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_MAX_DRIVER_S)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip())


def read_disk(path: str | os.PathLike[str]) -> Disk | None:
    """Return the file system of a folder; None if it cannot be read."""
    try:
        facts = os.statvfs(path)
    except OSError:
        return None
    return Disk(
        path=os.fspath(path),
        total_bytes=facts.f_blocks * facts.f_frsize,
        free_bytes=facts.f_bavail * facts.f_frsize,
    )


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders whose limits apply to this process: its control group and those around it."""
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, place = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys" / "fs" / "cgroup"
        top = top / controller if controllers else top
        folder = top / place.strip("/")
        # Inside of a container, the path is that of the host, and the mount shows the container's own group on top.
        yield from (one for one in (folder, *folder.parents) if one == top or top in one.parents)


def _cgroup_cores(root: Path) -> Iterator[float]:
    for folder in _cgroup_folders(root, "cpu"):
        quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
        if not quota:
            quota, period = _text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield int(quota) / int(period)


def _cgroup_memory(root: Path) -> Iterator[int]:
    for folder in _cgroup_folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _text(folder / name).strip()
            if text.isdecimal() and int(text) < _NO_LIMIT_BYTES:
                yield int(text)


def _memory(root: Path) -> int | None:
    for line in _text(root / "proc" / "meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal" and value.split()[:1] and value.split()[0].isdecimal():
            return int(value.split()[0]) * 1024
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
