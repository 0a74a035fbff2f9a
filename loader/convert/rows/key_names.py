"""Keys and part names that every reader of tar shards understands."""

from __future__ import annotations

import re
from hashlib import blake2b

from ...format.tar.names import marked, split_member_name

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MAX_BYTES = 1000  # of a key; file systems allow 255 for each folder, tars any length


def key_of_path(path: str) -> str:
    """Return the key of a sample from a path without its extension.

    A dot in the last component would begin the name of the part, components that start with a dot are hidden, and
    ``..`` leads out of a folder. Readers skip the members of a first folder ``__x__``.

    >>> key_of_path("a/b.c/photo.v2")
    'a/b.c/photo_v2'
    >>> key_of_path("../x/.hidden")
    '_/x/_hidden'
    >>> key_of_path("__x__/a")
    '_x__/a'
    """
    # Most paths are keys as they are; a character has up to four bytes.
    is_plain = path.isprintable() and "." not in path and "//" not in path and 4 * len(path) <= _MAX_BYTES
    if is_plain and path[:1] not in "/_" and path[-1] != "/":
        return path
    text = without_controls(path)
    # Keep folders, but none that is hidden or leads out.
    names = [name for name in text.split("/") if name not in ("", ".")]
    folders = ["_" + name[1:].lstrip(".") if name.startswith(".") else name for name in names]
    if not folders:
        return "_"
    folders[-1] = folders[-1].replace(".", "_")
    if split_member_name("/".join(folders) + ".x") is None:
        folders[0] = folders[0][1:]
    key = "/".join(folders)
    # A cut key stays unique by its hash.
    if len(key.encode()) > _MAX_BYTES:
        digest = blake2b(key.encode(), digest_size=8).hexdigest()
        key = key.encode()[: _MAX_BYTES - 20].decode("utf-8", "ignore").rstrip("/") + f"-{digest}"
    return key


def without_controls(text: str) -> str:
    r"""Return a text with replacements for control characters, and for bytes that are not UTF-8.

    >>> without_controls("jpg"), without_controls("x\x1b[31m")
    ('jpg', 'x_[31m')
    """
    if text.isprintable():
        return text
    return _UNSAFE.sub("_", marked(text))
