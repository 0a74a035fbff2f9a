"""Walk through samples by keys."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from loader.errors import escape_controls
from loader.inspect import SampleView

from .ahead import AheadWorker
from .keys import Keyboard
from .notes import Notes
from .raw_mode import RawMode
from .render import terminal_space
from .screen import Screen
from .walk import Walk

if TYPE_CHECKING:
    from rich.console import Console


def page_through(
    console: Console,
    total: int,
    view: Callable[[int], SampleView],
    quick_view: Callable[[int], SampleView],
    *,
    start: int = 0,
    images: bool | None = None,
) -> None:
    """Show samples of a dataset as keys are pressed, until the user quits.

    Args:
        console: A terminal; its input is standard input.
        total: Number of samples.
        view: Reads and describes a sample. It is called by one thread, which is not the caller's.
        quick_view: The same without decoding, to search and for thumbnails.
        start: First sample to show.
        images: Draw pictures; None: if the terminal can.
    """
    notes = Notes()
    screen = Screen(console)
    keyboard = Keyboard(sys.stdin.fileno())
    changed = _Flag(keyboard.wake)
    worker = AheadWorker(keyboard.wake)
    try:
        with RawMode(sys.stdin.fileno(), on_enter=screen.enter, on_leave=screen.leave, on_change=changed.set):
            space = terminal_space(console, images=images, keyboard=keyboard)
            walk = Walk(
                console=console,
                screen=screen,
                keyboard=keyboard,
                worker=worker,
                notes=notes,
                space=space,
                total=total,
                view=view,
                quick_view=quick_view,
                start=start,
            )
            walk.run(changed.take)
    finally:
        keyboard.close()
        worker.close()
        for line in notes.lines():
            console.print(escape_controls(line))


class _Flag:
    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self._wake()

    def take(self) -> bool:
        was, self._is_set = self._is_set, False
        return was
