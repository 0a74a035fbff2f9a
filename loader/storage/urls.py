"""The protocols of URLs, and the store of each: the only place that maps one to the other."""

from __future__ import annotations

import os
import posixpath
import re

from ..errors import ConfigError, StorageError
from .local import LocalStorage
from .protocol import Storage
from .remote import PROTOCOLS, RemoteStorage, redact_urls
from .split_storage import SplitStorage

_LOCAL_PREFIXES = ("file://", "local://", "msc://__filesystem__")

_SHORTENED = re.compile(rf"({'|'.join(sorted({*PROTOCOLS, 'dss'}))}):/[^/]")
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "adl": "az", "wasb": "az", "wasbs": "az"}
"""Protocols of other programs, by which some know an object store."""

VERSIONS_VARIABLE = "NVDATASET_CACHE_DIR"
"""Environment variable with the folder of datasets at ``dss://`` URLs."""


def split_url(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Split a path or URL into its protocol and the rest; the protocol of this machine is empty.

    >>> split_url("s3://bucket/coco"), split_url("file:///data/coco"), split_url("coco")
    (('s3', 'bucket/coco'), ('', '/data/coco'), ('', 'coco'))

    Raises:
        ConfigError: A ``dss://`` URL has no version, the folder of such datasets is not set, or a slash is missing.
    """
    text = os.fspath(path)
    for prefix in _LOCAL_PREFIXES:
        if text.startswith(prefix):
            return "", text.removeprefix(prefix)
    protocol, separator, rest = text.partition("://")
    if protocol == "dss" and separator:
        return "", _folder_of_version(text, rest)
    if _SHORTENED.match(text):
        raise ConfigError(
            f"expected two slashes, as in {text.replace(':/', '://', 1)}",
            file=text,
            hint="pathlib.Path removes one of them: use a text, or EPath",
        )
    return (protocol, rest) if separator else ("", text)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return True if a path is not one of this machine.

    >>> is_url("s3://bucket/coco"), is_url("file:///data/coco"), is_url("coco")
    (True, False, False)
    """
    return bool(split_url(path)[0])


def resolve_path(path: str | os.PathLike[str], folder: str | None = None) -> str:
    """Return the absolute form of a path; URLs are returned as written.

    Args:
        path: A relative path, an absolute path or a URL.
        folder: Absolute path or URL of the folder that relative paths start from; None for the working directory.

    Raises:
        ConfigError: A relative path leads out of a bucket.

    >>> resolve_path("./coco", "/data"), resolve_path("../a", "/data/x"), resolve_path("file:///b", "/data")
    ('/data/coco', '/data/a', '/b')
    >>> resolve_path("../a", "s3://bucket/x"), resolve_path("/b", "s3://bucket/x")
    ('s3://bucket/a', '/b')
    """
    protocol, rest = split_url(path)
    if protocol:
        return os.fspath(path)
    protocol, place = split_url(os.getcwd() if folder is None else folder)
    if not protocol or rest.startswith("/"):
        return os.path.normpath(os.path.join(place, rest))
    bucket, _, key = place.partition("/")
    joined = posixpath.normpath(posixpath.join(key, rest))
    if joined.split("/", 1)[0] == "..":
        raise ConfigError(f"the path {rest!r} leads out of the bucket", at=folder, hint="write the whole URL")
    return f"{protocol}://{bucket}" if joined == "." else f"{protocol}://{bucket}/{joined}"


def short_path(path: str, folder: str) -> str:
    """Return a path or URL relative to a folder above it, as messages show it; another one is returned as it is.

    >>> short_path("s3://bucket/mix/coco", "s3://bucket/mix"), short_path("/data/coco", "/data/mix")
    ('coco', '/data/coco')
    """
    return path.removeprefix(f"{folder.rstrip('/')}/")


def _folder_of_version(url: str, rest: str) -> str:
    """Return the folder of ``dss://name@version/path``, below the folder that an environment variable names."""
    dataset, _, inner = rest.partition("/")
    name, _, version = dataset.rpartition("@")
    if not (name and version) or any(part == ".." for part in (name, version, *inner.split("/"))):
        raise ConfigError("expected dss://NAME@VERSION/PATH", file=url)
    base = os.environ.get(VERSIONS_VARIABLE)
    if not base:
        raise ConfigError(
            f"the environment variable {VERSIONS_VARIABLE} is not set, which names the folder of dss:// datasets",
            file=url,
            hint=f"set {VERSIONS_VARIABLE} to the folder that contains {name}/{version}",
        )
    return os.path.join(base, name, version, inner).rstrip("/")


def open_storage(
    path: str | os.PathLike[str], *, replaced: tuple[str, str | os.PathLike[str]] | None = None
) -> Storage:
    """Open the folder at a path or URL.

    Args:
        path: A path of this machine, or a URL.
        replaced: Name of a folder in it and the path of the folder to use instead; all other files are read-only then.

    Raises:
        StorageError: URLs of this protocol are not supported.
        ConfigError: The URL is wrong.

    >>> open_storage("file:///tmp").url
    '/tmp'
    """
    protocol, rest = split_url(path)
    if replaced is not None and (protocol or is_url(replaced[1])):
        return SplitStorage(open_storage(path), replaced[0], open_storage(replaced[1]))
    if not protocol:
        return LocalStorage(rest, replaced=replaced)
    if protocol in PROTOCOLS:
        return RemoteStorage(os.fspath(path))
    usual = _OTHER_NAMES.get(protocol.lower(), protocol.lower())
    supported = f"supported are {', '.join(sorted(PROTOCOLS))}, dss and file; or mount it, or copy it to a local folder"
    raise StorageError(
        f"cannot read {protocol}:// URLs",
        path=redact_urls(os.fspath(path)),
        hint=f"write {redact_urls(f'{usual}://{rest}')}" if usual in PROTOCOLS else supported,
    )


def open_parent(path: str | os.PathLike[str]) -> tuple[Storage, str]:
    """Open the folder of a file; return it and the file's name.

    Raises:
        StorageError: URLs of this protocol are not supported.

    >>> storage, name = open_parent("/tmp/texts.jsonl")
    >>> storage.url, name
    ('/tmp', 'texts.jsonl')
    """
    folder, name = os.path.split(os.fspath(path))
    if folder.endswith(":"):  # of a URL without a path
        raise StorageError("this names a bucket; expected a file in it", path=os.fspath(path), hint="check the URL")
    return open_storage(folder or "."), name
