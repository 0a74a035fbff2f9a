"""Failed requests, how to handle each, and the errors that users see."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from ...errors import FormatError, StorageError
from .object_url import parse_object_url
from .options import endpoint_of, options_for

NO_ANSWER = frozenset({"unreachable", "slow", "broken"})
"""Kinds of failures after which it is unknown whether there is such a service: nothing that it says has arrived."""


class Remedy(Enum):
    """Ways to handle a failed request."""

    RETRY = "retry"
    SLOW_DOWN = "slow down"  # and retry
    RETRY_FEW = "retry few times"  # it may be a fault on the way, or the nature of the server
    REFRESH = "refresh"  # denied: once more with new credentials
    GIVE_UP = "give up"


class RequestFailure(OSError):  # noqa: N818 - it is no error of the caller
    """A request failed. As the cause of a ``StorageError`` it ends a run, as every ``OSError`` does.

    Args:
        cause: What happened, in words, without secrets.
        remedy: What to do about it.
        kind: ``missing``, ``changed``, ``not as indexed`` (changed since), ``alternates`` (between two versions),
            ``exists``, ``denied``, ``unreachable`` (no connection was made), ``slow``, ``broken`` (no whole answer),
            ``refused`` (an address), ``too large``, ``given up`` (the host was), ``no bucket``, ``no listing``,
            ``no ranges``, ``odd name`` (of a listed object), ``read-only``, ``wrong region``, ``expired``
            (credentials), ``skewed clock``, ``archived``, ``no repository``, ``gated``, ``no revision``,
            ``wrong token``, ``no history`` (of a commit), ``moved``, ``disabled``, ``offline``,
            ``pointer`` (of Git LFS), ``read-only hub``, or empty.
        retry_after_s: Seconds that the server asks to wait.
    """

    def __init__(self, cause: str, remedy: Remedy, *, kind: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy
        self.kind = kind
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:  # the default one would lose the keyword arguments
        return partial(RequestFailure, kind=self.kind, retry_after_s=self.retry_after_s), (self.cause, self.remedy)


def failure_of_status(status: int, words: str, retry_after_s: float | None = None) -> RequestFailure:
    """Return the failure for an answer with a status other than 200 and 206; 501 is final.

    Args:
        words: The status, and what the service calls the error: ``403 RequestTimeTooSkewed``.
    """
    if kind := kind_of_words(words):
        return RequestFailure(words, Remedy.REFRESH, kind=kind)
    if status in (429, 503):
        return RequestFailure(words, Remedy.SLOW_DOWN, retry_after_s=retry_after_s)
    if status == 408 or (status >= 500 and status != 501):  # 501: the service has no such request
        return RequestFailure(words, Remedy.RETRY, retry_after_s=retry_after_s)
    if status in (401, 403):
        return RequestFailure(words, Remedy.REFRESH, kind="denied")
    if status in (404, 410):
        return RequestFailure(words, Remedy.GIVE_UP, kind="missing")
    if status == 416:
        return RequestFailure("it is shorter now", Remedy.GIVE_UP, kind="changed")
    return RequestFailure(words, Remedy.GIVE_UP)


def kind_of_words(words: str) -> str:
    """Return the kind of a failure that a service names, and that has a hint of its own; else an empty text."""
    return next((kind for code, kind in _KINDS.items() if code in words), "")


_KINDS = {
    "ExpiredToken": "expired",
    "RequestTimeTooSkewed": "skewed clock",
    "InvalidObjectState": "archived",  # of S3
    "BlobArchived": "archived",  # of Azure
}
_ANOTHER_WRITER = "another process writes to this dataset: wait for it, then try again"
_CHANGED = {
    "changed": ("while it was read", "wait until nothing writes to it, then try again"),
    "not as indexed": ("since it was prepared", "run energon prepare again on this dataset"),
}
_START_AGAIN = "check the network and the service, then start again: nothing was skipped"
READ_ONLY_HUB = "write to a folder of this machine, then upload it with: hf upload"
_HINTS = {
    "archived": "it is in an archive, such as Glacier: restore it to a class that can be read, then start again",
    "expired": "the temporary credentials have expired: get new ones, such as by aws sso login",
    "skewed clock": "set the clock of this machine, which differs too much from the time of the service",
    "alternates": (
        "if its replicas hold the same files, set the storage option check_versions=false, which compares sizes alone"
    ),
    "odd name": "copy or move it to another name, or give a folder without it",
    "no listing": "give the folder that it serves, or the URL of its bucket (s3://…)",
    "no ranges": "use a web server that answers range requests, such as nginx; python -m http.server does not",
    "read-only": "write to the folder that it serves, or to its bucket (s3://…)",
    "disabled": "the hub has disabled it: see its page",
    "no history": "prepare it again, or pull another index; if you trust this one, name the commit: @COMMIT in the URL",
    "offline": "unset HF_HUB_OFFLINE, or give a folder of this machine to which the dataset was downloaded",
    "pointer": "its owner has to upload the file itself: git lfs push, or hf upload",
    "read-only hub": READ_ONLY_HUB,
    "wrong token": "log in again with: hf auth login; or set HF_TOKEN to a token that is valid",
    "wrong region": "set AWS_REGION, or the storage option region, to the region of the bucket",
}
_CREDENTIALS = {
    "hf": "HF_TOKEN, or log in with: hf auth login",
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of this machine",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or others of AZURE_STORAGE_*",
    "msc": "the credentials of this profile, in the file that MSC_CONFIG names",
}
_ENDPOINTS = {
    "hf": "HF_ENDPOINT, or the storage option endpoint_url",
    "s3": "AWS_ENDPOINT_URL, or the storage option endpoint_url",
    "gs": "the storage option endpoint_url",
    "az": "the storage option endpoint_url",
    "msc": "the file that MSC_CONFIG names",
}


def missing_object(url: str) -> StorageError:
    """Return the error of an object that does not exist; its cause is a ``FileNotFoundError``."""
    error = StorageError("this object does not exist", path=url, hint="check the URL")
    error.__cause__ = FileNotFoundError(url)
    return error


def error_of_failure(
    failure: RequestFailure, *, action: str, url: str, tries: int, spent_s: float
) -> StorageError | FormatError:
    """Return the error of a request that is given up; its cause is a ``FileNotFoundError`` if the object is missing.

    Args:
        action: What the request does: ``read bytes 0–512 of``.
    """
    if failure.kind == "missing":
        return missing_object(url)
    if failure.kind in _CHANGED and action != "write":
        since, hint = _CHANGED[failure.kind]
        return FormatError(f"this object changed {since}: {failure.cause}", at=url, hint=hint)
    what = "folder" if action == "list" else "object"
    after = f" after {tries} tries in {spent_s:.0f} s" if tries > 1 and failure.remedy is not Remedy.REFRESH else ""
    return StorageError(
        f"cannot {action} this {what}: {failure.cause}{after}", path=url, hint=_hint(failure.kind, url, tries)
    )


def _hint(kind: str, url: str, tries: int) -> str | None:
    protocol = url.partition("://")[0]
    protocol = "az" if protocol in ("abfs", "abfss") else protocol
    if kind == "denied":
        return _access_hint(protocol, url)
    if kind in ("no repository", "gated", "no revision"):
        return _repository_hint(kind, url)
    if kind == "no bucket":
        endpoint = f", and the endpoint: {_ENDPOINTS[protocol]}" if protocol in _ENDPOINTS else ""
        return f"check the name of the bucket{endpoint}"
    if kind == "unreachable":
        endpoint = f"the endpoint: {_ENDPOINTS[protocol]}" if protocol in _ENDPOINTS else "the name of the host"
        return f"check the network and {endpoint}"
    if kind == "changed":
        return _ANOTHER_WRITER
    return _HINTS.get(kind, _START_AGAIN if tries > 1 and kind != "exists" else None)


def _repository_hint(kind: str, url: str) -> str:
    object_url = parse_object_url(url)
    page = f"{endpoint_of('hf', options_for(url)).rstrip('/')}/{object_url.container}"
    if kind == "gated":
        return f"accept its conditions at {page}, and log in with: hf auth login; or set HF_TOKEN"
    if kind == "no revision":
        return f"check its name, or see whether it was removed, or forced away: {page}/branches"
    return f"check the name at {page}; for a private repository, log in with: hf auth login; or set HF_TOKEN"


def _access_hint(protocol: str, url: str) -> str:
    if protocol not in _CREDENTIALS:
        return "check the URL; web servers are read without credentials"
    if options_for(url).anonymous:
        return "the storage option anonymous=true sends no credentials: remove it, unless the bucket is public"
    sas = os.environ.get("AZURE_STORAGE_SAS_KEY") or os.environ.get("AZURE_STORAGE_SAS_TOKEN") or ""
    expiry = parse_qs(sas.lstrip("?")).get("se", [""])[0] if protocol == "az" else ""
    if expiry and expiry < datetime.now(UTC).isoformat():
        return f"the SAS token of AZURE_STORAGE_SAS_KEY expired at {expiry}: set a new one"
    public = "" if protocol == "msc" else "; for a public bucket, set the storage option anonymous=true"
    return f"check {_CREDENTIALS[protocol]}{public}"
