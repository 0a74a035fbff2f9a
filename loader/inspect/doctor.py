"""Examine this machine: what breaks or slows down loading, and what to do about it."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal

from ..engine.workers import usable_cores
from ..errors import ConfigError, plural
from ..storage.node_cache.private_folder import (
    CACHE_FOLDER_VARIABLE,
    CacheSettings,
    cache_settings,
    network_file_system,
)
from ..version import __version__
from .text import format_bytes

_NO_LIMIT_BYTES = 1 << 60
"""Version 1 of control groups writes a number of this size where there is no limit."""


_MAX_DRIVER_S = 20.0  # a driver that is not loaded yet takes seconds for each GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A file system."""

    path: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what this process may use.

    Attributes:
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
        path=os.fspath(path), total_bytes=facts.f_blocks * facts.f_frsize, free_bytes=facts.f_bavail * facts.f_frsize
    )


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders whose limits apply to this process: its control group and the groups around it."""
    # Version 1 of control groups has a line for each controller, version 2 one without controllers.
    for line in _text(root / "proc" / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group_path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys" / "fs" / "cgroup"
        top = top / controller if controllers else top
        folder = top / group_path.strip("/")
        # Inside of a container, the path is that of the host, and the mount shows the container's own group on top.
        yield from (
            group_folder
            for group_folder in (folder, *folder.parents)
            if group_folder == top or top in group_folder.parents
        )


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


_DISTRIBUTION = "energon-toolkit"
_DEVELOPMENT = frozenset(("dev", "docs", "test"))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LOWEST = re.compile(r">=\s*([0-9.]+)")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_MIN_OPEN_FILES = 4096  # a large mix keeps many shards open
_MIN_SHARED_BYTES = 256 << 20  # that NCCL and loaders of torch fill
_MIN_CACHE_BYTES = 20 << 30  # that the cache leaves free on its disk
_MIN_MEMORY_BYTES = 4 << 30  # for a dozen workers that import torch
_MIN_TEMPORARY_BYTES = 1 << 30  # where prepare sorts keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something to change.

    Attributes:
        severity: ``error`` if it breaks loading, ``warning`` if it makes it slow or may break it.
        subject: The fact that it is about, such as ``open files``.
    """

    severity: Literal["error", "warning"]
    subject: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The result of an examination.

    Attributes:
        cache: The cache of remote datasets; None if it is off.
        cache_disk: The disk of its folder, or of the nearest folder that exists.
        gpus: The NVIDIA GPUs of this machine, each with its memory.
        advice: What to change, errors first.
    """

    installed: Installed
    limits: Limits
    cache: CacheSettings | None
    cache_disk: Disk | None
    temporary: Disk | None
    gpus: tuple[str, ...]
    advice: tuple[Advice, ...]


_warning = partial(Advice, severity="warning")


def examine_machine(limits: Limits | None = None, installed: Installed | None = None) -> Checkup:
    """Examine this machine and installation.

    Args:
        limits: What this process may use; None reads it.
        installed: Versions of packages; None reads them.
    """
    import tempfile

    limits = limits or read_limits()
    installed = installed or read_packages()
    temporary = read_disk(tempfile.gettempdir())
    cache, cache_disk, advice = _examine_cache()
    advice += [*_about_packages(installed), *_about_limits(limits, temporary)]
    return Checkup(
        installed=installed,
        limits=limits,
        cache=cache,
        cache_disk=cache_disk,
        temporary=temporary,
        gpus=read_gpus(),
        advice=tuple(sorted(advice, key=lambda item: item.severity)),
    )


def _about_packages(installed: Installed) -> Iterator[Advice]:
    for name, version in installed.required.items():
        if version is None:
            message, hint = f"{name} is missing, and loading needs it", f"pip install '{name}'"
            yield Advice(severity="error", subject=name, message=message, hint=hint)
    for name, lowest in installed.outdated.items():
        message = f"{name} is older than {lowest}, the lowest version that works"
        yield Advice(severity="error", subject=name, message=message, hint=f"pip install '{name}>={lowest}'")


def _about_limits(limits: Limits, temporary: Disk | None) -> Iterator[Advice]:
    # Compare the visible cores with the time of the control group.
    if limits.cores < limits.usable_cores:
        yield _warning(
            subject="cores",
            message=f"{plural(limits.usable_cores, 'core is', 'cores are')} visible, and the control group gives time "
            f"of {limits.cgroup_cores:g}: a process per core, the default of commands, is throttled",
            hint=f"pass --num-workers {limits.cores}, and as many loader workers",
        )
    # A process keeps many shards open.
    if limits.open_files is not None and limits.open_files < _MIN_OPEN_FILES:
        possible = limits.open_files_hard is None or limits.open_files_hard >= _MIN_OPEN_FILES
        yield _warning(
            subject="open files",
            message=f"a process may open {plural(limits.open_files, 'file')}: shards of large mixes are closed"
            " and opened again, and workers with many batches ahead fail",
            hint="run: ulimit -n 65536"
            if possible
            else "raise the hard limit, such as docker run --ulimit nofile=65536",
        )
    # Other libraries exchange data in shared memory.
    shared = limits.shared_memory
    if shared is not None and shared.free_bytes < _MIN_SHARED_BYTES:
        yield _warning(
            subject="shared memory",
            message=f"{shared.path} has {format_bytes(shared.free_bytes)} free: NCCL and torch's own DataLoader "
            "fail with a bus error if it is full (batches of this library do not use it on Linux)",
            hint="start the container with --shm-size=8g, or remove old files there",
        )
    # Each worker process needs memory of its own.
    memory = min((size for size in (limits.memory_bytes, limits.cgroup_memory_bytes) if size), default=None)
    if memory is not None and memory < _MIN_MEMORY_BYTES:
        yield _warning(
            subject="memory",
            message=f"{format_bytes(memory)} of memory: each worker process that imports torch takes about 0.3 GB",
            hint="use fewer workers, or worker_type='thread'",
        )
    # Prepare sorts keys on the disk of temporary files.
    if temporary is not None and temporary.free_bytes < _MIN_TEMPORARY_BYTES:
        free = format_bytes(temporary.free_bytes)
        yield _warning(
            subject="temporary files",
            message=f"{temporary.path} has {free} free: prepare of large datasets sorts there",
            hint="free space, or set TMPDIR to a folder on another disk",
        )


def _examine_cache() -> tuple[CacheSettings | None, Disk | None, list[Advice]]:
    """Examine the cache of remote datasets: it must be on a local disk with space."""
    # Read the settings, and find the nearest folder that exists.
    try:
        settings = cache_settings()
    except ConfigError as error:
        advice = Advice(severity="error", subject="cache", message=error.message, hint=error.hint or "")
        return None, None, [advice]
    if settings is None:
        return None, None, []
    folder = settings.folder
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    disk = read_disk(folder)
    return settings, disk, list(_about_cache(settings, folder, disk))


def _about_cache(settings: CacheSettings, folder: str, disk: Disk | None) -> Iterator[Advice]:
    # The folder has to be writable.
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Advice(
            severity="error",
            subject="cache",
            message=f"{folder} is not writable, so that there is no cache at {settings.folder}",
            hint=f"change its permissions, or {CACHE_FOLDER_VARIABLE}",
        )
    # It has to be on a disk of this machine.
    network = _network(folder)
    if network is not None:
        yield Advice(
            severity="warning" if settings.on_network else "error",
            subject="cache",
            message=f"{settings.folder} is on a network file system ({network}): reading the cache is no faster "
            "than the object store",
            hint=f"set {CACHE_FOLDER_VARIABLE} to a folder on a disk of this machine",
        )
    # The disk needs space.
    wanted = min(_MIN_CACHE_BYTES, disk.total_bytes // 10) if disk is not None else 0
    if disk is not None and disk.free_bytes < wanted:
        yield _warning(
            subject="cache",
            message=f"the disk of {settings.folder} has {format_bytes(disk.free_bytes)} free: the cache keeps "
            f"{format_bytes(wanted)} free, and so stores little",
            hint=f"free space, or set {CACHE_FOLDER_VARIABLE} to a folder on another disk",
        )


def _network(folder: str) -> str | None:
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        return network_file_system(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The installation.

    Attributes:
        required: Version of each package that this library needs; None if it is missing.
        outdated: Packages of a version that is too low, each with the lowest one that works.
        extras: Extras of this library, each with the packages of it that are missing.
    """

    toolkit: str
    python: str
    required: dict[str, str | None]
    outdated: dict[str, str]
    extras: dict[str, tuple[str, ...]]


def read_packages(distribution: str = _DISTRIBUTION) -> Installed:
    """Return the versions of a distribution and of the packages that it requires, without importing any."""
    # List the requirements of the distribution.
    required: dict[str, str | None] = {}
    outdated: dict[str, str] = {}
    extras: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:  # run from its source
        requirements = []
    # Sort the packages by their extras, and compare their versions.
    for line in requirements:
        specifier, _, marker = line.partition(";")
        requirement = _NAME.match(specifier)
        if requirement is None:
            continue
        name = requirement[0]
        version = _version(name)
        extra = _EXTRA.search(marker)
        if extra is None:
            required[name] = version
        elif extra[1] in _DEVELOPMENT:
            continue
        elif version is None:
            extras.setdefault(extra[1], []).append(name)
        else:
            extras.setdefault(extra[1], [])
        lowest = _LOWEST.search(specifier)
        if version is not None and lowest is not None and _numbers(version) < _numbers(lowest[1]):
            outdated[name] = lowest[1]
    return Installed(
        toolkit=__version__,
        python=platform.python_version(),
        required=required,
        outdated=outdated,
        extras={extra: tuple(missing) for extra, missing in extras.items()},
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, for comparison.

    >>> _numbers("2.10.0+cu128"), _numbers("2.4")
    ((2, 10, 0), (2, 4))
    """
    return tuple(int(digits) for digits in re.match(r"\d*(?:\.\d+)*", version)[0].split(".") if digits)  # type: ignore[index]
