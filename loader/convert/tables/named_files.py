"""The files that the paths in a table name."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from urllib.parse import unquote

from ...storage import is_url
from ..rows.file_access import FileAccess, is_below
from ..rows.row import FaultRef, FileRef, PartRef, UrlRef
from .names import is_link

_LOCAL = "file://"


class NamedFiles:
    """The files that paths in a table or document name: relative ones start from a folder or URL.

    Args:
        root: The folder or URL.
        access: Decides which files may be named; by default, those below the folder.
        allowed: Folders whose files may be named; by default, the root.
    """

    def __init__(self, root: str, access: FileAccess | None = None, allowed: Sequence[str] = ()) -> None:
        self.root = root
        self.access = access or FileAccess()
        self.allowed = tuple(allowed) or (root,)
        self._is_outside = not is_url(root) and not is_below(os.path.abspath(root), self.allowed)

    def exists(self, path: str) -> bool:
        """Return True if there is such a file, also one that is refused; of a URL, always."""
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
        """Return the reference to a file; one that fails if it is refused, and one to a URL if the path is one."""
        if is_link(path) and not path.startswith(_LOCAL):
            return UrlRef(path.strip().encode("utf-8", "surrogateescape"), named_by_contents)
        full = join_root(self.root, path)
        if not is_url(full):
            is_absolute = self._is_outside or path.startswith((_LOCAL, "/"))
            return self.access.ref(full, self.allowed, is_absolute=is_absolute, named_by_contents=named_by_contents)
        if full != path and posixpath.normpath(path).startswith(".."):
            return FaultRef(f"{path!r} is outside of {self.root}", code="F105")
        return FileRef(full.encode("utf-8", "surrogateescape"), named_by_contents=named_by_contents)


def join_root(root: str, path: str) -> str:
    """Return a path or URL of a table, relative ones from the root.

    >>> join_root("/data", "a.jpg"), join_root("/data", "/b.jpg"), join_root("s3://bucket/x/", "./c.jpg")
    ('/data/a.jpg', '/b.jpg', 's3://bucket/x/c.jpg')
    >>> join_root("/data", "file:///y/a%20b.jpg")
    '/y/a b.jpg'
    """
    if path.startswith(_LOCAL):
        plain = path.removeprefix(_LOCAL).removeprefix("localhost")
        return os.path.join(root, plain if os.path.lexists(plain) else unquote(plain))
    if is_link(path):
        return path
    if is_url(root) and not path.startswith("/"):
        return f"{root.rstrip('/')}/{path.removeprefix('./')}"
    return os.path.join(root, path)
