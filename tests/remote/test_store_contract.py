"""The promises of remote stores, on every kind of server and in both ways of sending requests."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader.errors import FormatError, StorageError
from loader.format.index.remote_shard import RemoteIndexer, ScanMode
from loader.storage import Storage, open_storage
from loader.storage.remote import RemoteStorage, remember_options
from loader.storage.remote.clients import choice
from loader.storage.remote.options import OPTIONS_VARIABLE
from loader.testing.storage import StorageContract, write
from tests.e2e.dataset_tree import write_tar
from tests.object_server import FaultPlan, ObjectServer

from .conftest import AZURE_KEY

BACKENDS = (
    "own server",
    pytest.param("own server, helper process", marks=pytest.mark.slow),
    "SeaweedFS",
    pytest.param("SeaweedFS, helper process", marks=pytest.mark.slow),
    pytest.param("msc", marks=pytest.mark.slow),
    pytest.param("msc, posix", marks=pytest.mark.slow),
    "GCS on our server",
    "Azurite",
)
MSC_CONFIG = """
profiles:
  s3:
    storage_provider:
      type: s3
      options: {{base_path: data/below, endpoint_url: '{url}', region_name: us-east-1}}
    credentials_provider:
      type: S3Credentials
      options: {{access_key: A, secret_key: B}}
  posix:
    storage_provider: {{type: file, options: {{base_path: '{folder}'}}}}
"""


@pytest.fixture(params=BACKENDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    backend: str = request.param
    monkeypatch.setattr(choice, "_is_told", "helper" not in backend)
    if backend.startswith("Sea"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3_url"))
        yield open_storage(f"s3://data/{tmp_path.name}")
        return
    if backend == "Azurite":
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY)
        monkeypatch.setenv(OPTIONS_VARIABLE, "")
        remember_options("az://data", {"endpoint_url": request.getfixturevalue("azure_url")})
        yield open_storage(f"az://data/{tmp_path.name}")
        return
    server: ObjectServer = request.getfixturevalue("server")
    if backend.startswith("GCS"):
        monkeypatch.setenv(OPTIONS_VARIABLE, "")
        account = {
            "gcs_base_url": server.url,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
        remember_options("gs://data", {"endpoint_url": server.url})
        yield open_storage("gs://data/ds")
        return
    if not backend.startswith("msc"):
        yield open_storage("s3://data/ds")
        return
    pytest.importorskip("multistorageclient")
    (tmp_path / "files").mkdir()
    (tmp_path / "msc.yaml").write_text(MSC_CONFIG.format(url=server.url, folder=tmp_path / "files"))
    monkeypatch.setenv("MSC_CONFIG", str(tmp_path / "msc.yaml"))
    yield open_storage("msc://posix/ds" if "posix" in backend else "msc://s3/ds")


def remote(storage: Storage) -> RemoteStorage:
    assert isinstance(storage, RemoteStorage)
    return storage


class TestRemoteStorage(StorageContract):
    """The promises of every store."""


def test_ranges_are_fetched_at_the_same_time(storage: Storage) -> None:
    write(storage, "x", b"0123456789")
    with storage.open("x") as file:
        ranges = [file.fetch(start, 3) for start in range(8)]
        assert [pending.result() for pending in ranges if pending] == [b"0123456789"[at : at + 3] for at in range(8)]


@pytest.mark.sampled(3)
def test_a_large_file_survives_the_way_there_and_back(storage: Storage) -> None:
    content = os.urandom(17 << 20)
    write(storage, "large", content)
    assert storage.read("large") == content
    with storage.open("large") as file:
        pending = file.fetch(1000, 16 << 20)
        assert pending is not None
        assert pending.result() == content[1000 : 1000 + (16 << 20)]
    assert storage.local_path("large").read_bytes() == content


def test_stat_gives_size_time_and_version(storage: Storage) -> None:
    before = time.time()
    write(storage, "a/x", b"123")
    first = storage.stat("a/x")
    assert (first.name, first.size_bytes) == ("a/x", 3)
    assert abs(first.mtime_ns / 1e9 - before) < 60
    assert storage.stat("a/x") == first
    (listed,) = storage.list()
    assert (listed.name, listed.size_bytes, listed.etag) == ("a/x", 3, first.etag)


def test_a_name_exists_as_a_file_or_as_a_folder(storage: Storage) -> None:
    write(storage, "a/x", b"")
    assert storage.exists("a")
    assert storage.exists("a/x")
    assert not storage.exists("b")
    assert storage.read("a/x") == b""


def test_a_name_that_leads_out_is_refused(storage: Storage) -> None:
    for name in ("../x", "/x", "a/../../x", "a\0b"):
        with pytest.raises(StorageError, match=r"leads out|no file has the name"):
            storage.read(name)


def test_a_write_on_a_condition_happens_only_if_it_holds(storage: Storage) -> None:
    store = remote(storage)
    first = store.put("x", b"one", if_absent=True)
    with pytest.raises(StorageError, match="it exists"):
        store.put("x", b"two", if_absent=True)
    assert store.read("x") == b"one"
    if not first:
        pytest.skip("files of a disk have no versions")
    second = store.put("x", b"three", if_etag=first)
    with pytest.raises(StorageError, match="another version"):
        store.put("x", b"four", if_etag=first)
    assert store.read("x") == b"three"
    assert store.stat("x").etag == second != first


def test_a_write_over_a_version_that_another_writer_replaces_is_refused(
    storage: Storage, server: ObjectServer, request: pytest.FixtureRequest
) -> None:
    """The other write arrives between the requests of this one, of which GCS needs two."""
    if request.node.callspec.params["storage"] not in ("own server", "msc", "GCS on our server"):
        pytest.skip("needs a server that this test can change in the middle of a request")
    store = remote(storage)
    first = store.put("x", b"one")
    (key,) = {one.key for one in server.requests if one.method == "PUT"}

    def choose(method: str, key: str, number: int) -> None:
        if method == "PUT":
            server.objects.put(key, b"another")

    server.faults = FaultPlan(choose=choose)
    with pytest.raises(StorageError, match="another version"):
        store.put("x", b"two", if_etag=first)
    assert server.objects.find(key).path.read_bytes() == b"another"


def test_a_write_over_a_version_of_a_missing_file_is_refused(storage: Storage) -> None:
    store = remote(storage)
    etag = store.put("x", b"one")
    if not etag:
        pytest.skip("files of a disk have no versions")
    store.remove_files(["x"])
    with pytest.raises(StorageError):
        store.put("x", b"two", if_etag=etag)
    assert not store.exists("x")


def test_a_changed_file_is_noticed_by_every_read(storage: Storage) -> None:
    write(storage, "x", b"0123456789")
    info = storage.stat("x")
    if not info.etag:
        pytest.skip("files of a disk have no versions")
    time.sleep(0.01)
    write(storage, "x", b"9876543210")
    with storage.open("x", info) as file, pytest.raises(FormatError, match="changed while it was read"):
        file.read_at(0, 5)
    write(storage, "x", b"012")
    with storage.open("x", info) as file:
        for start in (0, 8):
            with pytest.raises(FormatError, match="changed while it was read"):
                file.read_at(start, 2)


@pytest.mark.parametrize("mode", ["hop", "stream"])
def test_a_shard_that_shrinks_after_the_listing_is_no_whole_one(
    storage: Storage, tmp_path: Path, mode: ScanMode
) -> None:
    write_tar(tmp_path / "shard.tar", [(f"{number}.bin", bytes(30_000)) for number in range(40)])
    content = (tmp_path / "shard.tar").read_bytes()
    write(storage, "shard.tar", content)
    (listed,) = storage.list()
    for size_bytes in (512 * 400, 512):  # inside a member, and after the first header
        write(storage, "shard.tar", content[:size_bytes])
        with pytest.raises(FormatError, match=r"replaced|changed while it was read|shorter|truncated|ends"):
            RemoteIndexer(remote(storage), mode, at_once=4).index(listed)


def test_a_pickled_store_holds_no_secret_and_reads(storage: Storage) -> None:
    write(storage, "x", b"1")
    pickled = pickle.dumps(storage)
    assert b"planted" not in pickled
    assert pickle.loads(pickled).read("x") == b"1"
