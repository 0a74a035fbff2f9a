"""Requests to a hub: its endpoint, the token, the limits, and errors by the codes that the hub sends."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .....errors import ConfigError
from .....version import __version__
from ...failures import Remedy, RequestFailure, failure_of_status
from ...object_url import host_of, redact_urls
from ...options import StorageOptions, endpoint_of
from ..http_client import REDIRECTS, HttpClient, WebAnswer, redirected
from .node_files import digest_of, node_files
from .request_pace import RequestPace

_MAX_REDIRECTS = 5  # renamed repositories, and the resolver's own cache
_MAX_REFUSALS = 20  # of one request: other jobs with the same token use up each window
_MAX_JSON_BYTES = 64 << 20  # a page of 1,000 files has less than 1 MiB
_HOST = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_CODES = {
    "RepoNotFound": "no repository",
    "GatedRepo": "gated",
    "RevisionNotFound": "no revision",
    "EntryNotFound": "missing",
}
_SECRET_KINDS = ("no repository", "gated")  # a token of another user may read it


@dataclass(frozen=True, slots=True)
class _Client:
    """The token of this user, and the headers with it."""

    token: str
    headers: dict[str, str]


class HubRequests:
    """Requests to the hub of the environment; threads share them.

    Attributes:
        endpoint: The hub's URL, without a slash at its end.
        files: Files that the processes of this node share, of this hub and token.
    """

    def __init__(self, web: HttpClient, options: StorageOptions) -> None:
        self.endpoint = endpoint_of("hf", options).rstrip("/")
        self.files = node_files(options.cache_dir)
        self._web = web
        self._is_anonymous = options.anonymous
        self.refresh()

    def refresh(self) -> None:
        """Read the token again."""
        self._client = _client(is_anonymous=self._is_anonymous)
        self.identity = digest_of(self.endpoint, self._client.token)
        self.pace = RequestPace(self.files, host_of(self.endpoint).partition("://")[2], self.identity)

    def get_json(self, path: str) -> tuple[Any, str]:
        """Return the document at a path or URL of the API, and the URL of its next page, which may be empty."""
        url = path
        if not url.startswith(
            f"{self.endpoint}/"
        ):  # a mirror passes on the URLs of the hub, which must not get its token
            url = f"{self.endpoint}/{_HOST.sub('', path).lstrip('/')}"
        answer = self.ask("GET", url, limit="api", most_bytes=_MAX_JSON_BYTES)
        self.check(answer)
        try:
            return json.loads(answer.data), _next_page(answer.headers.get("link", ""))
        except (ValueError, RecursionError):
            raise RequestFailure("the hub answers with something else than JSON", Remedy.RETRY_FEW) from None

    def ask(
        self, method: str, url: str, *, limit: str, headers: Mapping[str, str] | None = None, most_bytes: int = 0
    ) -> WebAnswer:
        """Send a request as the limit permits, and return the answer; redirects within the hub are followed."""
        _check_online(self.endpoint)
        for _ in range(_MAX_REDIRECTS + 1):
            answer = self._ask(method, url, limit, {**self._client.headers, **(headers or {})}, most_bytes)
            location = answer.headers.get("location")
            if answer.status not in REDIRECTS or not location:
                return answer
            target = redirected(url, location)
            if not _is_same_host(url, target):
                return answer
            url = target
        raise RequestFailure(f"the hub redirects more than {_MAX_REDIRECTS} times", Remedy.GIVE_UP)

    def _ask(self, method: str, url: str, limit: str, headers: Mapping[str, str], most_bytes: int) -> WebAnswer:
        for _ in range(_MAX_REFUSALS):
            self.pace.wait(limit)
            answer = self._web.ask(method, url, headers=headers, most_bytes=most_bytes)
            self.pace.note(limit, answer.headers, is_refused=answer.status == 429)
            if answer.status != 429:
                return answer
        raise RequestFailure(f"429 Too Many Requests {_MAX_REFUSALS} times, each in another window", Remedy.GIVE_UP)

    def check(self, answer: WebAnswer) -> None:
        """Raise the failure that an answer names, if it is no success and no redirect."""
        if answer.status < 400:
            return
        code = answer.headers.get("x-error-code", "")
        words = redact_urls(answer.headers.get("x-error-message", "")).replace(self._client.token or "\0", "…")[:200]
        kind = _CODES.get(code, "")
        # A missing repository is named by 401 to those without a token, and so is a wrong token.
        if not kind and answer.status == 401:
            kind = "wrong token" if self._client.token else "no repository"
        if "disabled" in words:
            kind = "disabled"
        if not kind:
            raise failure_of_status(answer.status, f"{answer.status} {words}".strip())
        is_unknown = kind == "no repository"  # the hub asks for a password then
        cause = "there is no such repository, or it is private" if is_unknown else words or f"{answer.status} {code}"
        if kind in _SECRET_KINDS and not self._client.token:
            cause = f"{cause} (no token was sent)"
        raise RequestFailure(cause, Remedy.GIVE_UP, kind=kind)


def _client(*, is_anonymous: bool) -> _Client:
    try:
        from huggingface_hub.utils import get_token_to_send  # type: ignore[attr-defined]
    except ImportError as error:
        raise ConfigError(
            "hf:// URLs need the package huggingface_hub, version 2 or later",
            hint='run: pip install "energon-toolkit[hf]"',
        ) from error
    # Its build_hf_headers would send a request of its own, in each process of a node that has no cache for the answer.
    token = get_token_to_send(False if is_anonymous else None)
    headers = {"User-Agent": f"energon-toolkit/{__version__}"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return _Client(token or "", headers)


def _check_online(endpoint: str) -> None:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise RequestFailure(
            f"HF_HUB_OFFLINE is set, so {host_of(endpoint)} is not asked", Remedy.GIVE_UP, kind="offline"
        )


def _is_same_host(url: str, target: str) -> bool:
    return host_of(url) == host_of(target)


def _next_page(link: str) -> str:
    """Return the URL that a head ``Link`` names as the next page; empty without one.

    >>> _next_page('<https://huggingface.co/api/x?cursor=a%3D>; rel="next"')
    'https://huggingface.co/api/x?cursor=a%3D'
    """
    url, _, relation = link.partition(">")
    return url.strip().removeprefix("<") if 'rel="next"' in relation else ""
