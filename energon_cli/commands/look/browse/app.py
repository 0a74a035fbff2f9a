"""The web application: pages, and routes to the values of ``loader.inspect.browse``."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loader.errors import EnergonError
from loader.inspect.browse import Catalogue, ThumbnailPool, WorkerPool

from .requests import MAX_DIGITS, answer_error, answer_missing
from .routes import Routes

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors "
)
_NO_FRAMES, _FRAMES_HERE = "'none'", "http://127.0.0.1:* http://localhost:*"
_MAX_COOKIE_AGE_S = 30 * 24 * 3600


_STATIC = Path(__file__).parent / "static"


class _AnyPath(Convertor[str]):
    """Match the rest of a path with line ends, as keys may have, which Starlette's ``path`` refuses."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Number(Convertor[int]):
    """Match a number; -1 for one that no sample has: negative, with a point, or of more than 18 digits."""

    regex = "[-+.0-9][^/]*"

    def convert(self, value: str) -> int:
        return int(value) if value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS else -1

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("any", _AnyPath())
register_url_convertor("number", _Number())


async def _page(_request: Request) -> Response:
    return FileResponse(_STATIC / "index.html", headers={"Cache-Control": "no-cache"})


def serve_pages(
    catalogue: Catalogue,
    listener: socket.socket,
    *,
    host: str,
    token: str,
    edit: bool,
    embed: bool = False,
    on_start: Callable[[], None],
) -> None:
    """Serve pages until Ctrl-C or SIGTERM, then end the worker processes."""
    # The application, its worker processes, and the guard around it.
    thumbnails = ThumbnailPool(workers=max(1, min(8, len(os.sched_getaffinity(0)))))
    readers = WorkerPool(workers=2)
    routes = [
        *Routes(catalogue, thumbnails=thumbnails, readers=readers, edit=edit).routes(),
        *(Route(path, _page) for path in ("/", "/datasets", "/stats/{rest:any}", "/s/{rest:any}")),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    answers = {EnergonError: answer_error, KeyError: answer_missing}
    application, port = Starlette(routes=routes, exception_handlers=answers), listener.getsockname()[1]
    app = Guard(application, token=token, host=host, port=port, embed=embed)

    # The server reports when it serves, and ends the workers.
    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_start()
            thumbnails.start()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # cancelled requests are no errors
            await super().shutdown(sockets)
            thumbnails.close()
            readers.close()

    # Serve until Ctrl-C or SIGTERM.
    config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=1, server_header=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises its signal again: worker processes must end
    Server(config).run([listener])


def is_allowed_host(header: str, names: Collection[str]) -> bool:
    """Return True if a Host header is an IP address, ``localhost`` or one of the names.

    A page of another site that rebinds its own name to this machine sends its own name.

    >>> is_allowed_host("127.0.0.1:8000", ()), is_allowed_host("[::1]:80", ()), is_allowed_host("evil.example", ())
    (True, True, False)
    """
    host = header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]
    if host.lower() in ("localhost", *names):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, token: str, host: str, port: int, embed: bool = False) -> None:
        self._app = app
        self._token = token
        self._names = {host.lower(), socket.gethostname().lower()}
        self._policy = _PAGE_POLICY + (_FRAMES_HERE if embed else _NO_FRAMES)
        self._cookie = f"energon_browse_{port}"  # servers of several ports have cookies of their own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._answer(Request(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", self._policy)
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
            await send(message)

        await (refused or self._app)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        if not is_allowed_host(request.headers.get("host", ""), self._names):
            return PlainTextResponse("this host name is not served; use the printed URL\n", status_code=421)
        given = request.query_params.get("token")
        if given is not None and request.method == "GET" and self._is_token(given):
            rest = [pair for pair in parse_qsl(request.url.query) if pair[0] != "token"]
            raw_path = request.scope.get("raw_path", b"/").decode("ascii", "replace").partition("?")[0]
            target = "/" + raw_path.lstrip("/") + (f"?{urlencode(rest)}" if rest else "")
            answer = RedirectResponse(target, status_code=303)
            answer.set_cookie(self._cookie, given, max_age=_MAX_COOKIE_AGE_S, httponly=True, samesite="strict")
            return answer
        header = request.headers.get("authorization", "")
        bearer = header.removeprefix("Bearer ") if header.startswith("Bearer ") else ""
        if self._is_token(request.cookies.get(self._cookie, "")) or self._is_token(bearer):
            if request.method not in ("GET", "HEAD") and request.headers.get("x-energon") != "1":
                return PlainTextResponse("refused: not from the page of energon browse\n", status_code=403)
            return None
        return PlainTextResponse("open the URL that energon browse printed: it has the token\n", status_code=401)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token.encode())
