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

__all__ = ["ACCESS_KEY", "SECRET_KEY", "free_port", "s3_server", "server_process", "wait_for_port"]

ACCESS_KEY, SECRET_KEY = "demo", "demo-secret"
_PORTS = ("master.port", "volume.port", "filer.port", "s3.port", "admin.port")
_START_LIMIT_S = 40


@contextmanager
def s3_server(
    folder: Path, bucket: str, *, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY
) -> Iterator[str]:
    """Start a server with an empty bucket, and yield its URL; it ends with the context.

    Args:
        folder: Folder for its files, which must not exist.
        bucket: Name of the bucket.
        access_key: Name of the server's one user.
        secret_key: Key of this user.

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
    keys = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key, "HOME": str(folder)}
    with server_process(command, {**os.environ, **keys}, folder, ports["s3.port"]):
        yield f"http://127.0.0.1:{ports['s3.port']}"


@contextmanager
def server_process(command: list[str], environment: dict[str, str], folder: Path, port: int) -> Iterator[None]:
    """Run a server in a folder until the context ends; enter it when the port accepts connections.

    Raises:
        RuntimeError: The server did not start; with the end of its log.
    """
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=environment)
    try:
        wait_for_port(port, process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:  # it flushes its files, which are not read any more
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a port of this machine that nothing uses."""
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
