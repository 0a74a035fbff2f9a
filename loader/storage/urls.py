"""The protocols of URLs, and the store of each: the only place that maps one to the other."""

from __future__ import annotations

import os

from ..errors import StorageError
from .local import LocalStorage
from .protocol import Storage
from .remote import PROTOCOLS, PartlyLocalStorage, RemoteStorage

__all__ = ["open_parent", "open_storage", "split_url"]

_LOCAL_PROTOCOLS = ("file", "local")


def split_url(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Split a path or URL into its protocol and the rest; the protocol of this machine is empty.

    >>> split_url("s3://bucket/coco"), split_url("file:///data/coco"), split_url("coco")
    (('s3', 'bucket/coco'), ('', '/data/coco'), ('', 'coco'))
    """
    text = os.fspath(path)
    protocol, separator, rest = text.partition("://")
    if not separator:
        return "", text
    return ("" if protocol in _LOCAL_PROTOCOLS else protocol), rest


def open_storage(
    path: str | os.PathLike[str], *, replaced: tuple[str, str | os.PathLike[str]] | None = None
) -> Storage:
    """Open the folder at a path or URL.

    Args:
        path: A path of this machine, or a ``file://`` URL.
        replaced: Name of a folder in it and the path of the folder to use instead; all other files are read-only then.

    Raises:
        StorageError: URLs of this protocol are not supported.

    >>> open_storage("file:///tmp").url
    '/tmp'
    """
    protocol, rest = split_url(path)
    if not protocol:
        return LocalStorage(rest, replaced=replaced)
    if protocol in PROTOCOLS:
        url = os.fspath(path)
        return RemoteStorage(url) if replaced is None else PartlyLocalStorage(url, replaced)
    raise StorageError(
        f"cannot read {protocol}:// URLs; expected a folder of this machine",
        path=os.fspath(path),
        hint="mount the bucket, or copy the dataset to a local folder",
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
