"""Requests to a hub: its endpoint, the token, limits, errors by the codes that it sends, and answers of a node."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from .....errors import ConfigError
from ...failures import Remedy, RequestFailure, failure_of_status
from ...object_url import host_of, redact_urls
from ...options import StorageOptions, endpoint_of
from ..http_client import REDIRECTS, HttpClient, WebAnswer, redirected
from .node_files import digest_of, open_node_files
from .request_pace import RequestPace

# Most requests for one answer: renamed repositories and the resolver's own cache redirect, and other jobs with the same
# token use up windows.
_MAX_REQUESTS = 20
_MAX_JSON_BYTES = 64 << 20  # a page of 1,000 files has less than 1 MiB
_HOST = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_CODES = {
    "RepoNotFound": "no repository",
    "GatedRepo": "gated",
    "RevisionNotFound": "no revision",
    "EntryNotFound": "missing",
}
_SECRET_KINDS = ("no repository", "gated")  # a token of another user may read it


_Answer = TypeVar("_Answer")


class HubRequests:
    """Requests to the hub of the environment; threads share them.

    Attributes:
        endpoint: The hub's URL, without a slash at its end.
    """

    def __init__(self, web: HttpClient, options: StorageOptions) -> None:
        self.endpoint = endpoint_of("hf", options).rstrip("/")
        self._files = open_node_files(options.cache_dir)
        self._web = web
        self._is_anonymous = options.anonymous
        self.refresh()

    def refresh(self) -> None:
        """Read the token again."""
        try:
            from huggingface_hub.utils import get_token_to_send  # type: ignore[attr-defined]
        except ImportError as error:
            raise ConfigError(
                "hf:// URLs need the package huggingface_hub, version 2 or later",
                hint='run: pip install "energon-toolkit[hf]"',
            ) from error
        # Its build_hf_headers would send a request, in each process of a node that has no cache for the answer.
        self._token = get_token_to_send(False if self._is_anonymous else None) or ""
        self._identity = digest_of(self.endpoint, self._token)
        self._pace = RequestPace(self._files, host_of(self.endpoint).partition("://")[2], self._identity)

    def answer(
        self,
        question: tuple[str, ...],
        form: type[_Answer],
        ask: Callable[[], _Answer],
        is_usable: Callable[[_Answer], bool] = lambda _: True,
    ) -> _Answer:
        """Return an answer of the hub that the processes of this node share: one of them asks, the others wait for it.

        Args:
            question: A word that begins the name of the answer's file, and what is asked.
            form: Type of the answer, which JSON can hold.
            is_usable: Returns False for a shared answer that has become old.
        """
        name = f"{question[0]}-{digest_of(self._identity, *question[1:])}"
        with self._files.hold(name):
            data = self._files.read(name)
            with suppress(msgspec.DecodeError, zlib.error):  # of another release
                if data is not None and is_usable(answer := msgspec.json.decode(zlib.decompress(data), type=form)):
                    return answer
            answer = ask()
            self._files.write(name, zlib.compress(json.dumps(answer).encode(), 1))
        return answer

    def documents(self, path: str) -> Iterator[Any]:
        """Yield the document at a path of the API, then the documents of its next pages, each after a request."""
        while path:
            # A mirror passes on the URLs of the hub, which must not get its token.
            is_here = path.startswith(f"{self.endpoint}/")
            url = path if is_here else f"{self.endpoint}/{_HOST.sub('', path).lstrip('/')}"
            answer = self.ask("GET", url, limit="api", most_bytes=_MAX_JSON_BYTES)
            self.check(answer)
            try:
                document = json.loads(answer.data)
            except (ValueError, RecursionError):
                raise RequestFailure("the hub answers with something else than JSON", Remedy.RETRY_FEW) from None
            yield document
            before, path = path, _next_page(answer.headers.get("link", ""))
            if path == before:
                raise RequestFailure("the hub sends the same page of a listing again", Remedy.RETRY_FEW)

    def ask(
        self, method: str, url: str, *, limit: str, headers: Mapping[str, str] | None = None, most_bytes: int = 0
    ) -> WebAnswer:
        """Send a request as the limit permits, and return the answer; redirects within the hub are followed."""
        _check_online(self.endpoint)
        credentials = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        for _ in range(_MAX_REQUESTS):
            self._pace.wait(limit)
            answer = self._web.ask(method, url, headers={**credentials, **(headers or {})}, most_bytes=most_bytes)
            self._pace.note(limit, answer.headers, is_refused=answer.status == 429)
            if answer.status == 429:
                continue
            location = answer.headers.get("location")
            if answer.status not in REDIRECTS or not location:
                return answer
            target = redirected(url, location)
            if host_of(url) != host_of(target):
                return answer
            url = target
        cause = f"the hub answered {_MAX_REQUESTS} times with 429 Too Many Requests or a redirect"
        raise RequestFailure(cause, Remedy.GIVE_UP)

    def check(self, answer: WebAnswer) -> None:
        """Raise the failure that an answer names, if it is no success and no redirect."""
        if answer.status < 400:
            return
        code = answer.headers.get("x-error-code", "")
        words = redact_urls(answer.headers.get("x-error-message", "")).replace(self._token or "\0", "…")[:200]
        kind = _CODES.get(code, "")
        # A missing repository is named by 401 to those without a token, and so is a wrong token.
        if not kind and answer.status == 401:
            kind = "wrong token" if self._token else "no repository"
        if "disabled" in words:
            kind = "disabled"
        if not kind:
            raise failure_of_status(answer.status, f"{answer.status} {words}".strip())
        is_unknown = kind == "no repository"  # the hub asks for a password then
        cause = "there is no such repository, or it is private" if is_unknown else words or f"{answer.status} {code}"
        if kind in _SECRET_KINDS and not self._token:
            cause = f"{cause} (no token was sent)"
        raise RequestFailure(cause, Remedy.GIVE_UP, kind=kind)


def _check_online(endpoint: str) -> None:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        cause = f"HF_HUB_OFFLINE is set, so {host_of(endpoint)} is not asked"
        raise RequestFailure(cause, Remedy.GIVE_UP, kind="offline")


def _next_page(link: str) -> str:
    """Return the URL that a head ``Link`` names as the next page; empty without one.

    >>> _next_page('<https://huggingface.co/api/x?cursor=a%3D>; rel="next"')
    'https://huggingface.co/api/x?cursor=a%3D'
    """
    url, _, relation = link.partition(">")
    return url.strip().removeprefix("<") if 'rel="next"' in relation else ""
