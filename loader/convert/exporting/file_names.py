"""Names of files for keys and parts: any key is one name, from which it can be read back."""

from __future__ import annotations


def file_name(text: str) -> str:
    """Return the name of a file or folder for a key, a part or a shard.

    ``/`` becomes ``%2F``, as do the other characters and names that a file cannot have.

    >>> file_name("0001"), file_name("a/1"), file_name("50%"), file_name("..")
    ('0001', 'a%2F1', '50%25', '%2E.')
    """
    escaped = text.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
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
    return name.replace("%2E", ".").replace("%00", "\0").replace("%2F", "/").replace("%25", "%")


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
