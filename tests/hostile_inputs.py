"""Inputs that are small on the disk and large in memory, and the time and memory that a command takes for them."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MIB = 1 << 20

# A process of its own: what Linux counts as the memory of a child begins with that of the process that forked it,
# which for a test is large. It prints a line of JSON, and kills the command and its workers after a time.
_LAUNCHER = """
import json, os, resource, signal, subprocess, sys, threading, time
report, address_space, cpu_s, timeout_s, *command = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_AS, (int(address_space),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s),) * 2)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
start = time.monotonic()
process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
killer = threading.Timer(float(timeout_s), os.killpg, (process.pid, signal.SIGKILL))
killer.start()
_, status, usage = os.wait4(process.pid, 0)
killer.cancel()
with open(report, "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), time.monotonic() - start, usage.ru_utime + usage.ru_stime,
               usage.ru_maxrss / 1024], file)
"""


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
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    address_space_mib: int = 12288,
    cpu_s: int = 60,
    timeout_s: float = 180,
) -> Measured:
    """Run a Python command in a process with limits on its address space and time.

    Args:
        command: Arguments of Python, such as ``-m energon_cli``.
        folder: The working folder of the command. Files for its output are made, and removed, next to it.
        environment: Further environment variables.
        address_space_mib: Limit for each of its processes. torch alone maps several GB.
        cpu_s: Processor time after which each of its processes is killed.
        timeout_s: The command and its processes are killed after this time.
    """
    report, printed = (folder.parent / f"measured.{ending}" for ending in ("json", "txt"))
    limits = [str(report), str(address_space_mib * MIB), str(cpu_s), str(timeout_s)]
    with printed.open("wb") as output:
        subprocess.run(
            [sys.executable, "-S", "-E", "-c", _LAUNCHER, *limits, sys.executable, *command],
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **environment},
            check=True,
        )
    code, seconds, cpu_seconds, peak_mib = json.loads(report.read_text())
    text = printed.read_bytes()[-4 * MIB :].decode("utf-8", "replace")
    report.unlink()
    printed.unlink()
    return Measured(code=code, seconds=seconds, cpu_seconds=cpu_seconds, peak_mib=peak_mib, output=text)


# ------------------------------------------------------------------------------------------------------- the inputs

Content = bytes | tuple[int, Callable[[IO[bytes]], None]]


def write_tar(path: Path, members: Mapping[str, Content]) -> Path:
    """Write a tar; a member is bytes, or its size and a function that writes its contents."""
    return write_members(path, [(tarfile.TarInfo(name), content) for name, content in members.items()])


def write_members(path: Path, members: Sequence[tuple[tarfile.TarInfo, Content]]) -> Path:
    """Write a tar of any members, whatever their names and types; a size that is set is kept, even if it is wrong."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for member, content in members:
            size = len(content) if isinstance(content, bytes) else content[0]
            member.size = member.size or size
            file.write(member.tobuf(tarfile.GNU_FORMAT))
            if isinstance(content, bytes):
                file.write(content)
            else:
                content[1](file)
            file.write(b"\0" * (-size % 512))
        file.write(b"\0" * 1024)
    return path


def repeated(text: bytes, size_bytes: int, *, head: bytes = b"", tail: bytes = b"") -> Content:
    """Return a content of this size, made of a short text, between two others."""
    times, rest = divmod(size_bytes - len(head) - len(tail), len(text))

    def write(file: IO[bytes]) -> None:
        block = text * 1024
        file.write(head)
        for _ in range(times // 1024):
            file.write(block)
        file.write(text * (times % 1024) + tail + b" " * rest)

    return size_bytes, write


def large_json(size_bytes: int) -> Content:
    """Return a document of small values, which take many times their size in memory."""
    return repeated(b'{"a":1,"b":[2,3]},', size_bytes, head=b'{"items":[', tail=b'{}],"caption":"c"}')


def png(width: int, height: int, *, mode: int = 2) -> bytes:
    """Return a picture of one colour; mode 0 is grey, 2 is RGB."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(1)
    row = bytes(1 + width * (3 if mode == 2 else 1))
    lines = b"".join([*(packer.compress(row) for _ in range(height)), packer.flush()])
    header = struct.pack(">IIBBBBB", width, height, 8, mode, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def array_header(shape: str, kind: str = "<f8") -> bytes:
    """Return an .npy file without its values."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def member(name: str, kind: bytes = tarfile.REGTYPE, *, target: str = "", size_bytes: int = 0) -> tarfile.TarInfo:
    """Return a header of a tar."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size_bytes
    return info


def zeros_in(file: IO[bytes], size_bytes: int, *, head: bytes = b"") -> None:
    """Write zero bytes into a compressed file, and close it."""
    with file:
        file.write(head)
        for _ in range(size_bytes // MIB):
            file.write(bytes(MIB))


def tar_head(name: str, size_bytes: int) -> bytes:
    """Return the header of a tar's member."""
    return member(name, size_bytes=size_bytes).tobuf(tarfile.GNU_FORMAT)


def npz(array: bytes) -> bytes:
    """Return an .npz of one array."""
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", array)
    return buffer.getvalue()
