"""Datasets on web servers: no package is needed, and files are read-only."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from loader import WorkerConfig, get_savable_loader, get_train_dataset
from loader.errors import FormatError, StorageError
from loader.inspect.runs import PlannedRun, RunRequest, explain_run
from loader.pipeline.reading.read_ahead import READ_AHEAD_BYTES
from loader.storage import Storage, open_storage
from loader.storage.node_cache.private_folder import CACHE_BYTES_VARIABLE, CACHE_FOLDER_VARIABLE
from loader.storage.remote import remember_options
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.e2e.dataset_tree import prepare, write_shards
from tests.object_server import Fault, FaultPlan, ObjectServer

CONTENT = bytes(range(256)) * 8


@pytest.fixture
def storage(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
    remember_options(server.url, {"stall_s": 0.5, "deadline_s": 20})
    (tmp_path / "objects/data/ds").mkdir()
    (tmp_path / "objects/data/ds/x +é%.bin").write_bytes(CONTENT)
    return open_storage(f"{server.url}/data/ds")


NAME = "x +é%.bin"


def test_files_are_read_whole_and_in_ranges(storage: Storage, server: ObjectServer) -> None:
    assert storage.read(NAME) == CONTENT
    assert storage.read(NAME, 10, 500) == CONTENT[10:500]
    assert storage.stat(NAME).size_bytes == len(CONTENT)
    assert storage.stat(NAME).etag
    assert storage.exists(NAME)
    assert not storage.exists("gone")
    with storage.open(NAME) as file:
        pending = [file.fetch(start, 16) for start in range(200)]
        assert all(one and one.result() == CONTENT[start : start + 16] for start, one in enumerate(pending))
    assert storage.local_path(NAME).read_bytes() == CONTENT


PASSING = ("503", "500", "429", "408", "reset", "reset in body", "short body", "stall", "whole object", "wrong range")


@pytest.mark.parametrize("kind", PASSING)
def test_a_fault_that_passes_costs_one_more_request(storage: Storage, server: ObjectServer, kind: str) -> None:
    server.faults = FaultPlan(faults=[Fault(kind=kind, requests=[0])])
    assert storage.read(NAME, 10, 500) == CONTENT[10:500]
    assert len(server.requests) == 2


def test_the_pause_that_a_server_requests_is_made(storage: Storage, server: ObjectServer) -> None:
    server.faults = FaultPlan(faults=[Fault(kind="503", requests=[0], retry_after_s=1)])
    assert storage.read(NAME) == CONTENT
    first, second = server.requests
    assert second.started - first.started >= 1


def test_what_does_not_pass_is_not_tried_again(storage: Storage, server: ObjectServer) -> None:
    info = storage.stat(NAME)
    server.start_again()
    with pytest.raises(StorageError, match="does not exist"):
        storage.read("gone")
    with pytest.raises(FormatError, match="it is shorter now"):
        storage.read(NAME, 5000, 6000)
    server.faults = FaultPlan(faults=[Fault(kind="changed etag")])
    with storage.open(NAME, info) as file, pytest.raises(FormatError, match="changed while it was read"):
        file.read_at(0, 9)
    assert len(server.requests) == 3 + 4  # the last ones look whether two versions alternate


def test_a_web_server_lists_and_takes_no_files(storage: Storage) -> None:
    with pytest.raises(StorageError, match="a web server lists no files"):
        list(storage.list())
    with pytest.raises(StorageError, match="read-only"):
        storage.write("new", b"1")


@pytest.fixture
def redirecting(storage: Storage, server: ObjectServer) -> Iterator[str]:
    """The URL of a server that redirects ``/ds/NAME`` to our server, and ``/loop/NAME`` to itself, endlessly."""

    class Redirect(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            target = f"{server.url}/data{self.path}?X-Amz-Signature=planted" if "/ds/" in self.path else self.path
            self.send_response(302)
            self.send_header("Location", target if "/bad/" not in self.path else "file:///etc/passwd")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815 - the name of the base class

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - likewise
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirect) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()
        thread.join()


def test_redirects_are_followed_five_times(redirecting: str, server: ObjectServer) -> None:
    assert open_storage(f"{redirecting}/ds").read(NAME, 10, 500) == CONTENT[10:500]
    with pytest.raises(StorageError, match="redirects more than 5 times"):
        open_storage(f"{redirecting}/loop").read("x")
    with pytest.raises(StorageError, match="redirects to a URL that is not safe"):
        open_storage(f"{redirecting}/bad").read("x")
    server.faults = FaultPlan(faults=[Fault(kind="403")])
    with pytest.raises(StorageError, match="403") as caught:
        open_storage(f"{redirecting}/ds").read(NAME)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_a_dataset_is_loaded_from_a_web_server(tmp_path: Path, server: ObjectServer, workers: int) -> None:
    folder = write_shards(tmp_path / "objects/data/ds", 4, samples=10)
    prepare(folder, compat=False)

    def texts(path: str) -> list[list[str]]:
        config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
        options: Any = {"shuffle_buffer_size": None, "max_samples_per_sequence": None}
        with get_savable_loader(get_train_dataset(path, worker_config=config, batch_size=4, **options)) as loader:
            batches = iter(loader)
            return [next(batches)["txt"] for _ in range(20)]

    assert texts(f"{server.url}/data/ds") == texts(str(folder))
    assert not any(request.is_listing for request in server.requests)


HIDDEN = """
import sys
for name in ("obstore", "multistorageclient", "boto3"):
    sys.modules[name] = None
from loader.errors import ConfigError
from loader.storage import open_storage
from loader.storage.remote.clients.choice import use_rust_here
assert open_storage(sys.argv[1]).read("x +é%.bin")
for way in ("helper", "direct"):
    for url in ("s3://data/ds", "gs://data/ds", "az://data/ds", "msc://profile/ds"):
        try:
            open_storage(url).read("x")
        except ConfigError as error:
            assert "energon-toolkit[" + ("msc" if "msc" in url else "remote") + "]" in str(error), error
        else:
            raise AssertionError(url)
    use_rust_here()
"""


def test_a_missing_extra_is_named(storage: Storage, server: ObjectServer, tmp_path: Path) -> None:
    """The helper is another process, where the packages must be hidden, too."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfor name in ('obstore', 'multistorageclient', 'boto3'):\n    sys.modules[name] = None\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, f"{server.url}/data/ds"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_run_of_remote_datasets_is_explained(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(write_shards(tmp_path / "objects/data/ds", samples=20))
    prepare(write_shards(tmp_path / "near", samples=20))
    mix = tmp_path / "mix.yaml"
    mix.write_text(
        "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        f"      - {{weight: 1, path: {server.url}/data/ds}}\n      - {{weight: 1, path: near}}\n"
    )
    monkeypatch.setenv(CACHE_FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(CACHE_BYTES_VARIABLE, "3MB")
    request = RunRequest(path=str(mix), num_workers=2)
    facts = explain_run(PlannedRun(request), 100)
    assert [one.storage for one in facts.storages] == ["http", "local"]
    assert [one.storage for one in facts.sources] == ["http", "local"]
    assert facts.cache_bytes == 3_000_000
    assert facts.read_ahead_bytes == 2 * READ_AHEAD_BYTES
    monkeypatch.delenv(CACHE_FOLDER_VARIABLE)
    assert explain_run(PlannedRun(request), 100).cache_bytes == 0
