"""With a cache folder, the processes of a node send each request once, and later epochs send none."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loader import WorkerConfig, build_filter_index, get_savable_loader, get_train_dataset, random_access
from loader.errors import FormatError
from loader.storage.node_cache import node_cache
from loader.storage.protocol import FileInfo
from loader.storage.remote import RemoteStorage
from tests.e2e.dataset_tree import prepare, write_shard
from tests.object_server import FaultPlan, ObjectServer

_SCRIPT = Path(__file__).with_name("cached_readers.py")
_SAMPLES, _SAMPLE_BYTES = 40, 50_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A server with a prepared dataset, ``s3://b/ds``, and a cache."""
    folder = tmp_path / "bucket/b/ds"
    choice = random.Random(1)
    for shard in range(4):
        samples = {f"{number:05d}": {"bin": choice.randbytes(_SAMPLE_BYTES)} for number in range(_SAMPLES)}
        write_shard(folder / f"shard_{shard}.tar", samples)
    prepare(folder, compat=False)
    with ObjectServer(tmp_path / "bucket", faults=FaultPlan(latency_s=0.02)) as running:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
        _use(running, monkeypatch)
        monkeypatch.setenv("ENERGON_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setattr(node_cache, "_caches", {})
        yield running


def _use(server: ObjectServer, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
    """Set the endpoint as an option: clients of this process remember that of the environment."""
    monkeypatch.setenv("ENERGON_STORAGE_OPTIONS", json.dumps({"s3://b": {"endpoint_url": server.url, **options}}))


def _gets(server: ObjectServer, suffix: str) -> list[Any]:
    return [one for one in server.requests if one.method == "GET" and one.key.endswith(suffix)]


def _requested_bytes(requests: list[Any]) -> int:
    return sum(one.range[1] + 1 - one.range[0] for one in requests)


def _run(action: str, name: str, processes: int) -> list[str]:
    arguments = [action, "s3://b/ds", name, str(processes)]
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_sixteen_processes_get_a_block_once(server: ObjectServer, tmp_path: Path) -> None:
    expected = hashlib.sha256((tmp_path / "bucket/b/ds/shard_1.tar").read_bytes()).hexdigest()
    assert _run("read", "shard_1.tar", 16) == [expected] * 16
    assert len(_gets(server, "shard_1.tar")) == 1


@pytest.mark.parametrize("has_cache", [True, False])
@pytest.mark.sampled(2)
def test_eight_processes_download_a_column_once(
    server: ObjectServer, tmp_path: Path, has_cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_cache:
        monkeypatch.delenv("ENERGON_CACHE_DIR")
        monkeypatch.setenv("TMPDIR", str(tmp_path))
    (path,) = (tmp_path / "bucket/b/ds").glob(".nv-meta/index/*/key_hash.npy")
    name = str(path.relative_to(tmp_path / "bucket/b/ds"))
    assert _run("copy", name, 8) == [hashlib.sha256(path.read_bytes()).hexdigest()] * 8
    assert len(_gets(server, name)) == 1


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_an_epoch_fetches_each_block_once_and_the_next_one_nothing(
    server: ObjectServer, tmp_path: Path, workers: int
) -> None:
    def epoch(path: str) -> list[bytes]:
        config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
        dataset = get_train_dataset(
            path, worker_config=config, batch_size=4, shuffle_buffer_size=50, max_samples_per_sequence=5, repeat=False
        )
        with get_savable_loader(dataset) as loader:
            return [part for batch in loader for part in batch["bin"]]

    found = epoch("s3://b/ds")
    assert found == epoch(str(tmp_path / "bucket/b/ds"))
    reads = _gets(server, ".tar")
    assert _requested_bytes(reads) <= 1.08 * sum(map(len, found))
    assert len(reads) == len({one.key for one in reads})
    assert epoch("s3://b/ds") == found
    assert len(_gets(server, ".tar")) == len(reads)


def test_a_file_that_is_opened_without_a_version_is_not_cached(server: ObjectServer, tmp_path: Path) -> None:
    storage = RemoteStorage("s3://b/ds")
    with storage.open("shard_0.tar") as file:
        for start in (0, 100_000):
            file.read_at(start, 512)
    info = FileInfo(name="shard_0.tar", size_bytes=file.size_bytes, mtime_ns=0)
    with storage.open("shard_0.tar", info) as file:
        file.read_at(0, 512)
    assert _requested_bytes(_gets(server, ".tar")) == 3 * 512
    assert not [*(tmp_path / "cache").glob("*/blocks/*")]


def test_a_changed_object_is_no_cached_one(server: ObjectServer, tmp_path: Path) -> None:
    storage = RemoteStorage("s3://b/ds")
    (before,) = [info for info in storage.list() if info.name == "shard_0.tar"]
    path = tmp_path / "bucket/b/ds/shard_0.tar"
    old = path.read_bytes()
    with storage.open(before.name, before) as file:
        assert file.read_at(512, 10) == old[512:522]
    path.write_bytes(old[::-1])
    (after,) = [info for info in storage.list() if info.name == "shard_0.tar"]
    with storage.open(after.name, after) as file:
        assert file.read_at(512, 10) == old[::-1][512:522]
    with storage.open(before.name, before) as file:
        assert file.read_at(512, 10) == old[512:522]  # as it was prepared
    for block in (tmp_path / "cache").glob("*/blocks/*"):
        block.unlink()
    node_cache._caches.clear()
    with storage.open(before.name, before) as file, pytest.raises(FormatError, match="changed"):
        file.read_at(512, 10)


def test_buckets_of_one_name_on_two_services_are_two(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shard(tmp_path / "other/b/ds/shard_0.tar", {"0": {"bin": b"other"}})
    info = FileInfo(name="shard_0.tar", size_bytes=10_240, mtime_ns=1)
    write_shard(tmp_path / "bucket/b/ds/shard_0.tar", {"0": {"bin": b"first"}})
    storage = RemoteStorage("s3://b/ds")
    with storage.open(info.name, info) as file:
        assert file.read_at(512, 5) == b"first"
    with ObjectServer(tmp_path / "other") as other:
        _use(other, monkeypatch)
        with storage.open(info.name, info) as file:
            assert file.read_at(512, 5) == b"other"


def test_storage_options_name_the_cache(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(server, monkeypatch, cache_dir=str(tmp_path / "mine"), cache_bytes="1GB")
    storage = RemoteStorage("s3://b/ds")
    info = storage.stat("shard_0.tar")
    for _ in range(2):
        with storage.open(info.name, info) as file:
            file.read_at(0, 512)
    assert len(_gets(server, ".tar")) == 1
    assert len([*(tmp_path / "mine").glob("*/blocks/*")]) == 1
    _use(server, monkeypatch, cache_dir="")
    with storage.open(info.name, info) as file:
        file.read_at(0, 512)
    assert len(_gets(server, ".tar")) == 2


# -------------------------------------------------------------------------------------------------------- sparse reads


def _samples_of(path: str, **options: Any) -> list[bytes]:
    """Return the contents of the samples that an epoch reads."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle_buffer_size": 20, "max_samples_per_sequence": 1}
    dataset = get_train_dataset(path, worker_config=config, repeat=False, **arguments, **options)
    with get_savable_loader(dataset) as loader:
        return [part for batch in loader for part in batch["bin"]]


def test_samples_picked_by_number_fetch_no_others(server: ObjectServer) -> None:
    samples = random_access("s3://b/ds", "train")
    found = [samples[number]["bin"] for number in (3, 77, 50)]
    assert _requested_bytes(_gets(server, ".tar")) <= 1.1 * sum(map(len, found))


def test_samples_that_are_picked_from_a_cached_shard_are_not_fetched(server: ObjectServer) -> None:
    found = _samples_of("s3://b/ds")
    server.requests.clear()
    samples = random_access("s3://b/ds", "train")
    assert {samples[number]["bin"] for number in (3, 77, 50)} < set(found)
    assert _gets(server, ".tar") == []


@pytest.mark.parametrize(("kept", "is_sparse"), [(2, True), (20, False)])
def test_an_epoch_of_few_samples_fetches_no_whole_blocks(
    server: ObjectServer, tmp_path: Path, kept: int, is_sparse: bool
) -> None:
    numbers = [shard * _SAMPLES + row for shard in range(4) for row in range(0, _SAMPLES, _SAMPLES // kept)]
    build_filter_index(tmp_path / "bucket/b/ds", "some", numbers)
    found = _samples_of("s3://b/ds", filter_name="some")
    fetched = _requested_bytes(_gets(server, ".tar"))
    assert (fetched <= 1.1 * sum(map(len, found))) == is_sparse
    shards = sum(path.stat().st_size for path in (tmp_path / "bucket/b/ds").glob("*.tar"))
    assert is_sparse or fetched <= shards
