"""Outages of a service that runs in a process of its own: it is gone, or it accepts connections and never answers.

They last some seconds; ``ENERGON_TEST_OUTAGE_S=300`` makes them five minutes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader.errors import StorageError
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.e2e.dataset_tree import prepare, write_shards

from .runs_at_url import URL, RunToFailure, keys, loader_of, skipped

ROOT = Path(__file__).parents[2]
BATCHES = 400
OUTAGE_S = float(os.environ.get("ENERGON_TEST_OUTAGE_S", "6"))
KINDS = ("refused", "silent")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * OUTAGE_S + 240)]


class Store:
    """An object server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.object_server", str(self._folder), "--port", str(self._port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()
        self._port = int(self.url.rpartition(":")[2])

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def begin_outage(self, kind: str) -> None:
        """Refuse connections, or accept them (as the system does for a stopped process) and answer nothing."""
        if kind == "refused":
            self.close()
        else:
            self._process.send_signal(signal.SIGSTOP)

    def end_outage(self, kind: str) -> None:
        if kind == "refused":
            self.start()
        else:
            self._process.send_signal(signal.SIGCONT)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = write_shards(tmp_path / "objects/data/ds", 20, samples=30)
    prepare(folder, compat=False)
    return folder


@pytest.fixture
def store(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv(OPTIONS_VARIABLE, "")
    monkeypatch.delenv("ENERGON_CACHE_DIR")  # each read is a request
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = Store(tmp_path / "objects")
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
    yield store
    store.end_outage("silent")
    store.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_an_outage_of_half_the_deadline_changes_nothing(dataset: Path, store: Store, kind: str, workers: int) -> None:
    with loader_of(dataset, workers) as local:
        expected = keys(local, BATCHES)
    with loader_of(URL, workers, deadline_s=2 * OUTAGE_S, stall_s=min(10.0, OUTAGE_S / 4)) as remote:
        batches = iter(remote)
        found = [next(batches)["__key__"] for _ in range(10)]
        store.begin_outage(kind)
        timer = threading.Timer(OUTAGE_S, store.end_outage, [kind])
        timer.start()
        found += [next(batches)["__key__"] for _ in range(BATCHES - 10)]
        is_over = timer.finished.is_set()
        timer.join()
    assert found == expected
    assert is_over, "all batches had been read ahead"
    assert not skipped


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_longer_outage_is_one_error_and_the_run_resumes_exactly(
    dataset: Path, store: Store, kind: str, workers: int
) -> None:
    with loader_of(dataset, workers) as local:
        expected = keys(local, BATCHES)
    run = RunToFailure(workers, lambda: store.begin_outage(kind), deadline_s=1, stall_s=0.5)
    cause = "connection was refused" if kind == "refused" else "no byte arrived in time"
    with pytest.raises(StorageError, match=re.escape(cause)) as caught:
        run.run()
    assert "s3://data/ds/shard_" in str(caught.value)
    assert not skipped
    store.end_outage(kind)
    assert run.resume(BATCHES) == expected
    assert not skipped
