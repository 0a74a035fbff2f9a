"""Names that columns of tables usually have, names of split parts, and names of parts."""

from __future__ import annotations

import os
import re

from ...accounting.kinds import kind_of_name
from ...errors import ConfigError
from ...storage import is_url
from ...storage.remote import hide_query

KEY_NAMES = frozenset({"key", "id", "uid", "uuid", "sampleid", "samplekey", "imageid", "imagekey"})
SPLIT_NAMES = frozenset({"split", "subset", "partition"})
LABEL_NAMES = frozenset(
    {"label", "labels", "class", "classid", "classindex", "cls", "target", "category", "categoryid"}
)
CAPTION_NAMES = (
    "caption", "text", "txt", "captions", "alttext", "prompt", "description", "transcript", "transcription", "sentence",
)  # fmt: skip
"""The first of them that a table has is the text of its samples."""
MEDIA_NAMES = re.compile(r"image|img|photo|picture|audio|sound|clip|video|mask|media|file|path|^urls?$|^links?$")

_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_PIECE = re.compile(rf"(?<![a-z])({'|'.join(sorted(_SPLITS, key=len, reverse=True))})(\d*)(?![a-z])", re.IGNORECASE)
_NOT_IN_A_PART_NAME = re.compile(r"[^a-z0-9_-]+")
_BAD_PART_NAME = re.compile(r"[/\[\],\s\x00-\x1f]|^\.|\.$|\.\.|^$")
_MAX_PATH = 1024
_MAX_SCHEME = 40  # characters of the begin of a URL
_EXTENSION = re.compile(r"[A-Za-z0-9]{1,10}")


def plain_name(column: str) -> str:
    """Return a name of a column without case and punctuation.

    >>> plain_name("Image_ID")
    'imageid'
    """
    return re.sub(r"[\W_]+", "", column.lower())


def split_part(value: str) -> str:
    """Return the split part of a value in a split column.

    >>> split_part("Validation"), split_part("train"), split_part("fold 3")
    ('val', 'train', 'fold 3')
    """
    text = value.strip()
    return _SPLITS.get(text.lower(), text)


def extension_of_path(path: str) -> str:
    """Return the extension of a path or URL as part names have it; ``""`` if there is none.

    >>> extension_of_path("a/b.JPEG"), extension_of_path("https://x.org/a.png?size=3"), extension_of_path("a.b/c")
    ('jpg', 'png', '')
    """
    last = (path_of_url(path) if is_link(path) else path).rpartition("/")[2]
    stem, _, extension = last.rpartition(".")
    if not stem or not _EXTENSION.fullmatch(extension):
        return ""
    lower = extension.lower()
    return "jpg" if lower == "jpeg" else lower


def part_name_of_column(column: str) -> str:
    """Return the beginning of a part name from the name of a column.

    >>> part_name_of_column("Left image")
    'left_image'
    """
    return _NOT_IN_A_PART_NAME.sub("_", column.lower()).strip("_") or "column"


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
    if ("." not in text[-11:] and "?" not in text) or len(text) > _MAX_PATH or "\n" in text:
        return False
    extension = extension_of_path(text)
    return bool(extension) and kind_of_name(extension) not in ("bytes", "label")


def split_of_folder(name: str) -> str:
    """Return the split part of a folder that is named after one; an empty text for another folder.

    >>> split_of_folder("Validation"), split_of_folder("train2017"), split_of_folder("trains")
    ('val', 'train', '')
    """
    match = _PIECE.fullmatch(name)
    return _SPLITS[match[1].lower()] if match else ""


def subset_of_file(path: str) -> str:
    """Return the piece of a file's name that names a split part, with its number.

    >>> subset_of_file("annotations/captions_train2017.json"), subset_of_file("trains.json")
    ('train2017', '')
    """
    match = _PIECE.search(os.path.basename(path))
    return match[0] if match else ""


def split_of_file(path: str) -> str:
    """Return the split part that a file or its folder is named after; an empty text if there is none.

    >>> split_of_file("captions_val2017.json"), split_of_file("valid/_annotations.coco.json"), split_of_file("all.json")
    ('val', 'val', '')
    """
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return split_of_folder(subset_of_file(path)) or split_of_folder(folder)
