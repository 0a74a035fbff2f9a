"""List a bucket by signed URLs where obstore cannot: it ends at a key with an empty part, ``.`` or ``..``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from ..failures import RequestFailure
from ..object_url import parse_object_url
from ..options import StorageOptions
from .http_client import HttpClient

_VALID = timedelta(minutes=5)
_ENDPOINTS = {"S3Store": "endpoint", "GCSStore": "base_url"}  # Azure signs the URLs of single objects only
_FIELDS = {"path": "Key", "size": "Size", "last_modified": "LastModified", "e_tag": "ETag"}
_TYPES: dict[str, Any] = {"size": int, "last_modified": datetime.fromisoformat}


def signed_pages(store: Any, prefix: str, failure: RequestFailure) -> Iterator[list[dict[str, Any]]]:
    """Yield all objects below a prefix as obstore lists them, a page a request, whatever their keys.

    Args:
        store: obstore's store of the bucket.
        prefix: It ends with a slash or is empty.
        failure: Why obstore cannot list it; raised if its URLs cannot be signed, or the service refuses them.
    """
    from obstore.exceptions import BaseError

    query = {"list-type": "2", "prefix": prefix}
    if type(store).__name__ not in _ENDPOINTS:
        raise failure
    while True:
        try:
            url = _signed(store, query)
            with closing(HttpClient(parse_object_url(url.partition("?")[0]), StorageOptions())) as client:
                page = ET.fromstring(client.get_url(url))  # noqa: S314 - Expat bounds what entities expand to
        except (BaseError, RequestFailure, ET.ParseError) as error:
            raise error if isinstance(error, RequestFailure) and error.kind != "denied" else failure from None
        yield [_listed(entry) for entry in page.iterfind("{*}Contents")]
        if page.findtext("{*}IsTruncated") != "true":
            return
        query["continuation-token"] = page.findtext("{*}NextContinuationToken") or ""


def _signed(store: Any, query: dict[str, str]) -> str:
    """Return the URL of a listing: obstore signs the URLs of objects, with all of their query.

    So the endpoint ends with the query, and what obstore appends to it becomes a value that no service reads.
    """
    import obstore

    config = dict(store.config)
    is_anonymous = config.pop("skip_signature", "") == "true"
    if is_anonymous:
        config |= {"access_key_id": "-", "secret_access_key": "-"}
    if config.get("request_payer") == "true":
        query = {**query, "x-amz-request-payer": "requester"}

    def sign(endpoint: dict[str, Any]) -> str:
        options = {name: getattr(store, name) for name in ("client_options", "credential_provider", "retry_config")}
        return obstore.sign(type(store)(**config | endpoint, **options), "GET", "-", _VALID)

    bucket = sign({}).partition("?")[0].removesuffix("/-")
    root = f"{bucket}?{urlencode(query, quote_via=quote, safe='')}&x-id=ListObjectsV2"
    virtual = {"virtual_hosted_style_request": True} if type(store).__name__ == "S3Store" else {}
    url = sign({_ENDPOINTS[type(store).__name__]: root, **virtual})
    return root if is_anonymous else url


def _listed(entry: ET.Element) -> dict[str, Any]:
    return {name: _TYPES.get(name, str)(entry.findtext(f"{{*}}{field}") or "") for name, field in _FIELDS.items()}
