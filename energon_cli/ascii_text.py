"""Texts for terminals without characters beyond ASCII."""

from __future__ import annotations

import os
import sys
from typing import Any

_NEVER_ASKED = ("dumb", "linux", "unknown")
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # Python sets LC_CTYPE to one of these in the C locale
_IN_ASCII = str.maketrans(
    {"×": "x", "…": "...", "»": ">", "–": "-", "·": "|", "→": "->", "←": "<-", "↑": "up", "↓": "down"}
)


def in_ascii(text: str) -> str:
    """Replace the characters that an ASCII terminal lacks, by similar ones or escapes.

    >>> in_ascii("JPEG 24×16, é")
    'JPEG 24x16, \\\\xe9'
    """
    return text.translate(_IN_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def is_ascii_only() -> bool:
    """Check whether the environment names a terminal or locale without characters beyond ASCII."""
    if os.environ.get("TERM", "dumb") in _NEVER_ASKED:
        return True
    try:
        "▀█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    language, kind = os.environ.get("LANG", ""), os.environ.get("LC_CTYPE", "")
    if kind in _COERCED and language in ("", "C", "POSIX"):
        kind = ""
    return (os.environ.get("LC_ALL") or kind or language) in ("C", "POSIX")


class AsciiStream:
    """A text stream that replaces the characters that an ASCII terminal lacks."""

    encoding = "ascii"  # rich draws boxes and bars of ASCII characters then

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        """Write a text."""
        self._stream.write(in_ascii(text))
