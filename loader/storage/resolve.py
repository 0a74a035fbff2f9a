"""Which store serves a path or URL."""

from __future__ import annotations

import os

from ..errors import StorageError
from .local import LocalStorage
from .protocol import Storage

__all__ = ["open_storage"]


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """Open the folder at a path or URL.

    Args:
        path: A path of this machine, or a ``file://`` URL.

    Raises:
        StorageError: The URL's protocol is not served.

    >>> open_storage("file:///tmp").url
    '/tmp'
    """
    text = os.fspath(path)
    protocol, separator, rest = text.partition("://")
    if not separator:
        return LocalStorage(text)
    if protocol in ("file", "local"):
        return LocalStorage(rest)
    raise StorageError(
        f"cannot read {protocol}:// URLs; expected a folder of this machine",
        path=text,
        do="mount the bucket, or copy the dataset to a local folder",
    )
