"""Requests by obstore: S3, GCS and Azure; its stores. A process that has used it must not fork."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from ....errors import ConfigError, required_package
from ....version import __version__
from ..failures import Remedy, RequestFailure, failure_of_status
from ..object_url import ObjectUrl, parse_object_url, redact_urls
from ..options import StorageOptions, endpoint_of
from .connection import ClientObject, Received
from .http_client import HttpClient

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_REQUEST_LIMIT = timedelta(minutes=5)
_CONNECT_LIMIT = timedelta(seconds=10)
_NO_RETRIES: Any = {"max_retries": 0}  # requests are retried by `connection.py` alone
_RETRIES_OF_PARTS: Any = {  # but an upload by parts is one call of obstore, and a failed part should not end it
    "max_retries": 8,
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
}


def open_store(url: ObjectUrl, options: StorageOptions, *, retries: bool = False) -> ObjectStore:
    """Open the bucket of a URL."""
    with _named_faults(str(url), url.protocol):
        if url.protocol == "s3":
            return open_s3_store(url.container, options, retries=retries)
        from obstore import store as stores

        config: dict[str, Any] = {"skip_signature": True} if options.anonymous else {}
        config["retry_config"] = _RETRIES_OF_PARTS if retries else _NO_RETRIES
        # The services name their endpoints differently; a variable of the environment has the same meaning.
        variable, name = ("GOOGLE_BASE_URL", "base_url") if url.protocol == "gs" else ("AZURE_ENDPOINT", "endpoint")
        config["client_options"] = _client(options, options.endpoint_url or os.environ.get(variable))
        if options.endpoint_url:
            config[name] = options.endpoint_url
        if url.protocol == "gs":
            return stores.GCSStore(url.container, **config)
        if url.account:
            config["account_name"] = url.account
        return stores.AzureStore(url.container, **config)


def open_s3_store(
    bucket: str,
    options: StorageOptions,
    *,
    endpoint_url: str | None = None,
    credentials: Callable[[], Any] | None = None,
    retries: bool = False,
) -> ObjectStore:
    """Open a bucket of S3.

    Args:
        endpoint_url: Endpoint if the options name none; by default, the environment decides.
        credentials: Returns credentials as obstore takes them; by default, the environment or a profile decides.
    """
    with _named_faults(f"s3://{bucket}", "s3"):
        from obstore.store import S3Store

        # Where requests go.
        endpoint = options.endpoint_url or endpoint_url or endpoint_of("s3", options)
        config: dict[str, Any] = {}
        if endpoint:
            config["endpoint"] = endpoint
            config["virtual_hosted_style_request"] = bool(options.virtual_hosted)
        elif options.virtual_hosted is not None:
            config["virtual_hosted_style_request"] = options.virtual_hosted
        if options.request_payer or os.environ.get("AWS_REQUEST_PAYER"):
            config["request_payer"] = True
        # Who sends them.
        profile = options.profile or os.environ.get("AWS_PROFILE")
        region = options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if options.anonymous:
            config["skip_signature"] = True
        elif credentials is not None:
            config["credential_provider"] = credentials
        elif profile or (not os.environ.get("AWS_ACCESS_KEY_ID") and Path("~/.aws/credentials").expanduser().exists()):
            config["credential_provider"], region_of_profile = _profile_credentials(profile)
            region = region or region_of_profile
        config["region"] = region or "us-east-1"
        config["retry_config"] = _RETRIES_OF_PARTS if retries else _NO_RETRIES
        return S3Store(bucket, client_options=_client(options, endpoint), **config)


def _client(options: StorageOptions, endpoint_url: str | None) -> Any:
    return {
        "connect_timeout": _CONNECT_LIMIT,
        "read_timeout": timedelta(seconds=options.stall_s),
        "timeout": _REQUEST_LIMIT,
        "user_agent": f"energon-toolkit/{__version__}",
        "allow_http": bool(endpoint_url and endpoint_url.startswith("http://")),
    }


@contextmanager
def _named_faults(url: str, protocol: str) -> Iterator[None]:
    with required_package(
        f"{protocol}:// URLs need the package obstore, which is not installed",
        at=url,
        hint="pip install 'energon-toolkit[remote]'",
    ):
        from obstore.exceptions import BaseError
    try:
        yield
    except (BaseError, ValueError, TypeError) as error:
        cause = redact_urls(str(error).split("\n", 1)[0])
        raise ConfigError(f"cannot use this store: {cause}", at=url) from None


def _profile_credentials(profile: str | None) -> tuple[Any, str | None]:
    with required_package(
        "profiles of ~/.aws need the package boto3, which is not installed",
        hint="pip install boto3, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ):
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(profile_name=profile)
        return Boto3CredentialProvider(session), session.region_name
    except BotoCoreError as error:
        raise ConfigError(
            f"cannot use the profile {profile or 'default'}: {error}", hint="check ~/.aws/config and AWS_PROFILE"
        ) from error


_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})([^:]*)(?::.*?<Code>(\w+)</Code>)?", re.DOTALL)
_CONNECT_CAUSES = {
    "dns error": "its name is unknown",
    "ConnectionRefused": "the connection was refused",
    "TimedOut": "no connection in time",
    "certificate": "its certificate was refused",
    "InvalidContentType": "it speaks no TLS; its URL may begin with http://",
}
_HOST = re.compile(r"https?://[^/\s,]+")
_PAGE = 1000
_PART_BYTES = 16 << 20
_PARTS_AT_ONCE = 4
_MAX_PARTS = 9_000  # S3 takes 10,000


class ObstoreClient:
    """Requests to one bucket.

    Args:
        open_store: Opens the bucket, with new credentials each time; with retries for uploads by parts.
    """

    can_list = True

    def __init__(self, open_store: Callable[..., ObjectStore]) -> None:
        self._open_store = open_store
        self._upload_store: ObjectStore | None = None
        self._store = open_store()  # raises an error that names the package if it is missing
        import obstore
        from obstore.exceptions import BaseError

        self._get = obstore.get  # imports in each request would take a tenth of its processor time
        self._errors = (BaseError, OSError, ValueError)

    def get(self, key: str, start: int, stop: int) -> Received:
        return self._received(key, start, stop, {"range": (start, stop)})

    def get_all(self, key: str) -> Received:
        return self._received(key, 0, None, None)

    def _received(self, key: str, start: int, stop: int | None, options: Any) -> Received:
        try:
            result = self._get(self._store, key, options=options)
            data = result.bytes().to_bytes()  # a copy, so that no larger buffer stays
        except self._errors as error:
            _raise_failure(error)
        # Check what came: a proxy may have cut or changed the answer.
        meta = result.meta
        expected = meta["size"] if stop is None else min(stop, meta["size"])
        if stop is not None and result.range != (start, expected):
            raise RequestFailure(f"requested bytes {start}–{stop}, received others", Remedy.RETRY_FEW)
        if len(data) != expected - start:
            raise RequestFailure(f"expected {expected - start} bytes, found {len(data)}", Remedy.RETRY)
        return Received(data, meta["size"], _etag(meta), _mtime_ns(meta))

    def head(self, key: str) -> ClientObject:
        import obstore

        try:
            return _listed(self._call(lambda: obstore.head(self._store, key)))
        except RequestFailure as failure:
            # The answer to HEAD has no body, which names the cause of a refusal.
            if failure.remedy in (Remedy.REFRESH, Remedy.GIVE_UP) and failure.kind in ("denied", ""):
                self.get(key, 0, 1)
            raise

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:
        import obstore

        # A key such as `a//b` ends obstore's own listing, so such folders are listed by signed requests.
        pages = iter(obstore.list(self._store, prefix or None, chunk_size=_PAGE))
        while True:
            try:
                page = self._call(lambda: next(pages, None))
            except RequestFailure as failure:
                if failure.kind != "odd name":
                    raise
                for signed in signed_pages(self._store, prefix, failure):  # from the start: a failed page has no end
                    yield [_listed(meta) for meta in signed]
                return
            if page is None:
                return
            yield [_listed(meta) for meta in page]

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:
        import obstore

        if len(data) > _PART_BYTES and not if_absent and if_etag is None:
            return self._put_parts(key, data, len(data))
        # Of writes by parts, obstore makes none on a condition.
        mode: Any = "create" if if_absent else "overwrite" if if_etag is None else self._version(key, if_etag)
        return _etag(self._call(lambda: obstore.put(self._store, key, data, mode=mode, use_multipart=False)))

    def upload(self, key: str, path: str) -> str:
        size_bytes = os.path.getsize(path)
        if size_bytes <= _PART_BYTES:
            return self.put(key, Path(path).read_bytes())
        return self._put_parts(key, Path(path), size_bytes)

    def _put_parts(self, key: str, source: bytes | Path, size_bytes: int) -> str:
        import obstore

        if self._upload_store is None:
            self._upload_store = self._open_store(retries=True)
        store, part_bytes = self._upload_store, max(_PART_BYTES, size_bytes // _MAX_PARTS)
        try:
            stored = self._call(
                lambda: obstore.put(
                    store, key, source, use_multipart=True, chunk_size=part_bytes, max_concurrency=_PARTS_AT_ONCE
                )
            )
        except RequestFailure as failure:
            if failure.kind != "missing":
                raise
            # It was completed, but the answer was lost: then another completion finds no upload.
            raise RequestFailure("404, there is no such bucket, or no such upload any more", Remedy.RETRY_FEW) from None
        return _etag(stored)

    def _version(self, key: str, etag: str) -> dict[str, str]:
        """Return the version that a write is to replace; GCS compares generations, which only an answer names."""
        import obstore
        from obstore.store import GCSStore

        wanted = {"e_tag": f'"{etag}"'}
        if isinstance(self._store, GCSStore):
            meta = self._call(lambda: obstore.head(self._store, key))
            if _etag(meta) != etag:
                raise RequestFailure("it has another version now", Remedy.GIVE_UP, kind="changed")
            wanted["version"] = meta["version"] or ""
        return wanted

    def delete(self, keys: Sequence[str]) -> None:
        import obstore

        delete_all = partial(obstore.delete, self._store, list(keys))
        # A single object has a request of its own, which all services know.
        url = self._url_to_delete(keys[0]) if len(keys) == 1 else None
        try:
            if url is None:
                self._call(delete_all)
            else:
                with _client_of(url) as client:
                    client.send_url("DELETE", url)
        except RequestFailure as failure:
            # Some services take no signature in a URL.
            if failure.kind == "denied" and url is not None:
                with suppress(RequestFailure):
                    self._call(delete_all)
                    return
            if failure.kind != "missing":
                raise

    def _url_to_delete(self, key: str) -> str | None:
        # obstore itself sends the request for several objects, which some services lack. Other services than S3, and
        # stores whose URLs cannot be signed, take that request.
        import obstore
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        store = self._store
        if not isinstance(store, S3Store) or {"skip_signature", "request_payer"} & store.config.keys():
            return None
        try:
            return obstore.sign(store, "DELETE", key, _VALID)
        except BaseError:
            return None

    def refresh(self) -> None:
        self._store = self._open_store()
        self._upload_store = None

    def _call(self, request: Callable[[], _T]) -> _T:
        try:
            return request()
        except self._errors as error:
            _raise_failure(error)


def _etag(meta: Any) -> str:
    return (meta.get("e_tag") or "").strip('"')


def _listed(meta: Any) -> ClientObject:
    return ClientObject(meta["path"], meta["size"], _mtime_ns(meta), _etag(meta))


def _mtime_ns(meta: Any) -> int:
    mtime = meta["last_modified"]
    # datetime.timestamp() is a float, which has no room for nanoseconds.
    return (int(mtime.timestamp()) * 10**6 + int(mtime.microsecond)) * 1000


def _raise_failure(error: Exception) -> NoReturn:
    # Most errors differ only in their text (contract tests pin it). None holds headers of the answer: the pause that
    # `Retry-After` requests is not known, and is drawn as after any other refusal.
    from obstore import exceptions

    # What the class of the error says.
    text = str(error)
    if isinstance(error, FileNotFoundError):
        raise RequestFailure("it does not exist", Remedy.GIVE_UP, kind="missing") from None
    if isinstance(error, exceptions.InvalidPathError):  # of a listed object; our own names are checked
        raise RequestFailure(redact_urls(text.split("\n", 1)[0]), Remedy.GIVE_UP, kind="odd name") from None
    # What the answer's status says; its words are the service's own.
    status = _STATUS.search(text)
    words = code = ""
    if status:
        code = status[3] or status[2].strip()
        words = f"{status[1]} {code}".strip()
    if isinstance(error, exceptions.AlreadyExistsError):
        raise RequestFailure("it exists", Remedy.GIVE_UP, kind="exists") from None
    if isinstance(error, exceptions.PreconditionError):
        raise RequestFailure("it has another version now", Remedy.GIVE_UP, kind="changed") from None
    # Other statuses: a wrong bucket or region is for the user to fix.
    if status:
        if code == "NoSuchBucket":
            raise RequestFailure("the bucket does not exist", Remedy.GIVE_UP, kind="no bucket") from None
        if code in ("AuthorizationHeaderMalformed", "PermanentRedirect"):
            raise _wrong_region(text) from None
        raise failure_of_status(int(status[1]), words) from None
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        raise RequestFailure("access is denied", Remedy.REFRESH, kind="denied") from None
    if "redirect without LOCATION" in text:  # as S3 answers for buckets of other regions
        raise _wrong_region(text) from None
    # Errors without an answer differ in their text only.
    if "non-partial" in text or "Requested " in text:
        raise RequestFailure("the server answers a range with other bytes", Remedy.RETRY_FEW) from None
    if "169.254.169.254" in text or "169.254.170.2" in text or "metadata.google" in text:
        raise RequestFailure("no credentials were found", Remedy.GIVE_UP, kind="denied") from None
    if "HTTP error" in text or "error sending request" in text or "body error" in text:
        if "kind: Connect," in text:
            raise RequestFailure(_unreachable(text), Remedy.RETRY, kind="unreachable") from None
        is_late = "kind: Timeout," in text or "TimedOut" in text
        cause, kind = ("no byte arrived in time", "slow") if is_late else ("the connection broke", "broken")
        raise RequestFailure(cause, Remedy.RETRY, kind=kind) from None
    first_line = redact_urls(text.split("\n", 1)[0])
    raise RequestFailure(first_line, Remedy.RETRY_FEW) from None


def _wrong_region(text: str) -> RequestFailure:
    region = re.search(r"<Region>([\w-]+)</Region>", text)
    where = f"in {region[1]}" if region else "in another region"
    return RequestFailure(f"the bucket is {where}", Remedy.GIVE_UP, kind="wrong region")


def _unreachable(text: str) -> str:
    host = _HOST.search(text)
    where = redact_urls(host[0]) if host else "the service"
    cause = next((words for sign, words in _CONNECT_CAUSES.items() if sign in text), "no connection")
    return f"cannot reach {where}: {cause}"


_VALID = timedelta(minutes=5)
_ENDPOINTS = {"S3Store": "endpoint", "GCSStore": "base_url"}  # Azure signs the URLs of single objects only
_FIELDS = {"path": "Key", "size": "Size", "last_modified": "LastModified", "e_tag": "ETag"}
_TYPES: dict[str, Any] = {"size": int, "last_modified": datetime.fromisoformat}


def signed_pages(store: Any, prefix: str, failure: RequestFailure) -> Iterator[list[dict[str, Any]]]:
    """Yield all objects below a prefix as obstore lists them, a page a request, whatever their keys.

    Args:
        prefix: It ends with a slash or is empty.
        failure: Why obstore cannot list it; raised if its URLs cannot be signed, or the service refuses them.
    """
    from obstore.exceptions import BaseError

    query = {"list-type": "2", "prefix": prefix}
    if type(store).__name__ not in _ENDPOINTS:
        raise failure
    while True:
        try:
            # Ask for pages until the service says that there are no more.
            url = _signed(store, query)
            with _client_of(url) as client:
                page = ET.fromstring(client.send_url("GET", url))  # noqa: S314 - Expat bounds what entities expand to
        except (BaseError, RequestFailure, ET.ParseError) as error:
            raise error if isinstance(error, RequestFailure) and error.kind != "denied" else failure from None
        yield [_listed_entry(entry) for entry in page.iterfind("{*}Contents")]
        if page.findtext("{*}IsTruncated") != "true":
            return
        query["continuation-token"] = page.findtext("{*}NextContinuationToken") or ""


def _client_of(url: str) -> closing[HttpClient]:
    return closing(HttpClient(parse_object_url(url.partition("?")[0]), StorageOptions()))


def _signed(store: Any, query: dict[str, str]) -> str:
    # obstore signs the URLs of objects, with all of their query. So the endpoint ends with the query, and what obstore
    # appends to it becomes a value that no service reads.
    import obstore

    config = dict(store.config)
    is_anonymous = config.pop("skip_signature", "") == "true"
    # Signing needs credentials; the signature of made-up ones is cut off below.
    if is_anonymous:
        config |= {"access_key_id": "-", "secret_access_key": "-"}
    if config.get("request_payer") == "true":
        query = {**query, "x-amz-request-payer": "requester"}

    def sign(endpoint: dict[str, Any]) -> str:
        options = {name: getattr(store, name) for name in ("client_options", "credential_provider", "retry_config")}
        return obstore.sign(type(store)(**config | endpoint, **options), "GET", "-", _VALID)

    # Sign any object to learn the bucket's URL.
    bucket = sign({}).partition("?")[0].removesuffix("/-")
    root = f"{bucket}?{urlencode(query, quote_via=quote, safe='')}&x-id=ListObjectsV2"
    virtual = {"virtual_hosted_style_request": True} if type(store).__name__ == "S3Store" else {}
    url = sign({_ENDPOINTS[type(store).__name__]: root, **virtual})
    return root if is_anonymous else url


def _listed_entry(entry: ET.Element) -> dict[str, Any]:
    return {name: _TYPES.get(name, str)(entry.findtext(f"{{*}}{field}") or "") for name, field in _FIELDS.items()}
