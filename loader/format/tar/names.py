"""Split member names into keys and part names: ``a/b.seg.png`` is part ``seg.png`` of sample ``a/b``.

The rules are in ``docs/format.md``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_DOT, _SLASH, _UNDERSCORE = b"./_"
_METADATA = re.compile("__[^/]*__/")  # a first folder whose members are no samples


def decode_name(name: bytes) -> str:
    """Decode a name as UTF-8; :func:`encode_name` restores invalid bytes, too."""
    return name.decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    """Encode a name that :func:`decode_name` returned."""
    return name.encode("utf-8", "surrogateescape")


def printable(name: str) -> str:
    r"""Escape what is not UTF-8 in a name, for logs and messages: writing it unescaped would fail.

    >>> printable("caf\udce9.txt")
    'caf\\udce9.txt'
    """
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def marked(name: str) -> str:
    r"""Return a name with marks in place of bytes that are not UTF-8, for documents and tables.

    >>> marked("caf\udce9.txt")
    'caf\ufffd.txt'
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def split_member_name(name: str) -> tuple[str, str] | None:
    """Split one member's name into key and part name; return None if it belongs to no sample.

    >>> split_member_name("a/b.seg.png")
    ('a/b', 'seg.png')
    >>> split_member_name("__info__/a.json"), split_member_name("README"), split_member_name("a/.hidden.txt")
    (None, None, None)
    """
    folder, slash, last = name.rpartition("/")
    stem, dot, part_name = last.partition(".")
    if not dot or not stem or _METADATA.match(name):
        return None
    return folder + slash + stem, part_name


def is_outside_name(name: str) -> bool:
    """Return True for the name of a member that unpacking would write outside of its folder.

    >>> is_outside_name("a/../../b.jpg"), is_outside_name("/b.jpg"), is_outside_name("a..b.jpg")
    (True, True, False)
    """
    return name.startswith("/") or ".." in name.split("/")


def reason_without_sample(name: str) -> str | None:
    """Return the reason for which a member belongs to no sample, as a code of the account.

    Hidden members have none, since they are no data.

    >>> [reason_without_sample(name) for name in ("README", "a/._b.jpg", "__MACOSX/a.jpg", "a/.x.txt", "a.jpg")]
    ['L107', 'L108', 'L108', None, None]
    """
    last = name.rpartition("/")[2]
    if last.startswith("._") or name.startswith("__MACOSX/"):
        return "L108"
    return None if last.startswith(".") or split_member_name(name) else "L107"


def key_without_shard(name: str) -> str | None:
    """Return the key, or the file name, of ``<shard>/<key>``; None if the name has no shard.

    >>> key_without_shard("train/s_0.tar/a/0001"), key_without_shard("a/0001")
    ('a/0001', None)
    """
    _, separator, key = name.partition(".tar/")
    return key if separator and key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitNames:
    """The result of splitting m names; k of them belong to samples."""

    taken: npt.NDArray[np.int64]  # (k,): rows of the names that belong to samples
    keys: npt.NDArray[np.uint8]  # (k, w): zero after each key's end, w a multiple of 8
    key_lengths: npt.NDArray[np.int64]  # (k,)
    part_names: list[bytes]  # (k,)
    hidden: int  # names that are skipped because their last component starts with a dot
    misread: int  # hidden names that other tools take for parts


def split_member_names(names: npt.NDArray[np.bytes_]) -> SplitNames:
    """Split many names as :func:`split_member_name` does.

    Args:
        names: NUL-padded names, shape (m,).
    """
    # View the names as a matrix of letters.
    width = max(8, (int(np.strings.str_len(names).max(initial=0)) + 8) & -8)  # at least one NUL after each name
    letters = names.astype(f"S{width}").view(np.uint8).reshape(len(names), width)  # (m, w)
    # Find the first dot of each last component.
    columns = np.arange(width)
    is_dot = letters == _DOT
    is_slash = letters == _SLASH
    if is_slash.any():
        base = np.where(is_slash.any(axis=1), width - is_slash[:, ::-1].argmax(axis=1), 0)  # (m,)
        is_dot &= columns >= base[:, None]
    else:
        base = np.zeros(len(names), dtype=np.int64)
    dot = is_dot.argmax(axis=1)  # (m,) the first dot of the last component
    has_dot = is_dot[np.arange(len(names)), dot]
    # Leave out folders of metadata and hidden files.
    is_metadata = _is_metadata(letters)
    has_dot &= ~is_metadata
    hidden = has_dot & (dot == base)
    # To other tools, "d/.x" is part "x" of a sample "d/" if no folder's name has a dot.
    misread = sum(
        b"." not in letters[row, : base[row]].tobytes() for row in np.flatnonzero(hidden & (base > 0)).tolist()
    )
    taken = has_dot & ~hidden
    # Cut the keys before the dot, and the part names after it.
    rows = np.flatnonzero(taken)
    if len(rows) < len(names):
        letters, dot = letters[rows], dot[rows]
    keys = letters * (columns < dot[:, None])
    return SplitNames(
        taken=rows,
        keys=keys,
        key_lengths=dot,
        part_names=_tails(letters, dot + 1),
        hidden=int(hidden.sum()),
        misread=misread,
    )


def _is_metadata(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return True for each name in a folder of the form ``__x__``."""
    is_metadata: npt.NDArray[np.bool_] = (letters[:, 0] == _UNDERSCORE) & (letters[:, 1] == _UNDERSCORE)
    for row in np.flatnonzero(is_metadata).tolist():
        first, slash, _ = letters[row].tobytes().partition(b"/")
        is_metadata[row] = bool(slash) and len(first) >= 4 and first.endswith(b"__")
    return is_metadata


def _tails(letters: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> list[bytes]:
    """Return each row's bytes from its start on, without the padding."""
    if len(letters) == 0:
        return []
    width = letters.shape[1] - int(starts.min())
    positions = np.minimum(starts[:, None] + np.arange(width), letters.shape[1] - 1)  # the last column is all NUL
    tails = np.take_along_axis(letters, positions, axis=1)  # (k, width)
    return np.ascontiguousarray(tails).view(f"S{width}").reshape(-1).tolist()
