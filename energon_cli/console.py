"""Where commands print: plain when piped, coloured on a terminal, and never raw control characters from data."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from loader.inspect import format_bytes, format_count, plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "colour_wanted",
    "error_console",
    "escape_controls",
    "format_bytes",
    "format_count",
    "is_terminal",
    "output_console",
    "plural",
    "print_json",
    "print_table",
    "show_progress",
]

_PIPED_WIDTH = 120
_COLOURFUL = ("alacritty", "foot", "rxvt", "screen", "tmux", "vte", "wezterm", "xterm")

# Control characters, line separators, and marks that reorder text could rewrite what the terminal shows;
# lone surrogates stand for bytes that are not UTF-8 and cannot be printed at all.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def escape_controls(text: str, *, keep: str = "") -> str:
    r"""Replace characters that could command or confuse a terminal by escapes.

    Args:
        text: Text from a dataset: a key, a caption, a message that quotes one.
        keep: Characters to leave alone, such as a newline.

    >>> escape_controls("red: \x1b[31m")
    'red: \\x1b[31m'
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep:
            return character
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            code -= 0xDC00  # surrogateescape: the byte itself
        named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
        return named or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")

    return _UNSAFE.sub(escape, text)


def colour_wanted(stream: Any) -> bool:
    """Tell whether a stream is a terminal whose user wants colours."""
    return "NO_COLOR" not in os.environ and is_terminal(stream)


def is_terminal(stream: Any) -> bool:
    """Tell whether a stream is there (a parent may have closed it) and leads to a terminal."""
    return stream is not None and bool(stream.isatty())


def show_progress(text: str) -> None:
    """Say on a terminal what takes a moment; standard output stays as it is."""
    if is_terminal(sys.stderr):
        click.secho(text, err=True, dim="NO_COLOR" not in os.environ)


def output_console() -> Console:
    """Make the console for what was asked for: standard output."""
    return _console(sys.stdout)


def error_console() -> Console:
    """Make the console for what goes beside it: standard error."""
    return _console(sys.stderr)


def _console(stream: Any) -> Console:
    from rich.console import Console

    class PlainConsole(Console):
        """Leaves a reader that hung up to :func:`energon_cli.main.main`; rich would exit on its own."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    terminal = bool(stream.isatty())
    return PlainConsole(
        file=stream,
        force_terminal=terminal,
        no_color=not colour_wanted(stream),
        color_system="truecolor" if terminal and _knows_all_colours() else "auto",
        width=None if terminal else _PIPED_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


def _knows_all_colours() -> bool:
    """Tell whether pictures may use 24-bit colours, also where ``COLORTERM`` does not say so.

    Many terminals that have them call themselves just ``xterm``; Apple's is the one in wide use that has not.
    """
    terminal = os.environ.get("TERM", "")
    return terminal.startswith(_COLOURFUL) and os.environ.get("TERM_PROGRAM") != "Apple_Terminal"


def print_table(console: Console, table: Table) -> None:
    """Print a table, without the blanks that fill its last column where it is piped."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        console.print(line.rstrip(), soft_wrap=True)


def print_json(document: Any) -> None:
    """Print a report as JSON on standard output."""
    # Escapes keep lone surrogates (keys that are not UTF-8) printable everywhere.
    click.echo(json.dumps(_as_json(document), indent=2, ensure_ascii=True))


def _as_json(value: Any) -> Any:
    """Write what YAML knows and JSON does not, such as dates and keys that are no text, as text."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
