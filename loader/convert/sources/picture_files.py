"""Find the pictures that annotations name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice

from ...accounting.kinds import kind_of_name, usual_extension
from ...errors import ConfigError, SampleError
from ...storage import is_url
from ..rows.file_access import FileAccess, data_folder
from ..rows.row import PartRef, ValueRef
from ..tables.named_files import NamedFiles, inline_contents, is_inline, is_link, join_root, path_of_url

_TRIED_PICTURES = 20  # the first one may be missing
_SEARCHED_FOLDERS = 100  # of more, none is searched, since they take long and pictures of equal names are likely
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


def picture_ref(files: NamedFiles, path: str) -> PartRef:
    """Return the reference to a picture.

    Args:
        files: The files that paths name.
        path: A path, a URL, or the picture itself, as a ``data:`` URL or in base64.
    """
    contents = inline_contents(path)
    if contents is not None:
        return ValueRef(contents)
    if not path.strip():
        raise SampleError("the path of a picture is empty")
    return files.ref(path, "", named_by_contents=False)


def find_picture_folder(
    annotations: str, pictures: Iterable[Sequence[str]], *, root: str | None, access: FileAccess, subset: str = ""
) -> tuple[NamedFiles, int]:
    """Find the folder that the paths of pictures start from: the first that has one of the first pictures.

    If none near the annotations has one, it is the only folder below that of the data which does.

    Args:
        annotations: The file with the annotations.
        pictures: Possible names of each picture; all pictures have their names in the same order.
        root: The folder or URL that the user names, or a folder above it; None tries folders next to the file.
        access: Decides which files may be named.
        subset: Name of a folder that may have them, such as ``train2017``.

    Returns:
        The files that names start from the folder of, and the position of the names that exist.
    """
    paths = (names for names in pictures if not (is_url(names[0]) or is_inline(names[0])))
    tried = [*islice(paths, _TRIED_PICTURES)]
    if root is not None and is_url(root):
        return NamedFiles(root, access), 0
    folder = os.path.dirname(os.path.abspath(annotations))
    parent = os.path.dirname(folder)
    inner = ["", subset, "images", os.path.join("images", subset)]
    bases = (folder, parent) if root is None else (os.path.abspath(root),)
    allowed = [data_folder(annotations)] if root is None else bases
    folders = list(dict.fromkeys(os.path.normpath(os.path.join(base, name)) for base in bases for name in inner))
    if not tried:
        return NamedFiles(folders[0], access, allowed), 0
    for is_near in (True, False):
        below = [] if is_near else [base for base, _, _ in islice(os.walk(allowed[0]), _SEARCHED_FOLDERS + 1)]
        candidates = folders if is_near else below if len(below) <= _SEARCHED_FOLDERS else []
        hits = (
            (candidate, position)
            for names in tried
            for candidate in candidates
            for position, name in enumerate(names)
            if os.path.lexists(join_root(candidate, name))
        )
        hit = next(hits, None)
        if hit is not None and (is_near or all(candidate == hit[0] for candidate, _ in hits)):
            return NamedFiles(hit[0], access, allowed), hit[1]
    raise ConfigError(
        f"none of the first pictures exists, such as {tried[0][0]!r}; tried {', '.join(folders)}",
        at=annotations,
        hint="name the folder of the pictures with --root",
    )
