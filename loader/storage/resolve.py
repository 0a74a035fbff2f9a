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
    if "://" not in text:
        return LocalStorage(text)
    from upath import UPath  # imports fsspec: only paid for URLs

    url = UPath(text)
    if url.protocol in ("file", "local"):
        return LocalStorage(url.path)
    raise StorageError(
        f"cannot read {url.protocol}:// URLs; expected a folder of this machine",
        path=text,
        do="mount the bucket, or copy the dataset to a local folder",
    )
