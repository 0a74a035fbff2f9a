"""Find the pictures that annotations name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from urllib.parse import unquote, urlsplit

from ...accounting.kinds import kind_of_name, usual_extension
from ...errors import ConfigError, SampleError
from ...storage import is_url
from ..rows.file_ref import file_ref
from ..rows.row import FileRef, PartRef, UrlRef, ValueRef
from ..tables.inline_media import inline_contents, is_inline
from ..tables.names import is_link, path_of_url

_TRIED_PICTURES = 20  # the first one may be missing
_DATA = "data:"


_EXTENSIONS = {"image": "jpg", "video": "mp4", "audio": "wav"}  # of media whose path has none


def picture_extension(path: str) -> str:
    """Return the extension of a picture as the name of its part; ``jpg`` if it has none of a picture.

    >>> picture_extension("a/b.PNG"), picture_extension("https://x.org/b.webp?size=2"), picture_extension("b")
    ('png', 'webp', 'jpg')
    """
    return media_extension(path, "image")


def media_extension(path: str, kind: str) -> str:
    """Return the extension of a picture, video or sound as the name of its part.

    Args:
        path: Its path, URL, ``data:`` URL, or contents in base64.
        kind: ``image``, ``video`` or ``audio``; a path with the extension of another kind gets a usual one of this.

    >>> media_extension("a/b.MOV", "video"), media_extension("clip", "video"), media_extension("a.jpg", "audio")
    ('mov', 'mp4', 'wav')
    """
    if path.startswith(_DATA):
        extension = path[len(_DATA) :].partition(",")[0].partition(";")[0].rpartition("/")[2].partition("+")[0]
    elif is_inline(path):
        extension = usual_extension(inline_contents(path) or b"") or ""
    else:
        extension = (path_of_url(path) if is_link(path) else path).rpartition("/")[2].rpartition(".")[2]
    extension = extension.lower()
    return extension if kind_of_name(extension) == kind else _EXTENSIONS[kind]


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
        path: A path, a URL, or the picture itself, as a ``data:`` URL or in base64.

    Raises:
        SampleError: The path is empty, or a ``data:`` URL is damaged.
    """
    contents = inline_contents(path)
    if contents is not None:
        return ValueRef(contents)
    if not path.strip():
        raise SampleError("the path of a picture is empty")
    if is_link(path) and not path.startswith("file://"):
        return UrlRef(path.strip().encode("utf-8", "surrogateescape"))
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
    paths = (names for names in pictures if not (is_url(names[0]) or is_inline(names[0])))
    tried = [*islice(paths, _TRIED_PICTURES)]
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
