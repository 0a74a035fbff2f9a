"""Options of object stores: endpoints, regions and limits. Credentials come from the environment, never from here."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from ...errors import ConfigError
from .object_url import PROTOCOLS, is_commit, parse_object_url, redact_urls

OPTIONS_VARIABLE = "ENERGON_STORAGE_OPTIONS"
"""Environment variable with options as JSON, URL prefix → options, which workers inherit."""


class StorageOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of an object store.

    Attributes:
        endpoint_url: URL of the service; None takes it from the environment, or the provider's own.
        region: Region of the bucket.
        anonymous: Send no credentials, for public buckets.
        profile: Profile of ``~/.aws/config``.
        request_payer: Pay for the requests to a bucket of that kind.
        virtual_hosted: Put the bucket into the host's name; None decides by the endpoint.
        deadline_s: Seconds after which a request that keeps failing stops the run.
        stall_s: Seconds without a byte after which a request is sent again; for web servers, with less than 1 KiB/s.
        request_s: Seconds that one request to a web server may take, with its redirects.
        max_requests: Requests at a time, for each process.
        check_versions: Compare the versions of objects (ETags); False compares their sizes alone.
        commit: Commit of a repository of the Hugging Face Hub that is read; None takes the present one of its branch.
        license: Licence in the card of a new dataset on the hub, such as ``cc-by-4.0``; ``none`` names none.
        cache_dir: Folder of the cache of this node; None takes that in ``ENERGON_CACHE_DIR``, an empty text no cache.
        cache_bytes: Most bytes of the cache, such as ``500GB``; None takes the number in ``ENERGON_CACHE_BYTES``.
    """

    endpoint_url: str | None = None
    region: str | None = None
    anonymous: bool = False
    profile: str | None = None
    request_payer: bool = False
    virtual_hosted: bool | None = None
    deadline_s: float = 300.0
    stall_s: float = 10.0
    request_s: float = 300.0
    max_requests: int = 64
    check_versions: bool = True
    commit: str | None = None
    license: str | None = None
    cache_dir: str | None = None
    cache_bytes: int | str | None = None

    def to_send(self) -> dict[str, Any]:
        """Return the options that were given and that hold on any machine, for another process."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        defaults = StorageOptions()
        return {
            name: value for name, value in given.items() if name not in _OF_NODE and value != getattr(defaults, name)
        }


class DownloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the files that data names by URL.

    Attributes:
        allow_private: Hosts may have private addresses. Link-local and reserved ones are refused in any case.
        max_bytes: Most bytes of a file.
    """

    allow_private: bool = False
    max_bytes: int = 1 << 30


_OF_NODE = ("cache_dir", "cache_bytes")
_ENDPOINT_VARIABLES = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "hf": ("HF_ENDPOINT",)}
_CREDENTIALS = ("key", "secret", "token", "password", "sas", "credential")


def parse_storage_options(options: Mapping[str, Any]) -> StorageOptions:
    """Check options given by name; texts are converted, as of a command line."""
    for name in options:
        if any(word in name.lower() for word in _CREDENTIALS):
            raise ConfigError(
                f"{name} is a credential, which is not an option: options are written to states and logs",
                hint="set it in the environment, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            )
    try:
        parsed = msgspec.convert(dict(options), StorageOptions, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(StorageOptions.__struct_fields__)
        raise ConfigError(f"wrong storage options: {error}", hint=f"options are {names}") from error
    _check_endpoint(parsed.endpoint_url or "", "endpoint_url")
    if parsed.commit and not is_commit(parsed.commit):
        raise ConfigError(
            f"expected the storage option commit to be 40 hexadecimal digits, found {parsed.commit!r}",
            hint="name a branch or tag in the URL: hf://datasets/OWNER/NAME@REVISION",
        )
    if min(parsed.deadline_s, parsed.stall_s, parsed.request_s) <= 0 or parsed.max_requests < 1:
        raise ConfigError(
            "expected storage options deadline_s, stall_s and request_s above 0, and max_requests of at least 1"
        )
    return parsed


def options_for(url: str) -> StorageOptions:
    """Return the options of a URL, from its prefixes in the environment variable, the longest last."""
    return _options(url, os.environ.get(OPTIONS_VARIABLE, ""))


@lru_cache(maxsize=1024)
def _options(url: str, text: str) -> StorageOptions:
    remembered = _parse(text)
    merged: dict[str, Any] = {}
    for prefix in sorted(remembered, key=len):  # those of a longer prefix come last, and count
        if not prefix or f"{url}/".startswith(f"{prefix.rstrip('/')}/"):
            merged |= remembered[prefix]
    return parse_storage_options(merged)


def endpoint_of(protocol: str, options: StorageOptions) -> str:
    """Return the endpoint of a protocol; empty for the provider's own."""
    if options.endpoint_url:
        return options.endpoint_url
    for variable in _ENDPOINT_VARIABLES.get(protocol, ()):
        if url := os.environ.get(variable, "").strip():
            return _check_endpoint(url, variable)
    return "https://huggingface.co" if protocol == "hf" else ""


def _check_endpoint(url: str, name: str) -> str:
    """Return an endpoint; raise ``ConfigError`` if it is not a URL, at which obstore panics."""
    if url and not url.lower().startswith(("http://", "https://")):
        raise ConfigError(
            f"expected {name} to be a URL, such as https://minio.local:9000, found {redact_urls(url)!r}",
            hint="write it with http:// or https://",
        )
    return url


def remember_options(url: str, options: Mapping[str, Any]) -> None:
    """Use options for a URL and all below it, in this process and in processes that it starts from now on."""
    parse_storage_options(options)
    remembered = _parse(os.environ.get(OPTIONS_VARIABLE, ""))
    remembered[url] = {**remembered.get(url, {}), **options}
    os.environ[OPTIONS_VARIABLE] = json.dumps(remembered, sort_keys=True)


def use_storage_options(path: str | os.PathLike[str], options: Mapping[str, Any] | None) -> None:
    """Use the ``storage_options`` of a call, in this process and in processes that it starts from now on.

    Args:
        path: A URL: the options are for its bucket; or a path of this machine: they are for all URLs.
        options: Options by name, or by URL, each with the options of what is below it; None for none.

    Raises:
        ConfigError: An option is unknown or of another type, or a credential.
    """
    if not options:
        return
    by_url = {name: value for name, value in options.items() if "://" in name}
    for url, inner in by_url.items():
        if not isinstance(inner, Mapping):
            raise ConfigError(f"expected options by name for {redact_urls(url)}, found {type(inner).__name__}")
        remember_options(str(parse_object_url(url)), inner)
    by_name = {name: value for name, value in options.items() if name not in by_url}
    if by_name:
        protocol, separator, rest = os.fspath(path).partition("://")
        is_remote = bool(separator) and protocol in PROTOCOLS
        remember_options(f"{protocol}://{rest.partition('/')[0]}" if is_remote else "", by_name)


def _parse(text: str) -> dict[str, dict[str, Any]]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"cannot read the environment variable {OPTIONS_VARIABLE}: {error}",
            hint='write JSON like {"s3://bucket": {"endpoint_url": "https://minio.local"}}',
        ) from error
