"""Names of columns, split parts and parts, and the files that paths in a table name."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple
from urllib.parse import unquote

from ...arrays import IntArray
from ...errors import ConfigError
from ...parts.kinds import kind_of_name
from ...storage import is_url
from ...storage.remote import hide_query
from ..rows.file_access import FileAccess
from ..rows.row import FaultRef, FileRef, PartRef, UrlRef

KEY_NAMES = frozenset({"key", "id", "uid", "uuid", "sampleid", "samplekey", "imageid", "imagekey"})
LABEL_NAMES = frozenset(
    {"label", "labels", "class", "classid", "classindex", "cls", "target", "category", "categoryid"}
)
CAPTION_NAMES = (
    "caption", "text", "txt", "captions", "alttext", "prompt", "description", "transcript", "transcription", "sentence",
)  # fmt: skip
"""The first of them that a table has is the text of its samples."""
MEDIA_NAMES = re.compile(r"image|img|photo|picture|audio|sound|clip|video|mask|media|file|path|^urls?$|^links?$")

_NOT_IN_A_PART_NAME = re.compile(r"[^a-z0-9_-]+")
_BAD_PART_NAME = re.compile(r"[/\[\],\s\x00-\x1f]|^\.|\.$|\.\.|^$")
_MAX_PATH = 1024
_MAX_SCHEME = 40  # characters of the begin of a URL
_EXTENSION = re.compile(r"[A-Za-z0-9]{1,10}(\.gz)?")
_DOUBLE = ("gz", "bz2", "xz")  # ends of extensions such as nii.gz


ROLE_NAMES = re.compile(
    r"(jpeg|left|right)?[-_ ]?(images?|imgs?|pictures?|photos?|frames?|rgb|depths?|normals?|flow|inputs?|outputs?|"
    r"targets?|source|src|videos?|audios?|wavs?|clips?|labels?|annotations?|anns?|boxes|bboxes|masks?|seg|segmentations?|before|after|"
    r"segmentation(class|object)|gt|ground[-_ ]?truth|captions?|texts?|txt|transcripts?|json|xml|keypoints?|"
    r"metadata|hr|lr)",
    re.IGNORECASE,
)
"""Names of folders that hold one part of each sample, and so are no classes."""
MAIN_NAMES = re.compile(r"(jpeg)?(images?|imgs?|rgb|inputs?|source|src|videos?|audios?|wavs?|clips)", re.IGNORECASE)
"""Names of folders that hold the main part of each sample, which gives it its name."""


def plain_name(column: str) -> str:
    """Return a name of a column without case and punctuation.

    >>> plain_name("Image_ID")
    'imageid'
    """
    return re.sub(r"[\W_]+", "", column.lower())


def split_extension(name: str) -> tuple[str, str]:
    """Return the name of a file without its extension, and the extension; ``nii.gz`` is one.

    >>> split_extension("a.b.jpg"), split_extension("T1.nii.gz"), split_extension("README")
    (('a.b', 'jpg'), ('T1', 'nii.gz'), ('README', ''))
    """
    stem, dot, extension = name.rpartition(".")
    if not dot or not stem:
        return name, ""
    if "." in stem and extension.lower() in _DOUBLE:
        stem, _, inner = stem.rpartition(".")
        return stem, f"{inner}.{extension}"
    return stem, extension


def split_name(path: str) -> tuple[str, str, str]:
    """Return the folder of a file in a tree, its name without the extension, and the extension.

    >>> split_name("a/b/c.jpg")
    ('a/b', 'c', 'jpg')
    """
    folder, _, last = path.rpartition("/")
    return folder, *split_extension(last)


def extension_of_path(path: str) -> str:
    """Return the extension of a path or URL as part names have it; ``""`` if there is none.

    >>> extension_of_path("a/b.JPEG"), extension_of_path("https://x.org/a.png?size=3"), extension_of_path("a.b/c")
    ('jpg', 'png', '')
    """
    last = (path_of_url(path) if is_link(path) else path).rpartition("/")[2]
    stem, extension = split_extension(last)
    return _usual_spelling(extension) if stem else ""


@lru_cache(1024)
def _usual_spelling(extension: str) -> str:
    """Return an extension as part names have it; ``""`` for other texts after a dot."""
    lower = extension.lower() if _EXTENSION.fullmatch(extension) else ""
    return "jpg" if lower == "jpeg" else lower


@lru_cache(1024)
def _known_spelling(extension: str) -> str:
    """Return an extension as part names have it; ``""`` for one that samples do not have."""
    extension = _usual_spelling(extension)
    return extension if extension and kind_of_name(extension) not in ("bytes", "label") else ""


def part_name_of_column(column: str) -> str:
    """Return the beginning of a part name from the name of a column.

    >>> part_name_of_column("Left image")
    'left_image'
    """
    return _NOT_IN_A_PART_NAME.sub("_", column.lower()).strip("_-") or "column"


def check_part_name(name: str) -> None:
    """Raise a ``ConfigError`` unless a member of a shard can have this part name."""
    if _BAD_PART_NAME.search(name):
        raise ConfigError(f"{name!r} cannot be the name of a part", hint="name it by its extension, such as jpg or txt")


def is_link(text: str) -> bool:
    """Return True for a URL, of this machine or another one.

    >>> is_link("https://example.org/a.jpg"), is_link("file:///a.jpg"), is_link("a.jpg")
    (True, True, False)
    """
    if "://" not in text[:_MAX_SCHEME]:
        return False
    try:
        return is_url(text) or text.startswith("file://")
    except ConfigError:  # a dss:// URL that names no dataset of this machine
        return True


def plain_url(url: str) -> str:
    """Return a URL without credentials, query and fragment, which keys must not hold.

    >>> plain_url("https://me:secret@example.org/a?sig=secret")
    'https://example.org/a'
    """
    return hide_query(url).removesuffix("?…")


def path_of_url(url: str) -> str:
    """Return the path of a URL, which may be damaged, without the first slash.

    >>> path_of_url("https://example.org/a/b.png?size=3"), path_of_url("http://[::1")
    ('a/b.png', '')
    """
    return plain_url(url).partition("://")[2].partition("/")[2]


def looks_like_file(text: str) -> bool:
    """Return True for a text that ends in the extension of a picture, sound, video, text or document.

    >>> looks_like_file("a/b.jpg"), looks_like_file("image.path"), looks_like_file("A cat. It sleeps.")
    (True, False, False)
    """
    return bool(file_extension(text))


def file_extension(text: str) -> str:
    """Return the extension of a text that :func:`looks_like_file`; ``""`` for other texts.

    >>> file_extension("a/b.JPEG"), file_extension("image.path")
    ('jpg', '')
    """
    if ("." not in text[-11:] and "?" not in text) or len(text) > _MAX_PATH or "\n" in text:
        return ""
    stem, _, ending = text.rpartition(".")
    is_plain = stem and stem[-1] != "/" and "://" not in text and ending.isalnum() and ending not in _DOUBLE
    return _known_spelling(ending) if is_plain else _known_spelling(extension_of_path(text))


_LOCAL = "file://"


class Hit(NamedTuple):
    """A file that a value names: its number, and the form of the value, one of :data:`~.name_index.FORMS`."""

    file: int
    form: int


class NamedFiles:
    """The files that paths in a table or document name: relative ones start from a folder or URL.

    Args:
        access: Decides which files may be named; by default, those below the folder.
        allowed: Folders whose files may be named; by default, the root.
    """

    def __init__(self, root: str, access: FileAccess | None = None, allowed: Sequence[str] = ()) -> None:
        self.root = root
        self.access = access or FileAccess()
        self.allowed = tuple(allowed) or (root,)

    def exists(self, path: str) -> bool:
        """Return True if there is such a file, also one that is refused; of a URL, always."""
        try:
            return is_url(self.root) or os.path.isfile(join_root(self.root, path))
        except ValueError:  # a zero byte
            return False

    is_tree: ClassVar[bool] = False
    """True for the files of a tree, whose names are known."""

    def find(self, text: str) -> Hit | None:  # noqa: ARG002 - a folder is not searched
        """Return the number of the file of the tree that a value names, and how it names it; None without one."""
        return None

    def find_all(self, texts: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return the numbers of the files that values name, -1 for none, and the forms of the values."""
        raise NotImplementedError

    def is_name(self, text: str) -> bool:
        """Return True for a value that names a file of the tree, and is hardly the name of a column."""
        hit = self.find(text)
        return hit is not None and any(character in "0123456789./" for character in text)

    def extension(self, file: int) -> str:
        """Return the extension of a file of the tree, by its number."""
        raise NotImplementedError

    def name(self, path: str) -> str:
        return path

    def ref(self, path: str, part: str, *, named_by_contents: bool) -> PartRef:  # noqa: ARG002 - a file has no part
        """Return the reference to a file; one that fails if it is refused, and one to a URL if the path is one."""
        if is_link(path) and not path.startswith(_LOCAL):
            return UrlRef(path.strip().encode("utf-8", "surrogateescape"), named_by_contents)
        # Files on this machine are checked after all links; in an object store, paths may not lead up.
        full = join_root(self.root, path)
        if not is_url(full):
            is_absolute = path.startswith((_LOCAL, "/"))
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
