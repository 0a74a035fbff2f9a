"""Texts that break between words, and in ASCII."""

from __future__ import annotations

import os
import re
import shutil
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
        self._stream.write(in_ascii(text))


# What stays in one line: a place, which is a link; a command line, to copy; and any other word.
_UNBROKEN = re.compile(r"(\s*)((?<=^  )at: .*|(?<=: )(?:energon|python -m|pip install) .*?(?=; |$)|\S+)", re.MULTILINE)
_LINK = re.compile(r"\x1b\]8;;.*?\x1b\\")


def break_between_words(text: str, stream: Any) -> str:
    """Replace spaces by line breaks where lines are wider than the terminal; the length of the text stays."""
    if not (stream and stream.isatty()):
        return text
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((80, 24))
    columns = shutil.get_terminal_size(size).columns
    pieces: list[str] = []
    column = 0
    for space, word in _UNBROKEN.findall(text):
        width = len(word) if word.isascii() and "\x1b" not in word else _cells(word)
        before = 0 if "\n" in space else column
        column = before + len(space.rpartition("\n")[2])
        if before and space and column + width > columns:
            space, column = f"\n{space[1:]}", len(space) - 1  # noqa: PLW2901 - the break takes the place of a space
        pieces += space, word
        column += width
    return "".join(pieces) + text[len(text.rstrip()) :]


def _cells(text: str) -> int:
    from rich.cells import cell_len

    text = _LINK.sub("", text)
    return len(in_ascii(text)) if is_ascii_only() else cell_len(text)
