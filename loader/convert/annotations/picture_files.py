"""Find the pictures that annotations name."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Sequence
from itertools import islice
from urllib.parse import unquote, urlsplit

from ...accounting.kinds import kind_of_name
from ...errors import ConfigError, SampleError
from ...storage import is_url
from ..rows.file_ref import file_ref
from ..rows.row import FileRef, PartRef, ValueRef

__all__ = ["find_picture_folder", "join_path", "picture_extension", "picture_ref"]

_TRIED_PICTURES = 20  # the first one may be missing
_DATA = "data:"


def picture_extension(path: str) -> str:
    """Return the extension of a picture as the name of its part; ``jpg`` if it has none of a picture.

    >>> picture_extension("a/b.PNG"), picture_extension("https://x.org/b.webp?size=2"), picture_extension("b")
    ('png', 'webp', 'jpg')
    """
    if path.startswith(_DATA):
        extension = path[len(_DATA) :].partition(",")[0].partition(";")[0].rpartition("/")[2].partition("+")[0]
    else:
        extension = (urlsplit(path).path if is_url(path) else path).rpartition("/")[2].rpartition(".")[2]
    extension = extension.lower()
    return extension if kind_of_name(extension) == "image" else "jpg"


def join_path(root: str, path: str) -> str:
    """Return the path or URL of a picture.

    >>> join_path("/data", "a.jpg"), join_path("s3://b/x/", "a.jpg"), join_path("/data", "file:///y/a%20b.jpg")
    ('/data/a.jpg', 's3://b/x/a.jpg', '/y/a b.jpg')
    """
    if path.startswith("file://"):
        return unquote(urlsplit(path).path)
    if is_url(path):
        return path
    if is_url(root) and not path.startswith("/"):
        return f"{root.rstrip('/')}/{path.removeprefix('./')}"
    return os.path.join(root, path)


def picture_ref(root: str, path: str) -> PartRef:
    """Return the reference to a picture.

    Args:
        root: Folder or URL that relative paths start from.
        path: A path, a URL, or the picture itself as a ``data:`` URL.

    Raises:
        SampleError: The path is empty, or a ``data:`` URL is damaged.
    """
    if path.startswith(_DATA):
        head, _, text = path.partition(",")
        if not head.endswith(";base64"):
            raise SampleError("expected base64 in a data: URL")
        try:
            return ValueRef(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise SampleError(f"a data: URL is damaged: {error}") from error
    if not path.strip():
        raise SampleError("the path of a picture is empty")
    full = join_path(root, path)
    return FileRef(full.encode()) if is_url(full) else file_ref(full)


def find_picture_folder(
    annotations: str, root: str | None, pictures: Iterable[Sequence[str]], *, subset: str = ""
) -> tuple[str, int]:
    """Find the folder that the paths of pictures start from: the first that has one of the first pictures.

    Args:
        annotations: The file with the annotations.
        root: The folder or URL that the user names, or a folder above it; None tries folders next to the file.
        pictures: Possible names of each picture; all pictures have their names in the same order.
        subset: Name of a folder that may have them, such as ``train2017``.

    Returns:
        The folder, and the position of the names that exist.

    Raises:
        ConfigError: No folder has one of the first pictures.
    """
    tried = [names for names in islice(pictures, _TRIED_PICTURES) if not is_url(names[0]) and names[0][:5] != _DATA]
    if root is not None and is_url(root):
        return root, 0
    folder = os.path.dirname(os.path.abspath(annotations))
    parent = os.path.dirname(folder)
    inner = ["", subset, "images", os.path.join("images", subset)]
    bases = (folder, parent) if root is None else (os.path.abspath(root),)
    folders = list(dict.fromkeys(os.path.normpath(os.path.join(base, name)) for base in bases for name in inner))
    if not tried:
        return folders[0], 0
    for names in tried:
        for candidate in folders:
            for position, name in enumerate(names):
                if os.path.lexists(join_path(candidate, name)):
                    return candidate, position
    raise ConfigError(
        f"none of the first pictures exists, such as {tried[0][0]!r}; tried {', '.join(folders)}",
        at=annotations,
        hint="name the folder of the pictures with --root",
    )
