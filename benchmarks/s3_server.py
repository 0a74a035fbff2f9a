"""Run SeaweedFS, a real S3 server that comes as a wheel, on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ACCESS_KEY", "SECRET_KEY", "free_port", "s3_server", "wait_for_port"]

ACCESS_KEY, SECRET_KEY = "demo", "demo-secret"
_PORTS = ("master.port", "volume.port", "filer.port", "s3.port", "admin.port")
_START_LIMIT_S = 40


@contextmanager
def s3_server(folder: Path, bucket: str) -> Iterator[str]:
    """Start a server with an empty bucket, and yield its URL; it ends with the context.

    Args:
        folder: Folder for its files, which must not exist.
        bucket: Name of the bucket.

    Raises:
        RuntimeError: The server did not start; with the end of its log.
    """
    folder.mkdir(parents=True)
    ports = {name: free_port() for name in (*_PORTS, *(f"{name}.grpc" for name in _PORTS))}
    ports |= {name: free_port() for name in ("s3.port.iceberg", "s3.port.lance")}
    command = [
        str(Path(sys.executable).with_name("weed")),
        "mini",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-admin.ui=false",
        "-webdav=false",
        f"-bucket={bucket}",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "HOME": str(folder)}
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env={**os.environ, **keys})
    try:
        wait_for_port(ports["s3.port"], process, log)
        yield f"http://127.0.0.1:{ports['s3.port']}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def free_port() -> int:
    """Return the number of a port that no program uses."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server accepts connections.

    Raises:
        RuntimeError: It did not start; with the end of its log.
    """
    limit = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < limit and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
