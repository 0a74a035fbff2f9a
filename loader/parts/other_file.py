"""Name files that are others than their names say, and archives that are not read, with the command that helps."""

from __future__ import annotations

import re
import shlex

from ..errors import FormatError
from ..storage import open_parent
from .kinds import HEADER_BYTES, kind_of_bytes

_NUMBER = r"(?:a[a-z]{1,2}|\d{1,5})"  # as split and other programs number pieces
_PIECE = re.compile(
    rf"(.*\.(?:tar|tar\.(?:gz|bz2|xz|zst|lz4)|tgz|tbz2|txz))([._-]?(?:part)?[._-]?){_NUMBER}", re.IGNORECASE
)
_UNREAD = re.compile(rf".*\.(?:7z|rar|[rz]\d\d|(?:zip|7z|rar)\.(?:part)?{_NUMBER})", re.IGNORECASE)
_VOLUME = r"\.[zZ]\d\d$"  # of a zip, whose last piece has the list of its members
_UNPACK = {"gz": "gunzip -c", "bz2": "bunzip2 -c", "xz": "unxz -c", "zst": "unzstd -c", "lz4": "unlz4 -c"}


def is_unread_archive(name: str) -> bool:
    """Return True for an archive that is not read, or for a piece of an archive.

    >>> [is_unread_archive(name) for name in ("x.rar", "x.tar.gz.partaa", "x.tgzab", "x.zip.001", "x.tar.gz", "x.zip")]
    [True, True, True, True, False, False]
    """
    return bool(_UNREAD.fullmatch(name) or _PIECE.fullmatch(name))


def unpack_command(path: str, extension: str = "7z") -> str:
    """Return the command that joins the pieces of an archive, or unpacks it.

    Args:
        extension: The usual extension of its contents.

    >>> unpack_command("x.tar.gz.partaa"), unpack_command("x.7z")
    ('cat x.tar.gz.part* > x.tar.gz', '7z x x.7z')
    """
    if piece := _PIECE.fullmatch(path):
        return f"cat {shlex.quote(piece[1] + piece[2])}{'' if piece[2] else '?'}* > {shlex.quote(piece[1])}"
    if extension in _UNPACK:
        return f"{_UNPACK[extension]} {shlex.quote(path)} > unpacked.tar"
    return f"7z x {shlex.quote(re.sub(_VOLUME, '.zip', path))}"


def refuse_other_file(path: str, extension: str, head: bytes | None = None) -> None:
    """Raise a ``FormatError`` if a file that cannot be read is of another kind, such as a pointer of Git LFS.

    Args:
        extension: The usual extension of such files.
        head: Its first bytes; None reads them.
    """
    if head is None:
        storage, name = open_parent(path)
        with storage.open(name) as file:
            head = file.read_at(0, HEADER_BYTES)
    kind = kind_of_bytes(head)
    if kind.kind in ("archive", "page", "pointer") and kind.extension != extension:
        what, _, remedy = kind.description.partition(": ")
        if kind.kind == "archive":
            remedy = f"unpack it: {unpack_command(path, kind.extension)}"
        hint = remedy or "download it again"
        raise FormatError(f"this is {what}, not a {extension} file", shard=path, offset=0, hint=hint)
