"""Objects whose names no path can have are named and skipped, and all others are used."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from obstore.store import GCSStore

from loader import EPath
from loader.errors import StorageError
from loader.storage import open_storage
from loader.storage.remote import remember_options, remote_storage
from loader.storage.remote.clients import choice, obstore_client
from loader.storage.remote.clients.obstore_client import open_s3_store
from loader.storage.remote.failures import Remedy, RequestFailure
from loader.storage.remote.options import OPTIONS_VARIABLE, StorageOptions
from tests.cli.run_energon import RunEnergon, run_in_this_process
from tests.e2e.dataset_tree import write_shards
from tests.object_server import Fault, FaultPlan, ObjectServer

NAMES = ("/odd.txt", "./x.tar", "../y.tar", "a//b/z.tar", 'say "hi"//ü+ &.tar')
SHARDS = [f"shard_00{number}.tar" for number in range(3)]
URL = "s3://data/ds"


@pytest.fixture
def folder(server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(remote_storage, "_logged", set())
    monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
    folder = write_shards(tmp_path / "objects/data/ds", 3, samples=6)
    (tmp_path / "odd.tar").write_bytes((folder / SHARDS[0]).read_bytes())
    server.objects.odd = {f"data/ds/{name}": tmp_path / "odd.tar" for name in NAMES}
    return folder


@pytest.mark.parametrize("way", ["direct", "helper process", "anonymous"])
def test_a_listing_names_them_and_goes_on(
    folder: Path, way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choice, "_is_told", way != "helper process")
    remember_options(URL, {"anonymous": way == "anonymous"})
    storage = open_storage(URL)
    skipped: list[str] = []
    assert [info.name for info in storage.list(on_skipped=skipped.append)] == SHARDS
    assert skipped == sorted(NAMES)
    assert all(info == storage.stat(info.name) and info.etag for info in storage.list())
    assert sorted(path.name for path in EPath(URL).glob("**/*.tar")) == SHARDS
    (record,) = caplog.records
    start = f"skipped objects with an empty part, '.' or '..' in their names: 5, such as {URL}/../y.tar, {URL}/./x.tar"
    assert record.getMessage().startswith(start)


def test_a_service_account_of_google_signs_listings(folder: Path, server: ObjectServer, direct: None) -> None:
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    key = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    account = json.dumps({"client_email": "me@x", "private_key_id": "1", "private_key": key})
    store = GCSStore("data", service_account_key=account, base_url=server.url, client_options={"allow_http": True})
    (page,) = obstore_client.signed_pages(store, "ds/", RequestFailure("odd name", Remedy.GIVE_UP))
    assert sorted(each["path"] for each in page) == sorted(f"ds/{name}" for name in (*NAMES, *SHARDS))


def test_a_long_listing_is_read_to_its_end(folder: Path, server: ObjectServer, direct: None) -> None:
    server.objects.odd |= {f"data/ds//{number:05}.tar": folder / SHARDS[0] for number in range(2500)}
    storage = open_storage(URL)
    skipped: list[str] = []
    assert [info.name for info in storage.list(on_skipped=skipped.append)] == SHARDS
    assert len(skipped) == 2505
    assert sum(request.is_listing for request in server.requests) == 4


def test_a_fault_of_the_service_passes(folder: Path, server: ObjectServer, direct: None) -> None:
    server.faults = FaultPlan(faults=[Fault(kind="503", requests=[0, 2])])
    assert len(list(open_storage(URL).list())) == 3


@pytest.mark.parametrize("fault", ["no signature", "403"])
def test_a_listing_that_is_not_signed_ends_with_the_name(
    folder: Path, server: ObjectServer, direct: None, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "no signature":
        monkeypatch.setattr(obstore_client, "_ENDPOINTS", {})  # as of Azure, whose emulator is not everywhere
    server.faults = FaultPlan(faults=[Fault(kind="403", requests=range(1, 9))] if fault == "403" else [])
    with pytest.raises(StorageError, match=r'invalid path: .*"ds/\.\./y\.tar"') as caught:
        list(open_storage(URL).list())
    assert isinstance(caught.value.__cause__, RequestFailure)
    assert caught.value.__cause__.remedy is Remedy.GIVE_UP
    assert "network" not in str(caught.value)


def test_a_real_server_accepts_obstore_clients(
    s3_url: str, tmp_path: Path, direct: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stores no odd names itself."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_url)
    storage = open_storage(f"s3://data/{tmp_path.name}")
    for name in ("a.tar", "b/c d+é%&.tar"):
        storage.write(name, b"1234")
    failure = RequestFailure("odd name", Remedy.GIVE_UP)
    (page,) = obstore_client.signed_pages(open_s3_store("data", StorageOptions()), f"{tmp_path.name}/", failure)
    found = [(each["path"].partition("/")[2], each["size"], each["e_tag"].strip('"')) for each in page]
    assert found == [(info.name, info.size_bytes, info.etag) for info in storage.list()]


@pytest.fixture
def energon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunEnergon:
    return run_in_this_process(capfd, monkeypatch)


def test_commands_name_them_once_and_go_on(folder: Path, energon: RunEnergon) -> None:
    for command, code in (
        (("info", URL), 0),
        (("preview", URL, "-n", 1), 0),
        (("prepare", URL, "--yes", "--json"), 0),
        (("info", URL, "--json"), 0),
        (("lint", URL, "--level", "decode"), 0),
    ):
        remote_storage._logged.clear()
        done = energon(*command)
        assert done.code == code, done
        assert done.err.count("in their names: 5, such as") == 1, (command, done)
        if command[0] == "prepare":
            [entry] = done.json["account"]["left_out"]
            assert (entry["reason"], entry["count"], entry["example"]) == ("L118", 5, "../y.tar")
        else:
            assert "//odd.txt" not in done.out


def test_a_folder_of_nothing_else_is_named(folder: Path, energon: RunEnergon) -> None:
    for shard in SHARDS:
        (folder / shard).unlink()
    for command in ("info", "prepare", "lint"):
        remote_storage._logged.clear()
        done = energon(command, URL)
        assert done.code == 1, done
        assert "in their names: 5, such as" in done.err
        assert "network" not in done.err
