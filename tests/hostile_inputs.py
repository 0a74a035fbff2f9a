"""Inputs that are small on the disk and large in memory, and the time and memory that a command takes for them.

Run as a script, this prints a table of commands × inputs:
``python tests/hostile_inputs.py [FOLDER] [NAME…]``; a name chooses inputs.
"""

from __future__ import annotations

import io
import os
import resource
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run of a command.

    Attributes:
        code: Its exit code; negative if a signal ended it.
        seconds: Its time.
        cpu_seconds: Processor time of all its processes.
        peak_mib: The largest resident set of its processes.
        output: What it printed, stdout and stderr.
    """

    code: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    output: str


def measure(
    arguments: Sequence[str], *, address_space_mib: int = 8192, timeout_s: float = 120, **environment: str
) -> Measured:
    """Run ``energon`` in a process with a limit on its address space.

    Args:
        arguments: Those of the command.
        address_space_mib: The limit, for each of its processes.
        timeout_s: The command is killed after this time.
        environment: Further environment variables.
    """
    limit = address_space_mib * MIB

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    with tempfile.TemporaryFile("w+") as output:
        start = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "energon_cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=restrict,  # noqa: PLW1509 - the child has one thread until it runs the command
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **environment},
        )
        killer = subprocess.Popen(["sh", "-c", f"sleep {timeout_s}; kill -9 {process.pid}"], start_new_session=True)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        os.killpg(killer.pid, 9)
        killer.wait()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        return Measured(
            code=process.returncode,
            seconds=seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_mib=usage.ru_maxrss / 1024,
            output=output.read(),
        )


# ------------------------------------------------------------------------------------------------------- the inputs


def write_tar(path: Path, members: Mapping[str, bytes | tuple[int, Callable[[IO[bytes]], None]]]) -> Path:
    """Write a tar; a member is bytes, or its size and a function that writes its contents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content) if isinstance(content, bytes) else content[0]
            file.write(member.tobuf(tarfile.USTAR_FORMAT))
            if isinstance(content, bytes):
                file.write(content)
            else:
                content[1](file)
            file.write(b"\0" * (-member.size % 512))
        file.write(b"\0" * 1024)
    return path


def large_json(size_bytes: int) -> bytes:
    """Return a document of small values, which take many times their size in memory."""
    item = b'{"a":1,"b":[2,3]},'
    return b'{"items":[' + item * (size_bytes // len(item)) + b'{}],"caption":"c"}'


def png(width: int, height: int, *, extra: bytes = b"", mode: int = 2) -> bytes:
    """Return a picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    row = bytes(1 + width * (3 if mode == 2 else 1))
    lines = b"".join([*(packer.compress(row) for _ in range(height)), packer.flush()])
    header = struct.pack(">IIBBBBB", width, height, 8, mode, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    """Return a picture of one colour."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "JPEG", quality=1)
    return buffer.getvalue()


def tar_with_json(folder: Path, size_bytes: int) -> Path:
    """Write a dataset of one shard, whose second sample has a large JSON part."""
    data = large_json(size_bytes)
    members: dict[str, Any] = {}
    for number in range(3):
        members |= {f"{number}.txt": b"a caption", f"{number}.json": data if number != 1 else b'{"caption": "c"}'}
    write_tar(folder / "s_0.tar", members)
    return folder


def zeros(file: IO[bytes], size_bytes: int) -> None:
    """Write zero bytes."""
    block = bytes(MIB)
    for _ in range(size_bytes // MIB):
        file.write(block)
    file.write(bytes(size_bytes % MIB))
