"""Refuse requests without the token or for other hosts, and add headers that keep data from running as code."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_MAX_COOKIE_AGE_S = 30 * 24 * 3600


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
    """Middleware around the whole application.

    Args:
        app: The application.
        token: Must come as a cookie, a bearer token, or once as ``?token=``.
        host: The host that the server was told to listen at.
        port: Its port; servers of several ports have cookies of their own.
    """

    def __init__(self, app: ASGIApp, *, token: str, host: str, port: int) -> None:
        self._app = app
        self._token = token
        self._names = {host.lower(), socket.gethostname().lower()}
        self._cookie = f"energon_browse_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._answer(Request(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", _PAGE_POLICY)
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
            await send(message)

        await (refused or self._app)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        """Return the answer to a request that is not passed on."""
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
