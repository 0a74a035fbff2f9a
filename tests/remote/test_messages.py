"""Errors of wrong URLs, settings and servers name what to change."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from loader import EPath
from loader.dataset.opening import folder_at
from loader.errors import ConfigError, EnergonError, StorageError
from loader.prepare.plan import PreparePlan
from loader.prepare.run import run_prepare
from loader.storage import open_storage
from loader.storage.remote import use_storage_options
from loader.storage.remote.options import OPTIONS_VARIABLE
from tests.cli.run_energon import run_in_this_process
from tests.e2e.dataset_tree import prepare, write_shards
from tests.object_server import Fault, FaultPlan, ObjectServer
from tests.remote.test_store_contract import MSC_CONFIG


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, '{"": {"deadline_s": 0.1}}')


def error_of(url: str) -> EnergonError:
    with pytest.raises(EnergonError) as caught:
        folder_at(url)
    return caught.value


@contextmanager
def web_server(handler: Any) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        ("s3a://bucket/x", "cannot read s3a:// URLs", "write s3://bucket/x"),
        ("gcs://me:planted@bucket/x", "cannot read gcs:// URLs", "write gs://bucket/x"),
        ("S3://bucket/x", "cannot read S3:// URLs", "write s3://bucket/x"),
        ("hdfs://host/x", "cannot read hdfs:// URLs", "supported are .*s3"),
        ("s3:/bucket/x", "expected two slashes, as in s3://bucket/x", "pathlib.Path removes one"),
        (Path("s3://bucket/x"), "expected two slashes, as in s3://bucket/x", "EPath"),
        ("s3://", "it has no bucket", "write it like s3://bucket/path"),
        ("s3://bucket/x?versionId=planted", "has no query", "storage_options"),
    ],
)
def test_a_url_that_is_written_wrongly_is_shown_as_it_should_be(url: str, message: str, hint: str) -> None:
    with pytest.raises(EnergonError, match=message) as caught:
        open_storage(url)
    assert re.search(hint, str(caught.value.hint))
    assert "planted" not in str(caught.value)


def test_a_folder_of_this_machine_may_be_named_like_a_protocol(tmp_path: Path) -> None:
    (tmp_path / "s3:/x").mkdir(parents=True)
    assert open_storage(tmp_path / "s3:/x").exists("")
    assert EPath(str(tmp_path / "s3:/x")).is_dir()


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_that_is_no_url_is_named_with_its_variable(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "minio.local:9000")
    error = error_of("s3://data/ds")
    assert f"expected {variable} to be a URL, such as https://minio.local:9000" in error.message
    with pytest.raises(ConfigError, match="expected endpoint_url to be a URL"):
        use_storage_options("s3://data", {"endpoint_url": "minio.local:9000"})


@pytest.mark.parametrize(
    ("options", "hint"),
    [({}, "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), ({"anonymous": True}, "remove it, unless")],
)
def test_a_denied_request_names_the_settings_of_its_service(
    server: ObjectServer, options: dict[str, Any], hint: str
) -> None:
    server.faults = FaultPlan(choose=lambda *_: Fault(kind="403"))
    use_storage_options("s3://data", options)
    error = error_of("s3://data/ds")
    assert "cannot list this folder: 403" in error.message
    assert hint in str(error.hint)
    assert "GOOGLE" not in str(error.hint)


def test_a_missing_bucket_and_a_missing_folder_are_told_apart(server: ObjectServer) -> None:
    error = error_of("s3://other/ds")
    assert "the bucket does not exist" in error.message
    assert "AWS_ENDPOINT_URL" in str(error.hint)
    error = error_of("s3://data/gone")
    assert (error.message, error.hint) == ("there is no file below this URL", "check the URL")
    with pytest.raises(StorageError, match="there is no file below this URL"):
        run_prepare(PreparePlan(path="s3://data/gone"))


REDIRECT = "<Error><Code>PermanentRedirect</Code><Endpoint>b.s3.eu-west-1.amazonaws.com</Endpoint></Error>"
MALFORMED = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"


@pytest.mark.parametrize(
    ("status", "body", "where"), [(301, REDIRECT, "in another region"), (400, MALFORMED, "in eu-west-1")]
)
def test_a_bucket_of_another_region_is_recognised(
    status: int, body: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_server(answering(status, body)) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        error = error_of("s3://data/ds")
    assert f"the bucket is {where}" in error.message
    assert "AWS_REGION" in str(error.hint)


def answering(status: int, body: str) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(body.encode())

        def do_HEAD(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    return Answering


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ((400, "ExpiredToken"), "the temporary credentials have expired"),
        ((403, "RequestTimeTooSkewed"), "set the clock of this machine"),
        ((403, "InvalidObjectState"), "it is in an archive, such as Glacier: restore it"),
    ],
)
@pytest.mark.parametrize("protocol", ["s3://data", "msc://s3"])
@pytest.mark.sampled(8)
def test_a_refusal_that_no_other_key_helps_has_a_hint_of_its_own(
    answer: tuple[int, str], hint: str, protocol: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, code = answer
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>planted</Message></Error>"
    with web_server(answering(status, body)) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        (tmp_path / "msc.yaml").write_text(MSC_CONFIG.format(url=url, folder=tmp_path))
        monkeypatch.setenv("MSC_CONFIG", str(tmp_path / "msc.yaml"))
        error = error_of(f"{protocol}/ds")
        assert error.message == f"cannot list this folder: {status} {code}"
        assert str(error.hint).startswith(hint)
        path = EPath(f"{protocol}/ds/a.tar")
        for request in (path.read_bytes, path.size):
            with pytest.raises(StorageError) as caught:
                request()
            assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize(("expiry", "hint"), [("2020-01-01T00:00:00Z", "expired at 2020"), ("2999-01-01", "check AZ")])
def test_an_expired_signature_of_azure_is_named(
    expiry: str, hint: str, azure_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1")
    monkeypatch.setenv("AZURE_STORAGE_SAS_KEY", f"sv=2021-08-06&ss=b&srt=sco&sp=rl&se={expiry}&sig=planted")
    monkeypatch.setenv(OPTIONS_VARIABLE, "")
    use_storage_options("az://data", {"endpoint_url": azure_url, "deadline_s": 0.1})
    for request in (EPath("az://data/ds/a.tar").read_bytes, EPath("az://data/ds/a.tar").size):
        with pytest.raises(StorageError) as caught:
            request()
        assert hint in str(caught.value.hint)
        assert "planted" not in str(caught.value)


class Quiet(SimpleHTTPRequestHandler):
    """The server of ``python -m http.server``: it answers no ranges, and shows folders as pages of links."""

    def log_message(self, *args: object) -> None:
        pass


def test_a_web_server_without_ranges_and_a_folder_that_is_not_prepared_are_named(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "ds", 2)
    with web_server(partial(Quiet, directory=str(tmp_path))) as url:
        error = error_of(f"{url}/ds")
        assert "no prepared dataset is at this URL" in error.message
        prepare(folder)
        storage = open_storage(f"{url}/ds")
        shard = next(folder.glob("*.tar"))
        with storage.open(shard.name) as file:
            assert file.read_at(0, file.size_bytes) == shard.read_bytes(), "the whole file is what was requested"
            with pytest.raises(StorageError, match="the server answers a range with the whole file") as caught:
                file.read_at(512, 512)
        assert "nginx" in str(caught.value.hint)
        assert not open_storage(url).exists("ds")  # a page of links is no file


def test_an_endpoint_without_tls_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with web_server(partial(Quiet, directory=str(tmp_path))) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url.replace("http:", "https:"))
        for place in ("s3://data/ds", url.replace("http:", "https:")):
            assert "it speaks no TLS" in error_of(place).message


@contextmanager
def silent_server() -> Iterator[str]:
    """Yield the URL of a server that takes connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def closed_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    yield f"http://127.0.0.1:{address[1]}"


@contextmanager
def unknown_name() -> Iterator[str]:
    yield "https://unknown-host.invalid"


HOSTS = {
    "no byte arrived in time": silent_server,
    "the connection was refused": closed_port,
    "its name is unknown": unknown_name,
}


@pytest.mark.parametrize("cause", HOSTS)
@pytest.mark.parametrize("command", ["import {}/a.csv out --yes", "reshard {}/a out", "info {}/a"])
def test_a_command_tries_a_host_that_never_answered_three_times(
    command: str, cause: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Long enough for a connection on a busy machine; only the silent server lets it pass.
    monkeypatch.setenv(OPTIONS_VARIABLE, '{"": {"stall_s": 0.3}}')
    monkeypatch.setattr("loader.storage.remote.clients.connection._FIRST_DELAY_S", 0.0)
    with HOSTS[cause]() as url:
        done = run_in_this_process(capfd, monkeypatch)(*command.format(url).split())
    assert done.code == 1
    assert re.search(
        rf"{cause} after 3 tries in \d+ s\n +at: {re.escape(url)}/a.*\n +hint: check the network", done.err
    )
    assert not (tmp_path / "out").exists()
