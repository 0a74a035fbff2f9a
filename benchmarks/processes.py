"""Measure whole processes: run time, and peak memory including child processes."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLING_S = 0.02


class CommandFailedError(Exception):
    """A measured command failed; the message contains its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One successful run of a command."""

    seconds: float
    stdout: str
    peak_bytes: int = 0  # sum of the proportional set sizes of all processes
    peak_private_bytes: int = 0  # the same, without file pages, which the kernel can drop


def run(command: Sequence[str | Path], *, with_memory: bool = False) -> Run:
    """Run a command and wait for its end.

    Args:
        command: The program and its arguments. Its standard input is empty.
        with_memory: Sample its memory. Sampling slows the command, so do not use the time of such a run.

    Raises:
        CommandFailedError: The exit code is not 0.
    """
    arguments = [os.fspath(argument) for argument in command]
    start = time.perf_counter()
    with subprocess.Popen(
        arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        sampler = MemorySampler(process.pid) if with_memory else None
        stdout, stderr = process.communicate()
        seconds = time.perf_counter() - start
        if sampler:
            sampler.stop()
    if process.returncode != 0:
        raise CommandFailedError(describe_failure(arguments, process.returncode, stdout, stderr))
    return Run(
        seconds=seconds,
        stdout=stdout,
        peak_bytes=sampler.peak_bytes if sampler else 0,
        peak_private_bytes=sampler.peak_private_bytes if sampler else 0,
    )


def describe_failure(arguments: Sequence[str], code: int, stdout: str, stderr: str) -> str:
    output = (stderr.strip() or stdout.strip()).splitlines()[-12:]
    return "\n".join([f"exit code {code}: {' '.join(arguments)}", *(f"  | {line[:300]}" for line in output)])


class MemorySampler:
    """Samples the total memory of a process tree about fifty times a second until stopped."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self.peak_private_bytes = 0
        self._pid = pid
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopping.wait(SAMPLING_S):
            memory = [proportional_set_size(pid) for pid in process_tree(self._pid)]
            self.peak_bytes = max(self.peak_bytes, sum(total for total, _ in memory))
            self.peak_private_bytes = max(self.peak_private_bytes, sum(private for _, private in memory))


def process_tree(pid: int) -> Iterator[int]:
    """Yield a process id and those of all its descendants."""
    yield pid
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        children = [Path(f"/proc/{pid}/task/{thread}/children").read_text() for thread in threads]
    except OSError:  # the process has ended
        return
    for child in " ".join(children).split():
        yield from process_tree(int(child))


def proportional_set_size(pid: int) -> tuple[int, int]:
    """Return the proportional set size of a process in bytes, in total and without file pages."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # the process has ended
        return 0, 0
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in text.splitlines()[1:]}
    return sizes.get("Pss", 0), sizes.get("Pss_Anon", 0) + sizes.get("Pss_Shmem", 0)
