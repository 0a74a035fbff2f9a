"""The protocols of URLs, and the store of each: the only place that maps one to the other."""

from __future__ import annotations

import os

from ..errors import ConfigError, StorageError
from .local import LocalStorage
from .protocol import Storage
from .remote import PROTOCOLS, RemoteStorage

__all__ = ["VERSIONS_VARIABLE", "open_parent", "open_storage", "split_url"]

_LOCAL_PROTOCOLS = ("file", "local")

VERSIONS_VARIABLE = "NVDATASET_CACHE_DIR"
"""Environment variable with the folder of datasets at ``dss://`` URLs."""


def split_url(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Split a path or URL into its protocol and the rest; the protocol of this machine is empty.

    >>> split_url("s3://bucket/coco"), split_url("file:///data/coco"), split_url("coco")
    (('s3', 'bucket/coco'), ('', '/data/coco'), ('', 'coco'))

    Raises:
        ConfigError: A ``dss://`` URL has no version, or the folder of such datasets is not set.
    """
    text = os.fspath(path)
    protocol, separator, rest = text.partition("://")
    if not separator:
        return "", text
    if protocol == "dss":
        return "", _folder_of_version(text, rest)
    return ("" if protocol in _LOCAL_PROTOCOLS else protocol), rest


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
    if not protocol:
        return LocalStorage(rest, replaced=replaced)
    if protocol in PROTOCOLS:
        return RemoteStorage(os.fspath(path))
    raise StorageError(
        f"cannot read {protocol}:// URLs; expected a folder of this machine",
        path=os.fspath(path),
        hint=f"supported are {', '.join(sorted(PROTOCOLS))} and file; or mount it, or copy it to a local folder",
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
    return open_storage(folder or "."), name
