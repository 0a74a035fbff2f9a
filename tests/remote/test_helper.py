"""The helper process answers all requests before it ends, forgets listings, and has the variables of its parent."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loader.errors import StorageError
from loader.storage import open_storage
from loader.storage.remote.clients import helper_client
from loader.storage.remote.clients.helper_client import HelperClient
from loader.storage.remote.object_url import parse_object_url
from loader.storage.remote.options import options_for
from tests.object_server import FaultPlan, ObjectServer
from tests.processes import wait_until

LIMIT_S = 20
URL = "s3://data/ds"
WHERE = (parse_object_url(URL), options_for(URL))


@pytest.fixture
def served(server: ObjectServer, tmp_path: Path) -> Iterator[ObjectServer]:
    folder = tmp_path / "objects/data/ds"
    folder.mkdir(parents=True)
    (folder / "x").write_bytes(b"0123456789")
    for number in range(2500):  # three pages
        (folder / f"{number:04}").touch()
    yield server
    server.faults = FaultPlan()


def test_a_helper_without_a_parent_answers_its_requests_and_ends(served: ObjectServer) -> None:
    served.faults = FaultPlan(latency_s=1)
    helper = helper_client._Helper()
    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(helper.call, *WHERE, "get_all", "ds/x") for _ in range(3)]
        wait_until(lambda: len(served.requests) == 3, timeout_s=LIMIT_S)
        helper.close()
        assert [bytes(answer.result(LIMIT_S)[0]) for answer in answers] == 3 * [b"0123456789"]
    assert helper._process.wait(LIMIT_S) == 0


def test_a_helper_that_was_asked_nothing_ends(served: ObjectServer) -> None:
    helper = helper_client._Helper()
    helper.close()
    assert helper._process.wait(LIMIT_S) == 0
    assert not served.requests


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_a_helper_outlives_signals_to_all_processes(served: ObjectServer, number: signal.Signals) -> None:
    helper = helper_client._Helper()
    for _ in range(2):
        assert bytes(helper.call(*WHERE, "get_all", "ds/x")[0]) == b"0123456789"
        os.kill(helper._process.pid, number)
    helper.close()
    assert helper._process.wait(LIMIT_S) == 0


def test_a_listing_that_is_given_up_is_forgotten(served: ObjectServer) -> None:
    pages: Any = HelperClient(*WHERE).pages("ds/")
    assert len(next(pages)) == 1000
    listing = next(helper_client._listings) - 1
    assert len(helper_client._current().call(*WHERE, "next page", listing)) == 1000
    pages.close()
    requests = len(served.requests)
    with pytest.raises(StorageError, match="KeyError"):
        helper_client._current().call(*WHERE, "next page", listing)
    assert len(served.requests) == requests


def test_a_helper_that_starts_while_the_endpoint_changes_is_replaced(
    served: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            os.environ["AWS_ENDPOINT_URL"] = served.url  # as by another thread

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", Popen)
        first = helper_client._current()
    assert open_storage(URL).read("x") == b"0123456789"
    assert first._process.wait(LIMIT_S) == 0
