"""Page through samples by keys: Enter or → next, ← back, q quit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from .render import discard_input

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["KEYS_HELP", "page_through", "read_key", "split_keys"]

KEYS_HELP = "Enter/→ next · ← back · q quit"

_KEY = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO.|\x1b.|.", re.DOTALL)
_NEXT = frozenset(("\r", "\n", " ", "n", "l", "j", "\x1b[C", "\x1bOC", "\x1b[B", "\x1bOB"))
_BACK = frozenset(("b", "p", "h", "k", "\x7f", "\b", "\x1b[D", "\x1bOD", "\x1b[A", "\x1bOA"))
_QUIT = frozenset(("q", "Q", "\x1b", "\x04"))


def split_keys(text: str) -> list[str]:
    r"""Split the input of a terminal into keys; an escape sequence is one key.

    >>> split_keys("n\x1b[Cq")
    ['n', '\x1b[C', 'q']
    """
    return _KEY.findall(text)


def read_key() -> Iterator[str]:
    """Yield the keys pressed until the input ends.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    while True:
        try:
            text = click.getchar()
        except EOFError:
            return
        yield from split_keys(text)


def page_through(
    console: Console,
    count: int,
    render: Callable[[int], list[RenderableType]],
    *,
    start: int = 0,
    keys: Callable[[], Iterator[str]] = read_key,
) -> None:
    """Show one item at a time until the user quits.

    Args:
        console: A terminal.
        count: Number of items.
        render: Returns the renderables of item ``i``.
        start: First item to show.
        keys: Source of keys.
    """
    from rich.text import Text

    footer = Text(KEYS_HELP, style="reverse")
    place = start
    shown = -1
    pressed = keys()
    while True:
        if place != shown:
            items = render(place)
            console.clear()
            console.print(*items, sep="\n")
            if shown < 0:
                discard_input()  # keys typed before the footer is shown do not count
            console.print(footer)
            shown = place
        key = next(pressed, "q")
        if key in _QUIT:
            return
        if key in _NEXT:
            place = min(place + 1, count - 1)
        elif key in _BACK:
            place = max(place - 1, 0)
