"""Links (OSC 8) from paths in messages and lists to files, in terminals that support them."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from loader.errors import escape_controls

from .console import colour_wanted, is_terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

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
    """Return a message whose ``at:`` lines are links to the files that they name.

    Args:
        message: The message as the error has it.
        escaped: The same lines, with control characters escaped.
    """
    places = [found[2] for found in _PLACE.finditer(message)]
    if len(places) != len(_PLACE.findall(escaped)):
        return escaped
    urls = iter([_place_url(place) for place in places])

    def link(found: re.Match[str]) -> str:
        url = next(urls)
        return found[0] if url is None else f"{found[1]}{_link(url, found[2])}"

    return _PLACE.sub(link, escaped)


def linked_text(text: str, path: str) -> str:
    """Return a text with control characters escaped, as a link if standard output shows links.

    Args:
        text: The text, such as a key.
        path: The file or folder, or the place of a sample in a shard: the longest path that exists is linked.
    """
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
