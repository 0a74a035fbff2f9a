"""Output of commands: plain text when piped, colours and links on a terminal, control characters always escaped."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import click

from loader.errors import StorageError, escape_controls, plural

from .settings import name_program, output_settings
from .terminal_text import AsciiStream, break_between_words, is_ascii_only

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from loader.engine import Account, AccountEntry


_PIPED_WIDTH = 120
_TRUECOLOR_TERMS = ("alacritty", "foot", "rxvt", "screen", "tmux", "vte", "wezterm", "xterm")


def colour_wanted(stream: Any) -> bool:
    """Check whether output to a stream has colours: by ``--color``, else on a terminal if ``NO_COLOR`` is not set."""
    chosen = output_settings().color
    if chosen != "auto":
        return chosen == "always"
    return "NO_COLOR" not in os.environ and is_terminal(stream)


def is_terminal(stream: Any) -> bool:
    """Check whether a stream exists (a parent process may have closed it) and is a terminal."""
    return stream is not None and bool(stream.isatty())


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Send to standard error what code of the user prints, in this process and in workers that it starts."""
    if sys.stdout is None or sys.stderr is None:  # a parent process may have closed one of them
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


class StatusLine(AbstractContextManager["StatusLine"]):
    """A line on standard error, if that is a terminal, which is erased when the step that it names is done."""

    def __init__(self) -> None:
        self._length = 0
        self._is_open = is_terminal(sys.stderr) and output_settings().progress is not False

    def show(self, text: str) -> None:
        """Replace the line; after the ``with`` block, this does nothing."""
        if self._is_open:
            self.clear()
            click.secho(text, err=True, nl=False, dim=colour_wanted(sys.stderr))
            self._length = len(text)

    def clear(self) -> None:
        if self._length:  # spaces, since a dumb terminal knows no control sequences
            click.echo(f"\r{' ' * self._length}\r", err=True, nl=False)
            self._length = 0

    def __exit__(self, *_: object) -> None:
        self.clear()
        self._is_open = False


def show_note(*texts: str) -> None:
    """Print notes about the result to standard error, one per line, unless ``--quiet`` is given."""
    for text in () if output_settings().quiet else texts:
        show_message(text, label="note: ")


def show_warning(*texts: str, even_if_quiet: bool = False) -> None:
    """Print doubts about the result to standard error, one per line, unless ``--quiet`` is given."""
    for text in () if output_settings().quiet and not even_if_quiet else texts:
        show_message(text, label="warning: ", colour="yellow")


def show_message(text: str, *, label: str = "", colour: str = "", keep: str = "") -> None:
    """Print a message to standard error.

    Args:
        label: Printed before it, in a colour.
        keep: Control characters that are not escaped; the message may have names of files and keys.
    """
    # Break its lines between words, and link the files that it names.
    shown = break_between_words(label + name_program(escape_controls(text, keep=keep)), sys.stderr)
    if "  at: " in shown and supports_links(sys.stderr):
        shown = link_places(text, shown)
    # Colour the label alone.
    is_coloured = colour_wanted(sys.stderr)
    if colour and is_coloured:
        shown = click.style(label, fg=colour, bold=True) + shown.removeprefix(label)
    click.echo(shown, err=True, color=is_coloured)


def error_console() -> Console:
    """Create a console for messages and prompts, on standard error."""
    return output_console(sys.stderr)


def output_console(stream: Any = None) -> Console:
    """Create a console for results, on standard output."""
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

    class PlainConsole(Console):
        """A console that escapes control characters in all that it shows, and breaks texts between words.

        It raises on a broken pipe, for :func:`energon_cli.main.main` to handle; rich would exit.
        """

        def print(self, *objects: Any, **options: Any) -> None:
            texts = [
                Text(name_program(escape_controls(item, keep="\n\t"))) if isinstance(item, str) else item
                for item in objects
            ]
            if all(isinstance(item, Text) for item in texts):
                line = Text(" ").join(texts)
                line.plain = break_between_words(line.plain, stream)  # styles keep their places
                super().print(line, **{**options, "soft_wrap": True})
            else:
                super().print(*texts, **options)

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                is_plain = segment.control or segment.text.strip("\n").isprintable()
                yield segment if is_plain else Segment(escape_controls(segment.text, keep="\n\t"), segment.style)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    stream = stream or sys.stdout
    # Piped output has no colours and a fixed width; a terminal has those that it can show.
    terminal, coloured = bool(stream.isatty()), colour_wanted(stream)
    system: Literal["auto", "256", "truecolor"] | None = "256" if coloured and not terminal else "auto"
    if terminal and _supports_truecolor():
        system = "truecolor"
    if output_settings().color == "never":
        system = None  # no bold text, either
    file: Any = AsciiStream(stream) if terminal and is_ascii_only() else stream
    # Nothing in a text is markup: texts come from data.
    return PlainConsole(
        file=file,
        force_terminal=terminal,
        no_color=not coloured,
        color_system=system,
        width=None if terminal else _PIPED_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


def _supports_truecolor() -> bool:
    """Check whether pictures may use 24-bit colours, without relying on ``COLORTERM``.

    Many terminals with 24-bit colours set ``TERM=xterm`` and no ``COLORTERM``. Apple's Terminal lacks them.
    """
    terminal = os.environ.get("TERM", "")
    return terminal.startswith(_TRUECOLOR_TERMS) and os.environ.get("TERM_PROGRAM") != "Apple_Terminal"


def print_json(document: Any, *, in_one_line: bool = False) -> None:
    """Print a report as JSON on standard output, with indents or in one line."""
    click.echo(json_line(document) if in_one_line else _indented(_as_json(document)))


def json_line(document: Any) -> str:
    """Return a report as JSON in one line."""
    # ASCII escapes keep lone surrogates (from keys that are not UTF-8) printable in every encoding.
    return json.dumps(_as_json(document), ensure_ascii=True)


def _indented(document: Any) -> str:
    import msgspec

    try:
        return msgspec.json.format(json.dumps(document), indent=2)  # json.dumps takes four times as long for indents
    except msgspec.DecodeError:  # it has a lone surrogate or NaN
        return json.dumps(document, indent=2)


def _as_json(value: Any) -> Any:
    """Convert a report to plain data.

    Dataclasses and named tuples become objects, by their fields. ``field(metadata={"json": "bytes"})`` gives a field
    another key, and ``{"json": None}`` omits it. A class with other keys has a method ``to_document``. Values that only
    YAML has, such as dates, and keys become strings.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    if isinstance(value, Mapping):
        return {str(key): _as_json(inner) for key, inner in value.items()}
    if hasattr(value, "to_document"):
        return _as_json(value.to_document())
    if is_dataclass(value):
        keys = {field.name: field.metadata.get("json", field.name) for field in fields(value)}
        return {key: _as_json(getattr(value, name)) for name, key in keys.items() if key is not None}
    return str(value)


def facts_of(report: Any, names: str, **others: Any) -> dict[str, Any]:
    """Return a JSON document: the named attributes of a report, in this order.

    Args:
        names: Names between blanks. ``bytes=size_bytes`` has the key ``bytes``; ``prepared.samples`` is an attribute of
            an attribute, with the key ``samples``.
        others: Values that the report lacks, or has in another form, by their keys.

    >>> facts_of(slice(1, 5), "path start end=stop start.real", path="/data/coco")
    {'path': '/data/coco', 'start': 1, 'end': 5, 'real': 1}
    """
    document = {}
    for name in names.split():
        key, _, attribute = name.rpartition("=")
        key = key or attribute.rpartition(".")[2]
        document[key] = others[key] if key in others else attrgetter(attribute)(report)
    return document


def print_reports(documents: Sequence[Any], *, is_list: bool, **others: Any) -> None:
    """Print the reports of several datasets as JSON, with other facts that are known; or the only report."""
    known = {name: value for name, value in others.items() if value is not None}
    print_json({"datasets": documents, **known} if is_list else documents[0])


def write_file(path: str, content: bytes, *, hint: str) -> None:
    """Write a file that the command line names, and that may exist."""
    try:
        with open(path, "wb") as file:
            file.write(content)
    except OSError as error:
        raise StorageError(f"cannot write: {error.strerror}", path=path, hint=hint) from error


# Show what became of a command's input: a line for each reason on standard error.


def show_account(account: Account) -> None:
    """Print what was left out and what failed, a line for each reason; nothing if everything was used."""
    if account.hidden and output_settings().verbosity:
        error_console().print(
            f"not counted: {plural(account.hidden, 'hidden file or folder', 'hidden files and folders')}, index files"
        )
    if account.is_complete:
        return
    console = error_console()
    for fate, entries in (("left out", account.left_out), ("failed", account.failed)):
        for entry in entries:
            console.print(f"{fate}: {escape_controls(_line(entry))}", style="yellow")
    console.print("energon rule CODE explains a code", style="dim")


def _line(entry: AccountEntry) -> str:
    from loader.engine import meanings
    from loader.inspect import format_bytes

    size = f" ({format_bytes(entry.size_bytes)})" if entry.size_bytes else ""
    example = f", first {entry.example}" if entry.count > 1 else f": {entry.example}"
    counted = plural(entry.count, entry.unit.removesuffix("s"))
    return f"{counted}{size}, {meanings()[entry.reason]}{example if entry.example else ''} [{entry.reason}]"


_PROGRAMS = ("ghostty", "Hyper", "iTerm.app", "mintty", "rio", "tabby", "vscode", "WarpTerminal", "WezTerm")
_TERMS = ("alacritty", "contour", "foot", "ghostty", "rio", "wezterm", "xterm-ghostty", "xterm-kitty")
_VARIABLES = ("DOMTERM", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "WT_SESSION")
_MIN_VTE = 5000  # GNOME Terminal and its relatives
_PLACE = re.compile(r"^(  at: )(.+)$", re.MULTILINE)


def supports_links(stream: Any) -> bool:
    """Check whether a stream is a terminal that shows links; ``FORCE_HYPERLINK=1`` or ``0`` overrides what is known.

    Never if the stream is piped, or colours are off.
    """
    if not (is_terminal(stream) and colour_wanted(stream)):
        return False
    forced = os.environ.get("FORCE_HYPERLINK")
    if forced:
        return forced != "0"
    version = os.environ.get("VTE_VERSION", "")
    return (
        os.environ.get("TERM_PROGRAM") in _PROGRAMS
        or os.environ.get("TERM", "").startswith(_TERMS)
        or any(os.environ.get(name) for name in _VARIABLES)
        or (version.isdecimal() and int(version) >= _MIN_VTE)
    )


def file_url(path: str) -> str | None:
    """Return the URL of an existing file or folder, or the URL that a path is; None for others.

    The URL is ASCII without control characters, whatever the path has.
    """
    import socket

    scheme, separator, rest = path.partition("://")
    if separator:
        return f"{scheme}://{quote(rest, safe='/:?=&%')}" if scheme in ("http", "https") else None
    if not os.path.exists(path):
        return None
    return f"file://{quote(socket.gethostname())}{quote(os.fsencode(os.path.abspath(path)))}"


def linked_path(console: Console, path: str) -> Text:
    """Return a path in bold, as a link if the console shows links."""
    from rich.style import Style
    from rich.text import Text

    url = file_url(path) if supports_links(console.file) else None
    return Text(escape_controls(path), style=Style(bold=True, link=url))


def link_places(message: str, escaped: str) -> str:
    """Return the escaped text of a message, whose ``at:`` lines are links to the files that they name."""
    places = [match[2] for match in _PLACE.finditer(message)]
    if len(places) != len(_PLACE.findall(escaped)):
        return escaped
    urls = iter([_place_url(text) for text in places])

    def link(match: re.Match[str]) -> str:
        url = next(urls)
        return match[0] if url is None else f"{match[1]}{_link(url, match[2])}"

    return _PLACE.sub(link, escaped)


def linked_text(text: str, path: str) -> str:
    """Return an escaped text; if standard output shows links, as a link to the longest path that exists."""
    shown = escape_controls(text)
    url = _place_url(os.path.abspath(path)) if "://" not in path and supports_links(sys.stdout) else None
    return shown if url is None else _link(url, shown)


def _link(url: str, text: str) -> str:
    return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\"


def _place_url(place: str) -> str | None:
    """Return the URL of the longest path that a place begins with: ``/data/s.tar, byte 512`` or ``/data/s.tar/key``."""
    try:
        path = place if os.path.exists(place) else place.rpartition(", byte")[0] or place
        while path and not os.path.exists(path):
            path = os.path.dirname(path) if os.path.dirname(path) != path else ""
        return file_url(path) if os.path.isabs(path) and path != "/" else None
    except (OSError, ValueError):  # no path: a null character, or a name that is too long
        return None
