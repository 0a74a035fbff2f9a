"""Requests by obstore: S3, GCS, Azure and HTTP. A process that has used it must not fork."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ...errors import ConfigError
from ...version import __version__
from .client import ClientObject, Received
from .failures import Remedy, RequestFailure
from .object_url import ObjectUrl, redact_urls
from .options import StorageOptions, endpoint_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["ObstoreClient"]

_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})([^:]*)(?::.*?<Code>(\w+)</Code>)?", re.DOTALL)
_REQUEST_LIMIT = timedelta(minutes=5)
_CONNECT_LIMIT = timedelta(seconds=10)
_PAGE = 1000


class ObstoreClient:
    """Requests to one bucket.

    Args:
        url: A URL in the bucket.
        options: Endpoint, region and limits.

    Raises:
        ConfigError: obstore is not installed, or refuses the options.
    """

    def __init__(self, url: ObjectUrl, options: StorageOptions) -> None:
        self._url = url
        self._options = options
        self._store = _open_store(url, options)

    def get(self, key: str, start: int, stop: int) -> Received:
        import obstore

        result = self._call(lambda: obstore.get(self._store, key, options={"range": (start, stop)}))
        meta = result.meta
        expected = min(stop, meta["size"])
        if result.range != (start, expected):
            raise RequestFailure(f"asked for bytes {start}–{stop}, got others", Remedy.RETRY_FEW)
        data = self._call(result.bytes)
        if len(data) != expected - start:
            raise RequestFailure(f"expected {expected - start} bytes, found {len(data)}", Remedy.RETRY)
        return Received(memoryview(data), meta["size"], _etag(meta))

    def get_all(self, key: str) -> Received:
        import obstore

        result = self._call(lambda: obstore.get(self._store, key))
        meta = result.meta
        data = self._call(result.bytes)
        if len(data) != meta["size"]:
            raise RequestFailure(f"expected {meta['size']} bytes, found {len(data)}", Remedy.RETRY)
        return Received(memoryview(data), meta["size"], _etag(meta))

    def head(self, key: str) -> ClientObject:
        import obstore

        return _listed(self._call(lambda: obstore.head(self._store, key)))

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:
        import obstore

        pages = iter(obstore.list(self._store, prefix or None, chunk_size=_PAGE))
        while True:
            page = self._call(lambda: next(pages, None))
            if page is None:
                return
            yield [_listed(meta) for meta in page]

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:
        import obstore

        mode: Any = "create" if if_absent else "overwrite" if if_etag is None else {"e_tag": f'"{if_etag}"'}
        return _etag(self._call(lambda: obstore.put(self._store, key, data, mode=mode)))

    def delete(self, keys: Sequence[str]) -> None:
        import obstore

        try:
            self._call(lambda: obstore.delete(self._store, list(keys)))
        except RequestFailure as failure:
            if failure.kind != "missing":
                raise

    def refresh(self) -> None:
        self._store = _open_store(self._url, self._options)

    def _call(self, request: Callable[[], _T]) -> _T:
        from obstore.exceptions import BaseError

        try:
            return request()
        except (BaseError, OSError, ValueError) as error:
            _raise_failure(error)


def _etag(meta: Any) -> str:
    return (meta.get("e_tag") or "").strip('"')


def _listed(meta: Any) -> ClientObject:
    mtime = meta["last_modified"]
    # datetime.timestamp() is a float, which has no room for nanoseconds.
    mtime_ns = (int(mtime.timestamp()) * 10**6 + mtime.microsecond) * 1000
    return ClientObject(meta["path"], meta["size"], mtime_ns, _etag(meta))


def _raise_failure(error: Exception) -> NoReturn:
    """Raise an error of obstore as a failure. It tells most of them apart only by text (contract tests pin it)."""
    from obstore import exceptions

    text = str(error)
    if isinstance(error, FileNotFoundError):
        raise RequestFailure("it does not exist", Remedy.GIVE_UP, kind="missing") from None
    status = _STATUS.search(text)
    words = ""
    if status:
        code = status[3] or status[2].strip()
        words = f"{status[1]} {code}".strip()
    if isinstance(error, exceptions.AlreadyExistsError):
        raise RequestFailure("it exists", Remedy.GIVE_UP, kind="exists") from None
    if isinstance(error, exceptions.PreconditionError):
        raise RequestFailure("it has another version now", Remedy.GIVE_UP, kind="changed") from None
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        raise RequestFailure(words or "access is denied", Remedy.REFRESH, kind="denied") from None
    if status:
        number = int(status[1])
        if code == "NoSuchBucket":
            raise RequestFailure("the bucket does not exist", Remedy.GIVE_UP) from None
        if number in (429, 503):
            raise RequestFailure(words, Remedy.SLOW_DOWN) from None
        if number == 408 or number >= 500:
            raise RequestFailure(words, Remedy.RETRY) from None
        if number == 416:
            raise RequestFailure("it is shorter now", Remedy.GIVE_UP, kind="changed") from None
        raise RequestFailure(words, Remedy.GIVE_UP) from None
    if "non-partial" in text or "Requested " in text:
        raise RequestFailure("the server answers a range with other bytes", Remedy.RETRY_FEW) from None
    if "169.254.169.254" in text or "169.254.170.2" in text or "metadata.google" in text:
        raise RequestFailure("no credentials were found", Remedy.GIVE_UP, kind="denied") from None
    if "HTTP error" in text or "error sending request" in text or "body error" in text:
        kind = "timed out" if "TimedOut" in text or "Timeout" in text else "the connection failed"
        raise RequestFailure(kind, Remedy.RETRY) from None
    first_line = redact_urls(text.split("\n", 1)[0])
    raise RequestFailure(first_line, Remedy.RETRY_FEW) from None


def _open_store(url: ObjectUrl, options: StorageOptions) -> ObjectStore:
    try:
        import obstore  # noqa: F401
        from obstore import store as stores
    except ImportError as error:
        raise ConfigError(
            f"{url.protocol}:// URLs need the package obstore, which is not installed",
            at=str(url),
            hint="pip install 'energon-toolkit[remote]'",
        ) from error
    client: Any = {
        "connect_timeout": _CONNECT_LIMIT,
        "read_timeout": timedelta(seconds=options.stall_s),
        "timeout": _REQUEST_LIMIT,
        "user_agent": f"energon-toolkit/{__version__}",
    }
    config: dict[str, Any] = {}
    try:
        if url.protocol == "s3":
            endpoint = endpoint_of("s3", options)
            config |= _s3_config(options, endpoint)
            client["allow_http"] = bool(endpoint and endpoint.startswith("http://"))
            return stores.S3Store(url.container, client_options=client, retry_config={"max_retries": 0}, **config)
        if url.protocol == "gs":
            if options.anonymous:
                config["skip_signature"] = True
            return stores.GCSStore(url.container, client_options=client, retry_config={"max_retries": 0}, **config)
        if url.protocol == "az":
            if url.account:
                config["account_name"] = url.account
            if options.endpoint_url:
                config["endpoint"] = options.endpoint_url
                client["allow_http"] = options.endpoint_url.startswith("http://")
            if options.anonymous:
                config["skip_signature"] = True
            return stores.AzureStore(url.container, client_options=client, retry_config={"max_retries": 0}, **config)
        client["allow_http"] = url.protocol == "http"
        return stores.HTTPStore.from_url(
            f"{url.protocol}://{url.container}", client_options=client, retry_config={"max_retries": 0}
        )
    except exceptions_of_configuration() as error:
        cause = redact_urls(str(error).split("\n", 1)[0])
        raise ConfigError(f"cannot use this store: {cause}", at=str(url)) from None


def exceptions_of_configuration() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError

    return (BaseError, ValueError, TypeError)


def _s3_config(options: StorageOptions, endpoint: str | None) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if endpoint:
        config["endpoint"] = endpoint
        config["virtual_hosted_style_request"] = bool(options.virtual_hosted)
    elif options.virtual_hosted is not None:
        config["virtual_hosted_style_request"] = options.virtual_hosted
    profile = options.profile or os.environ.get("AWS_PROFILE")
    region = options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if options.request_payer or os.environ.get("AWS_REQUEST_PAYER"):
        config["request_payer"] = True
    if options.anonymous:
        config["skip_signature"] = True
    elif profile or (not os.environ.get("AWS_ACCESS_KEY_ID") and Path("~/.aws/credentials").expanduser().exists()):
        provider, region_of_profile = _profile_credentials(profile)
        config["credential_provider"] = provider
        region = region or region_of_profile
    config["region"] = region or "us-east-1"
    return config


def _profile_credentials(profile: str | None) -> tuple[Any, str | None]:
    try:
        import boto3  # type: ignore[import-untyped]
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise ConfigError(
            "profiles of ~/.aws need the package boto3, which is not installed",
            hint="pip install boto3, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ) from error
    session = boto3.Session(profile_name=profile)
    return Boto3CredentialProvider(session), session.region_name
