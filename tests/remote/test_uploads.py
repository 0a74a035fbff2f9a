"""Uploads of large files by parts: a few are in memory, a failed one is sent again, and none is left in the store."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from loader.errors import StorageError
from loader.storage import EPath, RemoteStorage, open_storage
from loader.storage.remote import remember_options
from loader.storage.remote.clients import obstore_client
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.object_server import Fault, FaultPlan, ObjectServer, Request

from .test_store_contract import MSC_CONFIG

PART = 5 << 20


@cache
def content() -> bytes:
    """Return two parts and a third, made for the first test that uploads them."""
    return os.urandom(1 << 20) * 12


@pytest.fixture
def storage(server: ObjectServer, direct: None, monkeypatch: pytest.MonkeyPatch) -> RemoteStorage:
    monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
    remember_options("s3://data", {"deadline_s": 1})
    monkeypatch.setattr(obstore_client, "_PART_BYTES", PART)
    found = open_storage("s3://data/ds")
    assert isinstance(found, RemoteStorage)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(content())
    return path


def sent(server: ObjectServer) -> Counter[str]:
    """Return the number of requests of each kind."""
    return Counter(_kind(request) for request in server.requests)


def _kind(request: Request) -> str:
    if request.method == "POST":
        return "start" if request.query.startswith("uploads") else "finish"
    if request.method == "PUT":
        return "part" if "partNumber" in request.query else "whole"
    return request.method


def test_a_large_file_is_sent_by_parts_and_a_small_one_at_once(
    storage: RemoteStorage, server: ObjectServer, file: Path, tmp_path: Path
) -> None:
    etag = storage.upload("x", file)
    assert sent(server) == {"start": 1, "part": 3, "finish": 1}
    assert storage.read("x") == content()
    assert etag == storage.stat("x").etag
    server.start_again()
    (tmp_path / "small").write_bytes(b"1")
    storage.upload("y", tmp_path / "small")
    assert sent(server) == {"whole": 1}


@pytest.mark.parametrize("kind", ["503", "500", "429", "408", "reset"])
@pytest.mark.sampled(2)
def test_a_part_that_fails_is_sent_again_and_no_other(
    storage: RemoteStorage, server: ObjectServer, file: Path, kind: str
) -> None:
    second = "partNumber=2"
    failed: list[str] = []

    def choose(method: str, key: str, number: int) -> Fault | None:
        query = server.requests[-1].query
        if method == "PUT" and second in query and not failed:
            failed.append(query)
            return Fault(kind=kind)
        return None

    server.faults = FaultPlan(choose=choose)
    storage.upload("x", file)
    assert len(failed) == 1
    assert sent(server) == {"start": 1, "part": 4, "finish": 1}
    assert sum(second in request.query for request in server.requests) == 2
    assert storage.read("x") == content()


@pytest.mark.parametrize("request_number", [0, 1], ids=["start", "finish"])
@pytest.mark.sampled(2)
def test_an_upload_whose_answer_is_lost_is_whole(
    storage: RemoteStorage, server: ObjectServer, file: Path, request_number: int
) -> None:
    server.faults = FaultPlan(faults=[Fault(kind="dropped put", method="POST", requests=[request_number])])
    storage.upload("x", file)
    assert storage.read("x") == content()


def test_an_upload_that_is_refused_leaves_the_old_file_and_no_parts(
    storage: RemoteStorage, server: ObjectServer, file: Path
) -> None:
    storage.put("x", b"old")
    server.faults = FaultPlan(
        choose=lambda *_: Fault(kind="403") if "partNumber=2" in server.requests[-1].query else None
    )
    with pytest.raises(StorageError, match="403"):
        storage.upload("x", file)
    assert server.objects.open_uploads == 0
    assert storage.read("x") == b"old"


def test_a_block_that_fails_uploads_nothing(storage: RemoteStorage, server: ObjectServer) -> None:
    def interrupted_write() -> None:
        with storage.create("x") as file:
            file.write(content())
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        interrupted_write()
    assert not server.requests


@pytest.mark.parametrize("is_text", [False, True])
def test_a_large_file_of_a_path_is_sent_by_parts(storage: RemoteStorage, server: ObjectServer, is_text: bool) -> None:
    content = "word " * (PART // 4)
    path = EPath("s3://data/ds/x")
    if is_text:
        with path.open("w") as file:
            file.write(content)
    else:
        path.write_bytes(content.encode())
    assert sent(server) == {"start": 1, "part": 2, "finish": 1}
    assert storage.read("x") == content.encode()


_UPLOAD = """
import sys
from loader.storage import open_storage
from loader.storage.remote.clients import helper_client
from loader.storage.remote.clients.choice import use_rust_here
if sys.argv[1] == "direct":
    use_rust_here()

def peak_mib():
    sender = "self" if helper_client._helper is None else helper_client._helper._process.pid
    lines = [line for pid in ("self", sender) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM")]
    return [int(line.split()[1]) >> 10 for line in lines]

storage = open_storage("s3://data/ds")
storage.put("small", b"1")  # imports the client
before = peak_mib()
storage.upload("x", sys.argv[2])
with storage.create("y") as file, open(sys.argv[2], "rb") as source:
    while piece := source.read(1 << 20):
        file.write(piece)
print(*before, *peak_mib())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("sender", ["direct", "helper"])
def test_a_file_of_300_mb_takes_a_few_parts_of_memory(server: ObjectServer, tmp_path: Path, sender: str) -> None:
    path = tmp_path / "large"
    digest = hashlib.md5()
    with path.open("wb") as file:
        for _ in range(300):
            piece = os.urandom(1 << 20)
            digest.update(piece)
            file.write(piece)
    done = subprocess.run(
        [sys.executable, "-c", _UPLOAD, sender, str(path)], stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    before, before_sender, after, after_sender = map(int, done.stdout.split())
    assert after_sender - before_sender < 104  # four parts that are sent, and one that is read, are 80
    if sender == "helper":
        assert after - before < 16  # the bytes do not pass through the process
    for name in ("x", "y"):
        with (tmp_path / "objects/data/ds" / name).open("rb") as stored:
            assert hashlib.file_digest(stored, "md5").digest() == digest.digest()
    assert server.objects.open_uploads == 0


# -------------------------------------------------------------------------------------------- the server of the tests


def call(server: ObjectServer, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str, str]:
    """Return status, ETag and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers.get("ETag", ""), text


def finish(server: ObjectServer, upload: str, parts: list[tuple[int, str]], **headers: str) -> int:
    listed = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in parts)
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return call(server, "POST", f"/data/x?uploadId={upload}", body, **headers)[0]


def test_the_server_of_the_tests_checks_parts_and_conditions_as_s3_does(server: ObjectServer) -> None:
    found = re.search("<UploadId>(.*)</UploadId>", call(server, "POST", "/data/x?uploads")[2])
    assert found
    upload = found[1]
    etags = {}
    for number, size in ((1, 5 << 20), (2, 5 << 20), (3, 10), (4, 10)):
        _, etags[number], _ = call(server, "PUT", f"/data/x?partNumber={number}&uploadId={upload}", bytes(size))
    assert finish(server, upload, [(1, etags[1]), (2, '"wrong"')]) == 400
    assert finish(server, upload, [(3, etags[3]), (1, etags[1])]) == 400
    assert finish(server, upload, [(1, etags[1]), (3, etags[3]), (4, etags[4])]) == 400
    whole = [(1, etags[1]), (2, etags[2]), (3, etags[3])]
    assert finish(server, "another", whole) == 404
    assert finish(server, upload, whole, If_Match='"gone"') == 404
    assert server.objects.exists("data/x") is None
    assert call(server, "PUT", "/data/x", b"old")[0] == 200
    assert finish(server, upload, whole, If_None_Match="*") == 412
    assert finish(server, upload, whole, If_Match='"other"') == 412
    assert server.objects.find("data/x").size == 3
    assert finish(server, upload, whole, If_Match=server.objects.find("data/x").etag) == 200
    assert server.objects.find("data/x").size == (10 << 20) + 10
    assert finish(server, upload, whole) == 404
    assert server.objects.open_uploads == 0


def test_one_object_is_removed_by_a_request_for_its_key(server: ObjectServer, tmp_path: Path) -> None:
    path = EPath("s3://data/ds/ä #1.txt")
    path.write_text("x")
    path.unlink()
    assert not path.exists()
    assert [request.key for request in server.requests if request.method == "DELETE"] == ["data/ds/ä #1.txt"]
    assert not [request for request in server.requests if request.method == "POST"]


@pytest.mark.parametrize(("url", "without_bulk"), [("s3://data/below", False), ("msc://s3", False), ("msc://s3", True)])
@pytest.mark.sampled(3)
def test_an_object_is_removed_where_signatures_in_urls_are_refused(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, without_bulk: bool
) -> None:
    pytest.importorskip("multistorageclient")
    (tmp_path / "msc.yaml").write_text(MSC_CONFIG.format(url=server.url, folder=tmp_path))
    monkeypatch.setenv("MSC_CONFIG", str(tmp_path / "msc.yaml"))
    server.takes_signed_urls = False
    server.faults = FaultPlan(faults=[Fault(kind="501", method="POST")] if without_bulk else [])
    for name in ("a #1.txt", "b.txt"):
        (EPath(url) / name).write_text(name)
    (EPath(url) / "a #1.txt").unlink()
    (EPath(url) / "b.txt").move(EPath(url) / "c.txt")
    assert [path.name for path in EPath(url).glob("*")] == ["c.txt"]
    # A service that refuses every removal is named as such.
    server.faults = FaultPlan(faults=[Fault(kind="403", method=method) for method in ("POST", "DELETE")])
    with pytest.raises(StorageError, match=r"403|access is denied"):
        (EPath(url) / "c.txt").unlink()


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_a_removal_that_a_service_does_not_know_is_requested_once(
    storage: RemoteStorage, server: ObjectServer, names: list[str]
) -> None:
    server.faults = FaultPlan(faults=[Fault(kind="501")])
    with pytest.raises(StorageError, match="501"):
        storage.remove_files(names)
    assert len(server.requests) == 1
