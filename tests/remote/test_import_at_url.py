"""Imports to an object store: the same dataset as on a disk, no shard is read, and a killed import continues."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.forked_commands import program
from tests.object_server import ObjectServer
from tests.remote.test_prepare_requests import energon, server
from tests.unit.convert.importing.test_run import samples_of, shards_of, write_photos

__all__ = ["server"]  # a fixture

URL = "s3://bucket/photos"
OPTIONS = ("--yes", "--samples-per-shard", "7", "--num-workers", "2")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")


def test_an_import_writes_what_one_on_a_disk_writes_and_reads_no_shard(
    server: ObjectServer, photos: Path, tmp_path: Path
) -> None:
    energon("import", str(photos), str(tmp_path / "disk"), *OPTIONS)
    energon("import", str(photos), URL, *OPTIONS)
    stored = tmp_path / "store/bucket/photos"
    assert shards_of(stored) == shards_of(tmp_path / "disk")
    assert (stored / ".nv-meta/split.yaml").read_bytes() == (tmp_path / "disk/.nv-meta/split.yaml").read_bytes()
    assert not [request for request in server.requests if request.method == "GET" and request.key.endswith(".tar")]
    assert not [*stored.glob(".nv-meta/.import/*")]
    assert samples_of(stored) == samples_of(tmp_path / "disk")


def test_files_at_urls_are_a_source(server: ObjectServer, photos: Path, tmp_path: Path) -> None:
    energon("import", str(photos), URL, *OPTIONS)
    energon("import", f"{URL}/shard_000000.tar", str(tmp_path / "again"), "--yes", "--from", "webdataset")
    assert len(samples_of(tmp_path / "again")) == 7


def test_an_interrupted_import_continues(server: ObjectServer, photos: Path, tmp_path: Path) -> None:
    (photos / "039.jpg").write_bytes(b"no picture")
    command = [program(), "import", str(photos), URL, *OPTIONS, "--verify"]
    failed = subprocess.run([*command, "--max-failures", "0"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "1 of 40 samples failed" in failed.stderr
    done = {file.stem for file in tmp_path.glob("store/bucket/photos/.nv-meta/.import/*.json")}
    assert len(done) >= 2
    server.requests.clear()
    energon(*command[1:], "--max-failures", "1")
    written = {request.key.rpartition("/")[2] for request in server.requests if request.method == "PUT"}
    assert written.isdisjoint(done)
    assert len(samples_of(tmp_path / "store/bucket/photos")) == 39
