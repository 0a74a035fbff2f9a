"""Datasets in a bucket of an object server, next to the same files on this machine."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.make_mix import write_datasets
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.object_server import ObjectServer
from tests.remote.urls.bucket import Bucket


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_datasets(tmp_path_factory.mktemp("datasets"))


@pytest.fixture
def bucket(datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """The bucket ``s3://b`` with a copy of the datasets, and nothing else that can be reached."""
    folder = tmp_path / "objects/b"
    shutil.copytree(datasets, folder)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTACCESSKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret-key")
    monkeypatch.delenv("ENERGON_CACHE_DIR", raising=False)  # its blocks would be larger than the files
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ObjectServer(tmp_path / "objects") as server:
        options = {"endpoint_url": server.url, "deadline_s": 5.0}
        monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", json.dumps({"": options}))
        yield Bucket(folder, server)


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    """Run the program in this process, with one worker by default; ``answers`` are piped to it."""
    return run_in_this_process(capfd, monkeypatch)
