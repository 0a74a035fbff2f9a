"""Requests to the profiles of NVIDIA's multi-storage-client, whose own library reads its configuration.

Profiles of S3 become stores of obstore, which check versions. The library itself reads the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import msgspec

from ....errors import ConfigError, required_package
from ..failures import Remedy, RequestFailure, kind_of_words
from ..object_url import ObjectUrl, redact_urls
from ..options import StorageOptions
from .connection import ClientObject, ObjectClient, Received
from .obstore_client import ObstoreClient, open_s3_store

_T = TypeVar("_T")
_S3_TYPES = ("s3", "s8k")
_PAGE = 1000


def open_msc_client(url: ObjectUrl, options: StorageOptions) -> ObjectClient:
    """Return the client of a profile."""
    with required_package(
        "msc:// URLs need the package multi-storage-client, which is not installed",
        at=str(url),
        hint="pip install 'energon-toolkit[msc]'",
    ):
        from multistorageclient import StorageClientConfig, rclone  # type: ignore[import-not-found, unused-ignore]
    getattr(rclone.read_rclone_config, "cache_clear", lambda: None)()  # it keeps even the answer that there is no file
    try:
        config = StorageClientConfig.from_file(profile=url.container)
    except Exception as error:  # noqa: BLE001 - the library raises what it likes for a wrong configuration
        first_line = redact_urls(str(error).split("\n", 1)[0])
        raise ConfigError(
            f"cannot use the profile {url.container!r}: {first_line}",
            at=str(url),
            hint="check the file that MSC_CONFIG names, or ~/.msc_config.yaml",
        ) from None
    # Profiles of S3 are read by obstore, whose answers hold sizes and versions.
    provider = config.storage_provider
    if getattr(provider, "_provider_name", "") in _S3_TYPES and config.metadata_provider is None:
        return _BucketClient(provider, config.credentials_provider, options)
    return _LibraryClient(config)


class _BucketClient:
    """A profile of S3; its base path begins with a bucket, or else each key does."""

    can_list = True

    def __init__(self, provider: Any, credentials: Any, options: StorageOptions) -> None:
        settings = vars(provider)  # it has no public names for them
        self._base = settings["_base_path"].strip("/")
        self._endpoint_url = settings["_endpoint_url"] or None
        self._provider = provider
        self._credentials = credentials
        self._options = msgspec.structs.replace(
            options,
            profile=options.profile or (settings["_profile_name"] if credentials is None else None),
            region=options.region or settings["_region_name"] or None,
            anonymous=options.anonymous or settings["_signature_version"] == "UNSIGNED",
        )
        self._buckets: dict[str, ObstoreClient] = {}
        self.get = partial(self._call, "get")
        self.get_all = partial(self._call, "get_all")
        self.put = partial(self._call, "put")
        self.upload = partial(self._call, "upload")

    def _of(self, key: str) -> tuple[ObstoreClient, str]:
        # The base path and the key together begin with the bucket.
        bucket, _, inner = (f"{self._base}/{key}" if self._base else key).partition("/")
        client = self._buckets.get(bucket)
        if client is None:
            provide = None if self._credentials is None else partial(_credentials_of, self._credentials)
            client = self._buckets[bucket] = ObstoreClient(
                partial(open_s3_store, bucket, self._options, endpoint_url=self._endpoint_url, credentials=provide)
            )
        return client, inner

    def _call(self, method: str, key: str, *arguments: Any, **keywords: Any) -> Any:
        client, inner = self._of(key)
        return getattr(client, method)(inner, *arguments, **keywords)

    def head(self, key: str) -> ClientObject:
        client, inner = self._of(key)
        return client.head(inner)._replace(key=key)

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:
        # Names below a profile do not have its base path.
        client, inner = self._of(prefix)
        hidden = len(inner) - len(prefix)  # characters that the keys of this profile lack
        for page in client.pages(inner):
            if hidden >= 0:
                yield [listed._replace(key=listed.key[hidden:]) for listed in page]
            else:  # the keys of this profile begin with the bucket
                yield [listed._replace(key=prefix[:-hidden] + listed.key) for listed in page]

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            client, inner = self._of(key)
            try:
                client.delete([inner])
            except RequestFailure as failure:
                # The library has the request for one object that services take which know no signatures in URLs.
                if failure.kind != "denied" or self._options.endpoint_url:
                    raise
                _call(partial(self._provider.delete_object, key))

    def refresh(self) -> None:
        if self._credentials is not None:
            self._credentials.refresh_credentials()
        for client in self._buckets.values():
            client.refresh()


def _credentials_of(provider: Any) -> dict[str, Any]:
    from datetime import UTC, datetime

    # Providers refresh credentials only on request.
    credentials = provider.get_credentials()
    if credentials.is_expired():
        provider.refresh_credentials()
        credentials = provider.get_credentials()
    expires_at = None
    if credentials.expiration:
        parsed = datetime.fromisoformat(credentials.expiration)
        expires_at = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return {
        "access_key_id": credentials.access_key,
        "secret_access_key": credentials.secret_key,
        "token": credentials.token,
        "expires_at": expires_at,
    }


class _LibraryClient:
    """Any other profile, read by the library; its answers hold no sizes and versions.

    The library writes nothing on a condition, so a condition holds between the threads of one process only.
    """

    can_list = True

    def __init__(self, config: Any) -> None:
        from multistorageclient import StorageClient

        self._client = StorageClient(config)
        self._writing = threading.Lock()

    def get(self, key: str, start: int, stop: int) -> Received:
        from multistorageclient.types import Range  # type: ignore[import-not-found, unused-ignore]

        data = _call(lambda: self._client.read(key, byte_range=Range(start, stop - start)))
        if len(data) < stop - start and start + len(data) < self.head(key).size_bytes:
            raise RequestFailure(f"expected {stop - start} bytes, found {len(data)}", Remedy.RETRY)
        return Received(data, -1, "")

    def get_all(self, key: str) -> Received:
        data = _call(lambda: self._client.read(key))
        return Received(data, len(data), "")

    def head(self, key: str) -> ClientObject:
        entry = _call(lambda: self._client.info(key))
        if entry.type != "file":
            raise RequestFailure("it does not exist", Remedy.GIVE_UP, kind="missing")
        return _listed(key, entry)

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:
        files = _call(lambda: [each for each in self._client.list_recursive(prefix) if each.type == "file"])
        listed = sorted(_listed(each.key.lstrip("/"), each) for each in files)
        for start in range(0, len(listed), _PAGE):
            yield listed[start : start + _PAGE]

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:
        with self._writing:
            if if_absent and _call(lambda: self._client.is_file(key)):
                raise RequestFailure("it exists", Remedy.GIVE_UP, kind="exists")
            if if_etag is not None and self.head(key).etag != if_etag:
                raise RequestFailure("it has another version now", Remedy.GIVE_UP, kind="changed")
            _call(lambda: self._client.write(key, data))
            return self.head(key).etag

    def upload(self, key: str, path: str) -> str:
        _call(lambda: self._client.upload_file(key, path))
        return self.head(key).etag

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            if _call(partial(self._client.is_file, key)):
                _call(partial(self._client.delete, key))

    def refresh(self) -> None:
        pass  # the library does


def _listed(key: str, entry: Any) -> ClientObject:
    mtime_ns = int(entry.last_modified.timestamp() * 10**6) * 1000
    return ClientObject(key, entry.content_length, mtime_ns, (entry.etag or "").strip('"'))


def _call(request: Callable[[], _T]) -> _T:
    try:
        return request()
    except Exception as error:  # noqa: BLE001 - each provider has errors of its own
        _raise_failure(error)


def _raise_failure(error: Exception) -> NoReturn:
    if isinstance(error, RequestFailure):
        raise error
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        raise RequestFailure("it does not exist", Remedy.GIVE_UP, kind="missing") from None
    kind = kind_of_words(str(error))
    if isinstance(error, PermissionError):
        raise RequestFailure("access is denied", Remedy.GIVE_UP, kind=kind or "denied") from None
    words = redact_urls(str(error).split("\n", 1)[0])
    remedy = Remedy.RETRY if type(error).__name__ == "RetryableError" else Remedy.RETRY_FEW
    raise RequestFailure(f"{type(error).__name__}: {words}", Remedy.GIVE_UP if kind else remedy, kind=kind) from None
