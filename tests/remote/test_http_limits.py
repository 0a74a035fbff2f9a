"""Requests to web servers end: hostile servers on loopback send without an end, too slowly, or lead elsewhere."""

from __future__ import annotations

import io
import itertools
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loader.errors import StorageError
from loader.storage import open_storage
from loader.storage.remote import remember_options
from loader.storage.remote.clients.http_client import HttpClient, redirected
from loader.storage.remote.clients.limited_answer import PRIVATE, PUBLIC, kind_of_address
from loader.storage.remote.failures import RequestFailure
from loader.storage.remote.object_url import parse_object_url
from loader.storage.remote.options import OPTIONS_VARIABLE, StorageOptions
from tests.hostile_server import Answer, HostileServer, endless, whole

MOST = 1 << 20
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer({}) as server:
        yield server


def client_of(server: HostileServer, **options: Any) -> HttpClient:
    return HttpClient(parse_object_url(server.url), StorageOptions(**options))


def ticking(step_s: float) -> Callable[[], float]:
    """Return a clock that advances by a step whenever it is read."""
    ticks = itertools.count()
    return lambda: next(ticks) * step_s


def failure_of(client: HttpClient, url: str, allowed: frozenset[Any] = PRIVATE) -> RequestFailure:
    file = io.BytesIO()
    with pytest.raises(RequestFailure) as caught:
        client.download(url, file, MOST, allowed=allowed)
    assert len(file.getvalue()) <= MOST
    client.close()
    return caught.value


WITHOUT_END: dict[str, tuple[Answer, str]] = {
    "100 continue": (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "the head of the answer has no end"),
    "continue with a header": (endless(b"HTTP/1.1 100 Continue\r\n", b"X: y\r\n"), "invalid|no end"),
    "headers": (endless(HEAD, b"X-Name: value\r\n"), "invalid|no end"),
    "a header": (endless(HEAD + b"X: ", b"x" * 1000), "invalid|no end"),
    "a status": (endless(b"HTTP/1.1 200 ", b"x" * 1000), "invalid|no end|broke"),
    "a body": (endless(HEAD + b"Connection: close\r\n\r\n", b"x" * 65536), "more than 1,048,576 bytes"),
    "chunks": (endless(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"), "more than 1,048,576 bytes"),
    "a chunk": (endless(CHUNKED + b"fffffffffff\r\n", b"x" * 65536), "more than 1,048,576 bytes"),
    "extensions of chunks": (endless(CHUNKED, b"1;" + b"x" * 60000 + b"\r\nx\r\n"), "more than was requested"),
    "trailers": (endless(CHUNKED + b"1\r\nx\r\n0\r\n", b"X: y\r\n" * 100), "more than was requested"),
    "a length": (lambda: [HEAD + b"Content-Length: 10000000000000\r\n\r\n"], "10,000,000,000,000 bytes, more than"),
    "redirects": (whole(b"", "Location: /redirects/again", status="302 Found"), "redirects more than 5 times"),
}


@pytest.mark.parametrize("name", WITHOUT_END)
def test_what_has_no_end_is_cut_off(server: HostileServer, name: str) -> None:
    answer, cause = WITHOUT_END[name]
    server.answers[""] = answer
    failure = failure_of(client_of(server), f"{server.url}/x.jpg")
    assert re.search(cause, failure.cause), failure.cause
    assert len(server.requests) == (6 if name == "redirects" else 1)


def test_an_answer_without_content_is_no_file(server: HostileServer) -> None:
    server.answers[""] = whole(b"", status="204 No Content")
    assert "204" in failure_of(client_of(server), f"{server.url}/x").cause


@pytest.mark.parametrize("start", [b"", HEAD, HEAD + b"Content-Length: 1000\r\n\r\n", CHUNKED + b"1000\r\n"])
def test_a_byte_at_a_time_is_too_slow(server: HostileServer, start: bytes) -> None:
    server.answers[""] = endless(start, b"X", pause_s=0.01)
    client = HttpClient(parse_object_url(server.url), StorageOptions(), clock=ticking(0.5))
    assert failure_of(client, f"{server.url}/x").kind == "slow"


def test_a_whole_request_has_a_deadline_however_fast_it_is(server: HostileServer) -> None:
    server.answers[""] = endless(HEAD + b"Connection: close\r\n\r\n", b"x" * 2000, pause_s=0.002)
    client = HttpClient(parse_object_url(server.url), StorageOptions(request_s=20), clock=ticking(0.5))
    assert failure_of(client, f"{server.url}/x").cause == "it took longer than 20 s"


def test_the_time_between_reads_is_that_of_the_reader(server: HostileServer) -> None:
    server.answers[""] = whole(b"x" * 100_000)
    now = [0.0]
    client = HttpClient(parse_object_url(server.url), StorageOptions(), clock=lambda: now[0])

    class SlowFile(io.BytesIO):
        def write(self, data: Any) -> int:
            now[0] += 60
            return super().write(data)

    file = SlowFile()
    client.download(f"{server.url}/x", file, MOST, allowed=PRIVATE)
    client.close()
    assert len(file.getvalue()) == 100_000


def test_a_compressed_answer_that_was_not_requested_is_refused(server: HostileServer) -> None:
    server.answers |= {"": whole(b"bomb", "Content-Encoding: gzip")}
    assert "compresses it (gzip)" in failure_of(client_of(server), f"{server.url}/x.jpg").cause
    file = io.BytesIO()
    client = client_of(server)
    client.download(f"{server.url}/x.tar.gz", file, MOST, allowed=PRIVATE)  # as Apache serves such files
    client.close()
    assert file.getvalue() == b"bomb"


# ------------------------------------------------------------------------------------------------ datasets at URLs


@pytest.fixture
def options(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
    remember_options(server.url, {"deadline_s": 1e-9})


RANGED = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 10-19/100\r\n"


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (endless(HEAD + b"Content-Length: 10000000000\r\n\r\n", b"x" * 65536), "answers a range with the whole file"),
        (endless(HEAD + b"Connection: close\r\n\r\n", b"x" * 65536), "answers a range with the whole file"),
        (endless(RANGED + b"Content-Length: 100000000\r\n\r\n", b"x" * 65536), "100,000,000 bytes, more than 10"),
        (endless(RANGED + b"Connection: close\r\n\r\n", b"x" * 65536), "it has more than 10 bytes"),
        (lambda: [RANGED + b"Content-Length: 4\r\n\r\nabcd"], "expected 10 bytes, found 4"),
    ],
)
@pytest.mark.usefixtures("options")
def test_a_range_reads_at_most_the_bytes_that_were_requested(server: HostileServer, answer: Answer, cause: str) -> None:
    server.answers[""] = answer
    with pytest.raises(StorageError, match=cause):
        open_storage(f"{server.url}/ds").read("x", 10, 20)


@pytest.mark.usefixtures("options")
def test_a_whole_object_has_a_limit(server: HostileServer) -> None:
    server.answers[""] = lambda: [HEAD + b"Content-Length: 10000000000\r\n\r\n"]
    with pytest.raises(StorageError, match="10,000,000,000 bytes, more than 1,073,741,824"):
        open_storage(f"{server.url}/ds").read("x")


# -------------------------------------------------------------------------------------------------------- addresses

REFUSED = {
    "private": [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "::1",
        "fc00::1",
        "fec0::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "192.0.2.1",
        "2001::1",
        "127.255.255.254",
    ],
    "special": [
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "168.63.129.16",
        "fd00:ec2::254",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "::",
        "ff02::1",
        "fe80::1%eth0",
        "::ffff:169.254.169.254",
        "::ffff:0.0.0.0",
        "64:ff9b::a9fe:a9fe",
    ],
    "public": ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_addresses_have_kinds_in_any_notation(kind: str) -> None:
    assert {address: kind_of_address(address) for address in REFUSED[kind]} == dict.fromkeys(REFUSED[kind], kind)


def test_no_spelling_of_https_allows_a_redirect_to_http() -> None:
    with pytest.raises(RequestFailure, match="not safe"):
        redirected("HTTPS://host/x", "http://host/x")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost", "0"]
)
def test_a_private_host_is_refused_in_any_notation(server: HostileServer, host: str) -> None:
    failure = failure_of(client_of(server), f"http://{host}:{server.port}/x", PUBLIC)
    assert failure.kind == "refused"
    assert server.connections == 0


def names(monkeypatch: pytest.MonkeyPatch, server: HostileServer, *public: str) -> list[str]:
    """Let names ``*.test`` resolve: to a public address, whose connections our server gets, or to 127.0.0.1."""
    looked_up: list[str] = []
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if not str(host).endswith(".test"):
            return resolve(host, port, *args, **options)
        looked_up.append(host)
        is_public = host in public and looked_up.count(host) == 1
        address = "203.0.114.1" if is_public else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    def connect_here(self: socket.socket, address: Any) -> None:
        connect(self, ("127.0.0.1", server.port) if address[0] == "203.0.114.1" else address)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket.socket, "connect", connect_here)
    return looked_up


def test_the_address_that_was_checked_is_connected_to(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers[""] = whole(b"data")
    looked_up = names(monkeypatch, server, "rebinding.test")
    client, file = client_of(server), io.BytesIO()
    client.download("http://rebinding.test/x", file, MOST, allowed=PUBLIC)
    client.close()
    assert file.getvalue() == b"data"
    assert looked_up == ["rebinding.test"]
    assert failure_of(client, "http://rebinding.test/x", PUBLIC).kind == "refused"  # now it is a private one


@pytest.mark.parametrize("allowed", [PUBLIC, PRIVATE])
def test_a_redirect_from_a_public_to_a_private_address_is_refused(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, allowed: frozenset[Any]
) -> None:
    names(monkeypatch, server, "public.test")
    with HostileServer({"": whole(b"secret")}) as private:
        server.answers[""] = f"{private.url}/secret"
        failure = failure_of(client_of(server), "http://public.test/x", allowed)
        assert (failure.kind, private.connections) == ("refused", 0)


@pytest.mark.usefixtures("options")
def test_a_dataset_that_its_owner_names_may_be_private_but_no_public_one_leads_there(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HostileServer({"/ds/x": whole(b"private")}) as private:
        server.answers["/ds/x"] = f"{private.url}/ds/x"
        assert open_storage(f"{server.url}/ds").read("x") == b"private"
        names(monkeypatch, server, "public.test")
        with pytest.raises(StorageError, match=r"127\.0\.0\.1 is a private address"):
            open_storage("http://public.test/ds").read("x")


@pytest.mark.parametrize("target", ["http://a.test/x", "HTTP://a.test/x", "file:///etc/passwd", "ftp://a.test/x"])
def test_a_redirect_from_https_to_http_is_refused(target: str) -> None:
    with pytest.raises(RequestFailure, match="redirects to a URL that is not safe"):
        redirected("https://a.test/x", target)
    assert redirected("https://a.test/x", "/y") == "https://a.test/y"
    assert redirected("http://a.test/x", "https://a.test/x") == "https://a.test/x"


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://0/"])
def test_link_local_addresses_are_refused_in_any_case(server: HostileServer, target: str) -> None:
    server.answers[""] = target
    assert failure_of(client_of(server), f"{server.url}/x").kind == "refused"
    assert failure_of(client_of(server), target).kind == "refused"


def test_an_idle_connection_to_a_private_host_serves_no_public_request(server: HostileServer) -> None:
    server.answers[""] = whole(b"data")
    client = client_of(server)
    client.download(f"{server.url}/x", io.BytesIO(), MOST, allowed=PRIVATE)
    client.download(f"{server.url}/x", io.BytesIO(), MOST, allowed=PRIVATE)
    assert server.connections == 1
    assert failure_of(client, f"{server.url}/x", PUBLIC).kind == "refused"


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "[::1]", "localhost", "a.localhost."])
def test_a_proxy_is_not_asked_for_private_addresses(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    assert failure_of(client_of(server), f"http://{host}:9/x", PUBLIC).kind == "refused"
    assert server.connections == 0
    assert "through a proxy" in failure_of(client_of(server), "http://name.example/x", PUBLIC).cause
    assert server.requests == [b"name.example:80"]


# ------------------------------------------------------------------------------------------------------------- URLs


@pytest.mark.parametrize("query", ["a=%2F&b=+&c=a%20b&d=é", "", "a=b?c", "%zz", "%C3%A9=%c3%a9", "a[]=1|2&'\"<>"])
def test_a_query_is_sent_byte_for_byte(server: HostileServer, query: str) -> None:
    server.answers |= {"/a%20b.jpg": f"/redirected?{query}#fragment", "/redirected": whole(b"data")}
    client = client_of(server)
    client.download(f"{server.url}/a%20b.jpg?{query}#fragment", io.BytesIO(), MOST, allowed=PRIVATE)
    client.close()
    mark = b"?" if query else b""  # an empty query after a redirect may go
    assert server.requests[0] == b"/a%20b.jpg?" + query.encode()
    assert server.requests[1].partition(mark or b"\0") == (b"/redirected", mark or b"", query.encode())


@pytest.mark.parametrize(
    "url",
    [
        "http://user:planted@127.0.0.1/x",
        "http://127.0.0.1\\@host/x",
        "http:///x",
        "http://host:port/x",
        "gopher://h/x",
        "http://host/x\r\nHost: other",
        "http://a b/x",
        "http://[::1/x",
        f"http://{'é' * 100_000}/x",  # whose conversion would take seconds
        "http://%31%32%37.0.0.1/x",
        "x",
    ],
)
def test_what_is_no_url_of_a_web_server_is_refused(server: HostileServer, url: str) -> None:
    failure = failure_of(client_of(server), url)
    assert failure.cause in ("it is not a URL of a web server", "it holds credentials")
    assert server.connections == 0


def test_an_encoding_of_the_transfer_that_was_not_requested_is_refused(server: HostileServer) -> None:
    server.answers |= {
        "": lambda: [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4\r\nbomb\r\n0\r\n\r\n"]
    }
    assert "UnknownTransferEncoding" in failure_of(client_of(server), f"{server.url}/x.jpg").cause
