"""Serve objects over HTTP/1.1 in a thread of this process."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from .faults import Fault, FaultPlan
from .objects import Found, Objects, Refused

__all__ = ["ObjectServer", "Request"]

_MAX_KEYS = 1000
_MIN_FILE_BYTES = 1 << 16  # sent by the kernel


@dataclass(slots=True)
class Request:
    """A request as it was logged.

    Attributes:
        method: ``GET``, ``HEAD``, ``PUT``, ``POST`` or ``DELETE``.
        key: Bucket and key; the bucket alone for a listing.
        range: The first and last byte of a ranged GET.
        query: The query of the URL.
        status: Status of the answer; 0 if there was none.
        sent_bytes: Bytes of the body that were sent.
        fault: Kind of the fault.
        started: When it arrived, in seconds of :func:`time.monotonic`.
    """

    method: str
    key: str
    range: tuple[int, int] | None
    query: str
    status: int = 0
    sent_bytes: int = 0
    fault: str = ""
    started: float = field(default_factory=time.monotonic)

    @property
    def is_listing(self) -> bool:
        return "list-type=2" in self.query


@dataclass(slots=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    file: tuple[Path, int, int] | None = None  # instead of the body: offset and size of the bytes of a file


class _Dropped(Exception):  # noqa: N818 - an outcome
    """The connection is closed."""


class ObjectServer:
    """A server of the objects in a folder, from ``with`` on until its end.

    Args:
        root: Folder with one folder for each bucket.
        faults: The planned faults; may be replaced while the server runs.
        port: Port on the loopback interface; 0 for a free one.
    """

    def __init__(self, root: Path, *, faults: FaultPlan | None = None, port: int = 0) -> None:
        self.faults = faults or FaultPlan()
        self.alter: Callable[[Request, dict[str, str]], None] | None = None  # changes the headers of an object
        self.takes_signed_urls = True  # False: a signature must be in the header
        self.requests: list[Request] = []
        self.objects = Objects(root)
        self.most_open = 0  # requests at one time
        self._open = 0
        self._port = port
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # of connections

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def start_again(self) -> None:
        """Forget the faults and the requests."""
        self.faults = FaultPlan()
        self.requests.clear()
        self._numbers.clear()
        self.most_open = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", self._port, limit=1 << 20, backlog=1024)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    async def _stop(self) -> None:
        for listening in self._server.sockets:
            self._loop.remove_reader(listening)
        await asyncio.sleep(0.01)  # asyncio loses connections that it accepted just before a close(): let it finish
        self._server.close()
        while self._tasks:
            for task, writer in self._tasks.items():
                writer.transport.abort()
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports close their sockets in the next rounds of the loop

    # ------------------------------------------------------------------------------------------------ connections

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(self._tasks.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except (asyncio.IncompleteReadError, ConnectionError):
                    return
                self._open += 1
                self.most_open = max(self.most_open, self._open)
                try:
                    await self._handle(head, reader, writer)
                finally:
                    self._open -= 1
        except (_Dropped, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _handle(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _read_body(headers, reader)
        url = urlsplit(target)
        key = unquote(url.path).lstrip("/")
        request = Request(method, key, _parse_range(headers.get("range", "")), url.query)
        self.requests.append(request)
        number = self._numbers[method, key]
        self._numbers[method, key] += 1
        fault = self.faults.fault(method, key, number)
        request.fault = fault.kind if fault else ""
        delay_s = self.faults.latency_s + (fault.delay_s if fault else 0.0)
        if delay_s:
            await asyncio.sleep(delay_s)
        if fault and fault.kind == "reset":
            _reset(writer)
        status, _, rest = fault.kind.partition(" ") if fault else ("", "", "")
        if fault and status.isdigit():
            code = _CODES.get(status, "InternalError")
            answer = _Answer(int(status), _error_body(code, first + str(headers) if rest == "echo" else code))
            if fault.retry_after_s is not None:
                answer.headers["Retry-After"] = str(fault.retry_after_s)
        else:
            try:
                answer = self._answer(request, headers, body, fault)
            except Refused as refused:
                answer = _Answer(refused.status, _error_body(refused.code))
            if fault and fault.kind == "dropped put":
                _reset(writer)
        await self._send(request, answer, reader, writer, fault)

    async def _send(
        self,
        request: Request,
        answer: _Answer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        fault: Fault | None,
    ) -> None:
        request.status = answer.status
        kind = fault.kind if fault else ""
        if answer.file is not None and (kind or answer.file[2] < _MIN_FILE_BYTES):
            answer.body, answer.file = _read(*answer.file), None
        body = b"" if request.method == "HEAD" else answer.body
        size = len(answer.body) if answer.file is None else answer.file[2]
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        answer.headers.setdefault("Content-Length", str(size))
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        if kind in ("reset in body", "stall", "short body") and body:
            half = body[: len(body) // 2]
            writer.write(head + half)
            await writer.drain()
            request.sent_bytes = len(half)
            if kind == "stall":
                await reader.read(1)  # until the client closes the connection
            if kind == "reset in body":
                _reset(writer)
            raise _Dropped
        writer.write(head + body)
        request.sent_bytes = len(body)
        await writer.drain()
        if answer.file is not None:
            path, start, size = answer.file
            with path.open("rb") as file:
                request.sent_bytes = await self._loop.sendfile(writer.transport, file, start, size)

    # ------------------------------------------------------------------------------------------------- operations

    def _answer(self, request: Request, headers: Mapping[str, str], body: bytes, fault: Fault | None) -> _Answer:
        query = {name: values[0] for name, values in parse_qs(request.query, keep_blank_values=True).items()}
        if "X-Amz-Signature" in query and not self.takes_signed_urls:
            raise Refused(403, "AccessDenied")
        conditions = {
            "if_match": headers.get("if-match", ""),
            "if_none_match": headers.get("if-none-match", ""),
            "generation": headers.get("x-goog-if-generation-match", ""),
        }
        match request.method:
            case "GET" if "list-type" in query:
                return self._list(request.key, query)
            case "GET" | "HEAD":
                answer = _get(self.objects.find(request.key), request, headers, fault)
                if self.alter is not None:
                    self.alter(request, answer.headers)
                return answer
            case "PUT" if "uploadId" in query:
                etag = self.objects.put_part(query["uploadId"], request.key, int(query["partNumber"]), body)
                return _Answer(200, b"", {"ETag": etag})
            case "PUT" if "x-amz-copy-source" in headers:
                source = self.objects.find(unquote(headers["x-amz-copy-source"]).lstrip("/"))
                found = self.objects.put(request.key, source.path.read_bytes(), **conditions)
                xml = f"<CopyObjectResult><ETag>{escape(found.etag)}</ETag></CopyObjectResult>"
                return _Answer(200, xml.encode())
            case "PUT":
                found = self.objects.put(request.key, body, **conditions)
                return _Answer(200, b"", {"ETag": found.etag, "x-goog-generation": found.generation})
            case "POST" if "uploads" in query:
                upload = self.objects.start_upload(request.key)
                xml = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                return _Answer(200, xml.encode())
            case "POST" if "uploadId" in query:
                found = self.objects.finish_upload(query["uploadId"], request.key, _parts(body), **conditions)
                xml = (
                    f"<CompleteMultipartUploadResult><ETag>{escape(found.etag)}</ETag></CompleteMultipartUploadResult>"
                )
                return _Answer(200, xml.encode())
            case "POST" if "delete" in query:
                return self._delete_many(request.key, body)
            case "DELETE" if "uploadId" in query:
                self.objects.abort_upload(query["uploadId"], request.key)
                return _Answer(204)
            case "DELETE":
                self.objects.delete(request.key)
                return _Answer(204)
        return _Answer(405, _error_body("MethodNotAllowed"))

    def _delete_many(self, bucket: str, body: bytes) -> _Answer:
        deleted = []
        for element in ET.fromstring(body).iter():
            if element.tag.endswith("Key") and element.text:
                self.objects.delete(f"{bucket.rstrip('/')}/{element.text}")
                deleted.append(f"<Deleted><Key>{escape(element.text)}</Key></Deleted>")
        return _Answer(200, f"<DeleteResult>{''.join(deleted)}</DeleteResult>".encode())

    def _list(self, bucket: str, query: Mapping[str, str]) -> _Answer:
        bucket, prefix, delimiter = bucket.rstrip("/"), query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = min(int(query.get("max-keys", _MAX_KEYS)), _MAX_KEYS)
        contents: list[str] = []
        prefixes: list[str] = []
        last, is_truncated = "", False
        for key in self.objects.keys(bucket, prefix):
            folder, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            name = f"{prefix}{folder}{delimiter}" if found else key
            if name <= after or name == last:
                continue
            if len(contents) + len(prefixes) == most:
                is_truncated = True
                break
            last = name
            if found:
                prefixes.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            else:
                contents.append(_list_entry(self.objects.find(f"{bucket}/{key}"), key))
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_truncated else ""
        xml = (
            f"<ListBucketResult><IsTruncated>{str(is_truncated).lower()}</IsTruncated>"
            f"<KeyCount>{len(contents) + len(prefixes)}</KeyCount>{token}"
            f"{''.join(contents + prefixes)}</ListBucketResult>"
        )
        return _Answer(200, xml.encode(), {"Content-Type": "application/xml"})


def _list_entry(found: Found, key: str) -> str:
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.mtime_ns // 10**9))
    millis = found.mtime_ns // 10**6 % 1000
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{when}.{millis:03}Z</LastModified>"
        f"<ETag>{escape(found.etag)}</ETag><Size>{found.size}</Size></Contents>"
    )


def _get(found: Found, request: Request, headers: Mapping[str, str], fault: Fault | None) -> _Answer:
    kind = fault.kind if fault else ""
    etag = '"changed"' if kind == "changed etag" else found.etag
    condition = headers.get("if-match", "")
    if condition and condition != etag:
        raise Refused(412, "PreconditionFailed")
    answer_headers = {"ETag": etag, "Last-Modified": found.last_modified, "Accept-Ranges": "bytes"}
    answer_headers["x-goog-generation"] = found.generation
    if request.method == "HEAD":
        return _Answer(200, b"", {**answer_headers, "Content-Length": str(found.size)})
    if request.range is None or kind == "whole object":
        return _Answer(200, b"", answer_headers, (found.path, 0, found.size))
    start, last = request.range
    if start < 0:  # the last bytes
        start, last = max(0, found.size + start), found.size - 1
    if start >= found.size:
        raise Refused(416, "InvalidRange")
    last = min(last, found.size - 1)
    if kind == "wrong range":
        start, last = (start + 1, last) if last > start else (max(0, start - 1), last)
    answer_headers["Content-Range"] = f"bytes {start}-{last}/{found.size}"
    return _Answer(206, b"", answer_headers, (found.path, start, last - start + 1))


def _read(path: Path, start: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)


def _parts(body: bytes) -> list[tuple[int, str]]:
    """Return number and ETag of the parts that complete an upload."""
    found = []
    for element in ET.fromstring(body):
        fields = {child.tag.rpartition("}")[2]: (child.text or "").strip('"') for child in element}
        found.append((int(fields["PartNumber"]), fields["ETag"]))
    return found


_CODES = {"503": "SlowDown", "429": "TooManyRequests", "403": "AccessDenied", "401": "Unauthorized"}


def _error_body(code: str, message: str = "") -> bytes:
    text = escape(message or code)
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{text}</Message></Error>'.encode()


def _parse_range(value: str) -> tuple[int, int] | None:
    if not value.startswith("bytes="):
        return None
    first, _, last = value[6:].partition("-")
    if not first:
        return -int(last), -1
    return int(first), int(last) if last else 1 << 62


async def _read_body(headers: Mapping[str, str], reader: asyncio.StreamReader) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        pieces = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            pieces.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
        return b"".join(pieces)
    return await reader.readexactly(int(headers.get("content-length", "0")))


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the client gets a reset."""
    connection = writer.transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    raise _Dropped
