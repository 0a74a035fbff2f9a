"""Settings of the output that all commands share, and texts for narrow or ASCII-only terminals."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
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


@dataclass(slots=True)
class OutputSettings:
    """Settings of the output of a run of the program.

    Attributes:
        quiet: Print only results and errors: no notes, warnings or progress.
        verbosity: 1 prints what options came from the environment, the time and memory, and messages of the library; 2
            prints details, too.
        color: ``auto`` (on terminals, unless ``NO_COLOR`` is set), ``always`` or ``never``.
        progress: Whether progress is shown; None, without a flag, is the default of each output.
        debug: Print the traceback of an error.
    """

    quiet: bool = False
    verbosity: int = 0
    color: str = "auto"
    progress: bool | None = None
    debug: bool = False

    @property
    def shows_progress(self) -> bool | None:
        """False if no progress is to be shown; None for the default."""
        return False if self.quiet else self.progress

    @property
    def log_level(self) -> int:
        """The lowest level of records of the library that are printed."""
        if self.quiet:
            return logging.ERROR
        return (logging.WARNING, logging.INFO, logging.DEBUG)[min(self.verbosity, 2)]


def program_name() -> str:
    """Return how a user runs the program again: ``energon``, or ``python -m energon_cli`` if it was started so."""
    folder, file = os.path.split(sys.argv[0])
    return "python -m energon_cli" if file == "__main__.py" and os.path.basename(folder) == "energon_cli" else "energon"


def name_program(text: str) -> str:
    """Return a message whose commands are written as :func:`program_name` runs them."""
    name = program_name()
    return text if name == "energon" else re.sub(r"(?<![\w./-])energon (?=[a-z-]+\b)", f"{name} ", text)


_settings: ContextVar[OutputSettings | None] = ContextVar("energon_output_settings", default=None)


def output_settings() -> OutputSettings:
    """Return the settings of this run; outside of a run, those without options."""
    return _settings.get() or OutputSettings()


@contextlib.contextmanager
def scoped_settings() -> Iterator[OutputSettings]:
    """Create settings for a run, which options change while they are parsed."""
    token = _settings.set(OutputSettings())
    try:
        yield output_settings()
    finally:
        _settings.reset(token)


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
