"""Clusters that are none, or that end while tasks run."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loader.engine import clusters, executor, named_engine, ray_executor
from loader.engine.dask_executor import DaskEngine
from loader.engine.ray_executor import RayEngine, RayExecutor
from loader.engine.run import Engine
from loader.errors import ConfigError, WorkerError


@pytest.fixture(params=[b"HTTP/1.1 400 Bad Request\r\n\r\n", b""], ids=["web server", "silent server"])
def other_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of a server of another kind, which answers or does not."""
    monkeypatch.setattr(clusters, "_CONNECT_S", 0.5)
    server = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection = server.accept()[0]
                connections.append(connection)
                connection.sendall(request.param)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_another_program_at_the_address_is_named(engine: str, other_server: str) -> None:
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[engine])
    opens = named_engine(engine).open(other_server, 1, 0.0)
    with pytest.raises(WorkerError, match="another program answers at this address") as caught, opens:
        pass
    assert f"at: {other_server}" in str(caught.value)


def test_another_program_at_the_address_in_a_file_of_dask_is_named(other_server: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"type": "Scheduler", "address": f"tcp://{other_server}"}))
    with (
        pytest.raises(WorkerError, match="another program answers at this address") as caught,
        DaskEngine.open(str(file), None, 0.0),
    ):
        pass
    assert f"at: {file}" in str(caught.value)


def test_an_address_of_dask_with_tls_but_no_certificates_is_named() -> None:
    pytest.importorskip("distributed")
    with (
        pytest.raises(WorkerError, match="cannot connect to the Dask scheduler: TLS expects") as caught,
        DaskEngine.open("tls://127.0.0.1:9", None, 0.0),
    ):
        pass
    assert "set distributed.comm.tls in Dask's configuration" in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[1]", '{"address": 7}', '{"id": "x"}'])
def test_a_file_that_is_of_no_scheduler_is_named(content: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "scheduler.json").write_text(content)
    with (
        pytest.raises(ConfigError, match="this is neither the file of a Dask scheduler"),
        DaskEngine.open(str(tmp_path / "scheduler.json"), None, 0.0),
    ):
        pass


def test_a_missing_ray_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(clusters, "check_server", lambda *_, **__: None)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with (
        pytest.raises(WorkerError, match=r"pip package `ray\[client\]`") as caught,
        RayEngine.open("ray://127.0.0.1:1", 1, 0.0),
    ):
        pass
    assert caught.value.hint == "pip install 'ray[client]'"


def test_a_lost_head_of_ray_ends_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (executor, ray_executor):
        monkeypatch.setattr(module, "CHECK_PERIOD_S", 0.05)
    ray = SimpleNamespace(remote=lambda **_: lambda _: None)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        head = f"127.0.0.1:{server.getsockname()[1]}"
        actors = RayExecutor(ray, 0, head=head)  # none takes a task
        actors.check_alive()
    with actors, pytest.raises(WorkerError, match="the Ray cluster is lost: its head does not answer") as caught:
        list(Engine(executor=actors).run(abs, [1, 2]))
    assert f"at: {head}" in str(caught.value)
    assert "the same command continues where it stopped" in str(caught.value)


class Lost(Executor):
    """A cluster whose scheduler is lost: its client cancels the tasks."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_a_lost_scheduler_is_named_and_no_task() -> None:
    with pytest.raises(WorkerError, match=r"the cluster is lost: its scheduler has ended\n.*same command continues"):
        list(Engine(executor=Lost()).run(abs, [1]))
