"""Open obstore's stores of S3, GCS and Azure, with the usual settings of each provider."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import ConfigError
from ....version import __version__
from ..object_url import ObjectUrl, redact_urls
from ..options import StorageOptions, endpoint_of

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
        client = _client(options, options.endpoint_url)
        retry = _RETRIES_OF_PARTS if retries else _NO_RETRIES
        if url.protocol == "gs":
            if options.endpoint_url:
                config["base_url"] = options.endpoint_url
            client["allow_http"] = client["allow_http"] or os.environ.get("GOOGLE_BASE_URL", "").startswith("http://")
            return stores.GCSStore(url.container, client_options=client, retry_config=retry, **config)
        if url.account:
            config["account_name"] = url.account
        if options.endpoint_url:
            config["endpoint"] = options.endpoint_url
        client["allow_http"] = client["allow_http"] or os.environ.get("AZURE_ENDPOINT", "").startswith("http://")
        return stores.AzureStore(url.container, client_options=client, retry_config=retry, **config)


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
        retry = _RETRIES_OF_PARTS if retries else _NO_RETRIES
        return S3Store(bucket, client_options=_client(options, endpoint), retry_config=retry, **config)


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
    """Raise a ``ConfigError`` for settings that obstore refuses, or if it is not installed."""
    try:
        from obstore.exceptions import BaseError
    except ImportError as error:
        raise ConfigError(
            f"{protocol}:// URLs need the package obstore, which is not installed",
            at=url,
            hint="pip install 'energon-toolkit[remote]'",
        ) from error
    try:
        yield
    except (BaseError, ValueError, TypeError) as error:
        cause = redact_urls(str(error).split("\n", 1)[0])
        raise ConfigError(f"cannot use this store: {cause}", at=url) from None


def _profile_credentials(profile: str | None) -> tuple[Any, str | None]:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise ConfigError(
            "profiles of ~/.aws need the package boto3, which is not installed",
            hint="pip install boto3, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ) from error
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(profile_name=profile)
        return Boto3CredentialProvider(session), session.region_name
    except BotoCoreError as error:
        raise ConfigError(
            f"cannot use the profile {profile or 'default'}: {error}", hint="check ~/.aws/config and AWS_PROFILE"
        ) from error
