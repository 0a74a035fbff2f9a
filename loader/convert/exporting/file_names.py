"""Names of files for keys and parts: any key is one name, from which it can be read back."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

# Control characters, ends of lines, and marks that turn the direction of text, which a terminal obeys.
_UNSAFE = re.compile("[%/\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def file_name(text: str) -> str:
    r"""Return the name of a file or folder for a key, a part or a shard.

    ``/`` becomes ``%2F``, as do control characters and the names that a file cannot have.

    >>> file_name("0001"), file_name("a/1"), file_name("50%"), file_name(".."), file_name("a\x1b[2J")
    ('0001', 'a%2F1', '50%25', '%2E.', 'a%1B[2J')
    """
    escaped = _UNSAFE.sub(lambda match: quote(match[0], safe=""), text)
    if escaped in ("", ".", ".."):
        return "%2E" + escaped[1:] if escaped else "%"
    return escaped


def key_of(name: str) -> str:
    """Return the text of a name.

    >>> [key_of(file_name(text)) for text in ("0001", "a/1", "50%", "..", "%2F", "")]
    ['0001', 'a/1', '50%', '..', '%2F', '']
    """
    if name == "%":
        return ""
    return unquote(name)


def split_file_name(name: str) -> tuple[str, str]:
    """Return the key and the part of a file ``<key>.<part>``; the part is empty if there is none.

    As in shards, the key ends at the first dot after its last slash.

    >>> split_file_name("a%2F1.seg.png"), split_file_name("0001")
    (('a/1', 'seg.png'), ('0001', ''))
    """
    text = key_of(name)
    folder, slash, last = text.rpartition("/")
    key, _, part = last.partition(".")
    return f"{folder}{slash}{key}", part
