"""Serve repositories over HTTP/1.1 at two ports of 127.0.0.1: the hub, and the files that it leads to."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from .addresses import Addresses
from .answers import Answer, LoggedRequest, Refused, Request, json_answer, unescaped
from .connections import Connection, OpenFiles
from .faults import Fault, FaultPlan
from .limits import RateLimits
from .reading import answer_api, resolve, resolve_cached, send_blob, send_raw, take_revision
from .repositories import Blob, Repository
from .writing import answer_lfs, answer_repositories, answer_upload, answer_writes
from .xet import XetStore

__all__ = ["HubServer", "User", "hub_server"]

_KINDS = ("datasets", "models", "spaces")
_PAGE = b"<!DOCTYPE html><html><head><title>Gateway</title></head><body><h1>This is a gateway</h1></body></html>"


@dataclass(frozen=True, slots=True)
class User:
    """A user with a token.

    Attributes:
        name: Of the user, and of the repositories that are the user's own.
        plan: Whose rate limits hold: a key of :data:`.limits.PLANS`.
        organizations: Owners of other repositories that the user may see and write.
        can_write: Whether the token may write.
    """

    name: str
    plan: str = "free"
    organizations: tuple[str, ...] = ()
    can_write: bool = True

    def owns(self, repository: Repository) -> bool:
        return repository.owner in (self.name, *self.organizations)


class HubServer:
    """A hub, from ``with`` on until its end.

    Args:
        port: Port of the hub; 0 for a free one.
        cdn_port: Port of the files that it leads to by signed addresses; 0 for a free one.
        xet_store: Folder in which hf-xet stores what it uploads.

    Attributes:
        faults: The planned faults; may be replaced while the server runs.
        limits: The rate limits.
        addresses: How addresses are signed, and for how long.
        part_bytes: Files that are larger are uploaded by LFS in parts of this size.
        redirect_status: With which the resolver leads to a signed address.
        sends_small_files: Whether the resolver sends regular files itself; else it leads to ``/api/resolve-cache/…``,
            as the hub does.
        log: The requests.
        errors: Of this server's own code; the end of ``with`` raises the first one.
    """

    def __init__(self, *, port: int = 0, cdn_port: int = 0, xet_store: Path | None = None) -> None:
        self.faults = FaultPlan()
        self.limits = RateLimits()
        self.addresses = Addresses()
        self.xet = XetStore(xet_store) if xet_store else None
        self.part_bytes = 64 << 20
        self.redirect_status = 302
        self.sends_small_files = False
        self.log: list[LoggedRequest] = []
        self.errors: list[Exception] = []
        self.blobs: dict[str, Blob] = {}  # of LFS, by SHA-256
        self.parts: dict[str, bytes] = {}  # of files that are being uploaded: SHA-256/number
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.tokens: dict[str, User] = {}
        self._renamed: dict[tuple[str, str], str] = {}
        self._ports = port, cdn_port
        self._numbers: Counter[tuple[str, str]] = Counter()
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._files = OpenFiles()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hub", daemon=True)

    # ------------------------------------------------------------------------------------------------- begin and end

    def __enter__(self) -> Self:
        self._thread.start()
        self._servers = [
            asyncio.run_coroutine_threadsafe(self._listen(port, is_cdn=is_cdn), self._loop).result()
            for port, is_cdn in zip(self._ports, (False, True), strict=True)
        ]
        self.port, self.cdn_port = (int(server.sockets[0].getsockname()[1]) for server in self._servers)
        return self

    async def _listen(self, port: int, *, is_cdn: bool) -> asyncio.Server:
        def connect() -> Connection:
            return Connection(self._receive, self._files, self._connections, self._tasks, is_cdn=is_cdn)

        return await self._loop.create_server(connect, "127.0.0.1", port, backlog=1024)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()
        self._files.close()
        if error is None and self.errors:
            raise self.errors[0]

    async def _stop(self) -> None:
        for server in self._servers:
            for listening in server.sockets:
                self._loop.remove_reader(listening)
        await asyncio.sleep(0.01)  # asyncio loses connections that it accepted just before a close(): let it finish
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports close their sockets in the next rounds of the loop

    @property
    def url(self) -> str:
        """The ``HF_ENDPOINT``."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def cdn_url(self) -> str:
        return f"http://127.0.0.1:{self.cdn_port}"

    @property
    def xet_url(self) -> str:
        """The address of the chunks of Xet; without a store, one that has none."""
        return self.xet.url if self.xet else f"{self.cdn_url}/xet"

    # -------------------------------------------------------------------------------------------- what a test sets up

    def create(
        self, kind: str, name: str, *, private: bool = False, gated: str | bool = False, xet: bool = False
    ) -> Repository:
        """Create an empty repository.

        Args:
            kind: ``datasets``, ``models`` or ``spaces``.
            name: ``OWNER/NAME``.
            private: Whether only tokens of the owner see it.
            gated: ``auto`` or ``manual``: its files are for those whom :meth:`Repository.grant` lists. True: manual.
            xet: Whether its large files are stored in Xet, too.
        """
        if kind not in _KINDS:
            raise ValueError(f"{kind!r} is no kind of repositories: {', '.join(_KINDS)}")
        repository = Repository(
            kind,
            name,
            is_private=private,
            gated="manual" if gated is True else gated or "",
            is_xet=xet,
            on_blob=self._keep,
            on_rename=self._rename,
            xet_hash=self._xet_hash,
        )
        self.repositories[kind, name] = repository
        return repository

    def add_user(
        self, name: str, *, plan: str = "free", organizations: tuple[str, ...] = (), write: bool = True
    ) -> str:
        """Add a user; returns the token."""
        token = "hf_" + hashlib.sha256(f"{name} {write}".encode()).hexdigest()[:34]
        self.tokens[token] = User(name, plan, organizations, write)
        return token

    def count(self, *, kind: str = "", method: str = "", status: int = 0, path: str = "*") -> int:
        """Return how many requests of a kind, method, status and pattern of paths were logged."""
        return sum(
            kind in ("", logged.kind)
            and method in ("", logged.method)
            and status in (0, logged.status)
            and fnmatchcase(logged.path, path)
            for logged in list(self.log)
        )

    def start_again(self) -> None:
        """Forget the faults, the requests and what was used of the limits."""
        self.faults = FaultPlan()
        self.log.clear()
        self._numbers.clear()
        self.limits.start_again()

    def _keep(self, blob: Blob) -> None:
        if blob.is_lfs:
            self.blobs[blob.sha256] = blob

    def _xet_hash(self, blob: Blob) -> str:
        """Return the name of a blob in Xet; without a store, one that only looks like it."""
        if self.xet is None:
            return hashlib.sha256(f"xet {blob.sha256}".encode()).hexdigest()
        return self.xet.put_bytes(blob.data) if isinstance(blob.data, bytes) else self.xet.put([blob.data])[0]

    def _rename(self, repository: Repository, name: str) -> None:
        self.repositories[repository.kind, name] = self.repositories.pop((repository.kind, repository.name))
        self._renamed[repository.kind, repository.name] = name
        repository.name = name

    # ------------------------------------------------------------------------------------------------ each request

    def _receive(self, request: Request, connection: Connection) -> None:
        """Log a request, find its fault, and answer it in time."""
        path = unquote(request.path)
        kind = _kind(request)
        logged = LoggedRequest(
            request.method, path, kind, bool(request.token), request.host, request.port, request.range
        )
        self.log.append(logged)
        number = self._numbers[request.method, path]
        self._numbers[request.method, path] += 1
        fault = self.faults.fault(request.method, path, kind, number)
        logged.fault = request.fault = fault.kind if fault else ""
        delay_s = self.faults.latency_s + (fault.delay_s if fault else 0.0)
        if delay_s:
            self._loop.call_later(delay_s, self._answer, request, connection, logged, fault)
        else:
            self._answer(request, connection, logged, fault)

    def _answer(self, request: Request, connection: Connection, logged: LoggedRequest, fault: Fault | None) -> None:
        if connection.transport.is_closing():
            return
        if fault is not None and fault.kind == "reset":
            connection.reset()
            return
        headers: dict[str, str] = {}
        try:
            if not request.is_cdn:
                headers = self._count(request, logged.kind)
            answer = _faulty(fault) if fault else None
            if answer is None:
                answer = self._send_file(request) if request.is_cdn else self._route(request)
        except Refused as refused:
            answer = refused.answer()
        except Exception as error:  # noqa: BLE001 - any, as __exit__ raises it
            self.errors.append(error)
            answer = json_answer({"error": repr(error)}, 500)
        if fault is not None and fault.kind == "lost answer":
            connection.reset()
            return
        answer.headers = {**headers, "X-Request-Id": f"Root=1-{len(self.log):08x}", **answer.headers}
        connection.send(answer, request, logged)

    def _count(self, request: Request, kind: str) -> dict[str, str]:
        """Count a request; returns the headers that say what is left."""
        user = self.tokens.get(request.token)
        who = f"user {user.name}" if user else f"address {request.host}"
        headers, is_refused = self.limits.count(kind, who, user.plan if user else "anonymous")
        if is_refused:
            raise Refused.too_many(headers)
        return headers

    def _send_file(self, request: Request) -> Answer:
        """Answer a request for the file of a signed address."""
        wrong = "expired" if request.fault == "expired" else self.addresses.fault(request.path, request.query)
        if wrong:
            code = "AccessDenied" if wrong == "expired" else "SignatureDoesNotMatch"
            text = "Request has expired" if wrong == "expired" else "The signature does not match"
            xml = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{text}</Message></Error>'
            return Answer(403, xml.encode(), {"Content-Type": "application/xml"})
        if request.method == "PUT":
            return answer_upload(self, request)
        blob = self.blobs.get(request.path.rpartition("/")[2])
        if blob is None:
            return Answer(404, b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>')
        return send_blob(blob, request, {})

    # ------------------------------------------------------------------------------------------------------- routes

    def _route(self, request: Request) -> Answer:
        match request.segments:
            case ["api", "whoami-v2"]:
                return self._whoami(request)
            case ["api", "validate-yaml"]:
                return json_answer({"errors": [], "warnings": []})
            case ["api", "repos", ("create" | "move" | "delete") as action]:
                return answer_repositories(self, request, action)
            case ["api", "resolve-cache", kind, owner, name, commit, *rest] if kind in _KINDS:
                return resolve_cached(self, self.find(kind, owner, name, request=request), request, commit, rest)
            case ["api", kind, owner, name, *action] if kind in _KINDS:
                repository = self.find(kind, owner, name, request=request)
                read = answer_api(self, repository, request, action)
                return read if read is not None else answer_writes(self, repository, request, action)
            case [("datasets" | "spaces") as kind, owner, name, *rest]:
                return self._file(self.find(kind, owner, name, request=request), request, rest)
            case [owner, name, *rest] if owner not in ("api", "datasets", "spaces"):
                return self._file(self.find("models", owner, name, request=request), request, rest)
        raise Refused(404, "", f"Cannot {request.method} {request.path}")

    def _file(self, repository: Repository, request: Request, rest: list[str]) -> Answer:
        match rest:
            case ["info", "lfs", "objects", ("batch" | "verify" | "complete") as action]:
                return answer_lfs(self, repository, request, action)
            case ["resolve", *further]:
                return resolve(self, repository, request, *take_revision(further))
            case ["raw", *further]:
                return send_raw(self, repository, request, *take_revision(further))
            case [] | ["tree", *_] | ["blob", *_]:
                page = f"<!DOCTYPE html><html><head><title>{repository.name}</title></head></html>"
                return Answer(200, page.encode(), {"Content-Type": "text/html; charset=utf-8"})
        raise Refused(404, "", f"Cannot {request.method} {request.path}")

    def _whoami(self, request: Request) -> Answer:
        user = self.user(request)
        if user is None:
            raise Refused(401, "", "Invalid username or password.")
        return json_answer(
            {
                "type": "user",
                "id": hashlib.sha1(user.name.encode()).hexdigest()[:24],
                "name": user.name,
                "fullname": user.name,
                "isPro": user.plan == "pro",
                "orgs": [{"type": "org", "name": name, "roleInOrg": "write"} for name in user.organizations],
                "auth": {
                    "type": "access_token",
                    "accessToken": {"displayName": "tests", "role": "write" if user.can_write else "read"},
                },
            }
        )

    def xet_token(self, repository: Repository, role: str) -> Answer:
        """Answer where the chunks of Xet are, and with a token for them."""
        token = hashlib.sha256(f"{repository.kind}/{repository.name} {role}".encode()).hexdigest()
        expires = int(time.time() + self.addresses.lifetime_s)
        headers = {
            "X-Xet-Cas-Url": self.xet_url,
            "X-Xet-Access-Token": f"xet_{token}",
            "X-Xet-Token-Expiration": str(expires),
        }
        return json_answer({"accessToken": f"xet_{token}", "exp": expires, "casUrl": self.xet_url}, headers=headers)

    # ------------------------------------------------------------------------------------------------------- access

    def user(self, request: Request) -> User | None:
        """Return whose token a request has; None without one."""
        if not request.token:
            return None
        if request.token not in self.tokens:
            raise Refused.bad_token()
        return self.tokens[request.token]

    def find(self, kind: str, owner: str, name: str, *, request: Request) -> Repository:
        """Return the repository of a request, if the client may see it."""
        user = self.user(request)
        full_name = unescaped([owner, name.removesuffix(".git")])
        if (kind, full_name) in self._renamed and (kind, full_name) not in self.repositories:
            renamed = self._renamed[kind, full_name]
            moved = request.path.replace(f"{owner}/{name}", renamed, 1)
            raise Refused.moved(f"{moved}?{request.query}" if request.query else moved)
        repository = self.repositories.get((kind, full_name))
        if repository is None or (repository.is_private and (user is None or not user.owns(repository))):
            raise Refused.no_repository(is_anonymous=user is None)
        if repository.is_disabled:
            raise Refused.disabled()
        return repository

    def check_files(self, repository: Repository, request: Request) -> None:
        """Refuse who may see a gated repository, but not read its files."""
        user = self.user(request)
        if not repository.gated or (user and (user.owns(repository) or user.name in repository.granted)):
            return
        page_url = self.page_url(repository)
        raise Refused.gated(repository.kind, repository.name, page_url, is_anonymous=user is None)

    def page_url(self, repository: Repository) -> str:
        """Return the address of a repository's page."""
        place = "" if repository.kind == "models" else f"{repository.kind}/"
        return f"{self.url}/{place}{repository.name}"


def _kind(request: Request) -> str:
    """Return whose limit a request counts for; the second hop to a small file counts for the resolver, too."""
    if request.is_cdn:
        return "cdn"
    if "/resolve/" in request.path or request.path.startswith("/api/resolve-cache/"):
        return "resolver"
    return "api" if request.path.startswith("/api/") or "/info/lfs/" in request.path else "page"


def _faulty(fault: Fault) -> Answer | None:
    """Return the answer of a fault; None: it changes the one of the hub."""
    if fault.kind in ("html", "html 200"):
        return Answer(502 if fault.kind == "html" else 200, _PAGE, {"Content-Type": "text/html; charset=utf-8"})
    if not fault.kind.isdigit():
        return None
    answer = json_answer({"error": "Planned by the test"}, int(fault.kind))
    if fault.retry_after_s is not None:
        answer.headers["Retry-After"] = str(fault.retry_after_s)
    return answer


@contextmanager
def hub_server(*, port: int = 0, cdn_port: int = 0, xet_store: Path | None = None) -> Iterator[HubServer]:
    """Run a hub in a thread of this process; it takes the arguments of :class:`HubServer`."""
    with HubServer(port=port, cdn_port=cdn_port, xet_store=xet_store) as hub:
        yield hub
