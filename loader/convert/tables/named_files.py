"""The files that the paths in a table name."""

from __future__ import annotations

import os

from ...storage import is_url, resolve_path
from ..rows.file_ref import file_ref
from ..rows.row import FileRef, PartRef, UrlRef
from .names import is_link


class NamedFiles:
    """The files that paths in a table name: below a folder or URL by relative paths, elsewhere by absolute ones.

    Args:
        root: The folder or URL.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def exists(self, path: str) -> bool:
        """Return True if there is such a file; of a URL, always."""
        try:
            return is_url(self.root) or os.path.isfile(join_root(self.root, path))
        except ValueError:  # a zero byte
            return False

    def has_stem(self, text: str) -> bool:  # noqa: ARG002 - a folder is not searched
        """Return True for the name of a picture, sound or video without its extension."""
        return False

    def name(self, path: str) -> str:
        """Return the path."""
        return path

    def ref(self, path: str, part: str, *, named_by_contents: bool) -> PartRef:  # noqa: ARG002 - a file has no part
        """Return the reference to a file."""
        if is_link(path) and not path.startswith("file://"):
            return UrlRef(path.strip().encode("utf-8", "surrogateescape"), named_by_contents)
        full = join_root(self.root, path)
        if is_url(full):
            return FileRef(full.encode("utf-8", "surrogateescape"), named_by_contents=named_by_contents)
        return file_ref(full, named_by_contents=named_by_contents)


def join_root(root: str, path: str) -> str:
    """Return a path or URL of a table, relative ones from the root.

    >>> join_root("/data", "a.jpg"), join_root("/data", "/b.jpg"), join_root("s3://bucket/x", "c.jpg")
    ('/data/a.jpg', '/b.jpg', 's3://bucket/x/c.jpg')
    """
    if is_link(path):
        return resolve_path(path)
    return f"{root.rstrip('/')}/{path}" if is_url(root) else os.path.join(root, path)
