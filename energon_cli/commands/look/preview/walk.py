"""The state of a walk through samples: what each key changes, and what the screen shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from loader.errors import escape_controls, plural
from loader.inspect import SampleView

from ....terminal.keys import Keyboard, RawMode
from ....terminal.render import DrawingSpace, terminal_space
from .grid import Grid, Screen, make_tile
from .search import AheadWorker, Frame, Job, NotedKeys, Prompt, Search, frame_renderer

if TYPE_CHECKING:
    from rich.console import Console

KEYS_HELP = "Enter/→ next · ← back · q quit · ? help · / search · t thumbnails"  # the last are left out first
GRID_HELP = "arrows move · Enter opens · x notes · q returns"

_MEANINGS = (
    ("Enter  →  Space", "next sample"),
    ("←  Backspace", "previous sample"),
    ("↓  ↑", "scroll a long sample; otherwise next, previous"),
    ("PgDn  PgUp", "10 samples forward, back; in the grid: a page"),
    ("Home  End", "first, last sample"),
    ("g", "go to a sample by its number, counted from 0"),
    ("/", "search keys and texts; lower case matches both cases"),
    ("n  N", "next, previous match"),
    ("t", "grid of thumbnails: arrows move, Enter opens"),
    ("x", "note for exclusion, or drop the note; keys are printed at the end"),
    ("?", "this page"),
    ("q  Esc", "quit; in the grid: return to the sample"),
)

STEPS = {
    **dict.fromkeys(("enter", " ", "right", "l"), 1),
    **dict.fromkeys(("left", "backspace", "h", "b", "p"), -1),
    "page down": 10,
    "page up": -10,
}
LINES = {"down": 1, "j": 1, "up": -1, "k": -1}
QUIT = ("q", "Q", "escape", "end of input")


_AHEAD = 4  # samples
# A shorter wait needs no message, which would flicker.
_SLOW_S = 0.3


class Walk:
    """The state of a walk: the sample, the grid if it is open, the line that is typed, the search that runs.

    Args:
        console: A terminal; its input is standard input.
        total: Number of samples.
        view: Reads and describes a sample. It is called by one thread, which is not the caller's.
        quick_view: The same without decoding, to search and for thumbnails.
        start: First sample to show.
    """

    def __init__(
        self,
        console: Console,
        total: int,
        view: Callable[[int], SampleView],
        quick_view: Callable[[int], SampleView],
        *,
        start: int = 0,
    ) -> None:
        self._console, self._screen, self._notes = console, Screen(console), NotedKeys()
        self._keyboard = Keyboard(sys.stdin.fileno())
        self._worker = AheadWorker(self._keyboard.wake)
        self._total, self._view, self._quick_view = total, view, quick_view
        self._place, self._direction, self._first_line = start, 1, 0
        self._shown: object = None  # what is on the screen: the sample and its first line
        self._grid: Grid | None = None
        self._prompt: Prompt | None = None
        self._search: Search | None = None
        self._pattern = ""
        self._message = ""
        self._more_lines = 0
        self._has_help = False
        self._is_over = False
        self._sizes = 0  # how often the size of the screen was read
        self._has_changed = False  # the terminal got another size, or the program continued

    def _fit(self, space: DrawingSpace) -> None:
        self._screen.measure()
        self._space = replace(space, columns=self._screen.columns, rows=max(1, self._screen.rows - 1))
        self._screen.space = self._space
        self._sizes += 1
        self._shown = None
        self._frames = frame_renderer(self._console, self._space, self._view)
        if self._grid is not None:
            self._open_grid()

    # -------------------------------------------------------------------------------------------------- the loop

    def run(self, *, images: bool | None = None) -> None:
        """Act on keys until the user quits, and print the noted samples."""
        try:
            with RawMode(
                sys.stdin.fileno(), on_enter=self._screen.enter, on_leave=self._screen.leave, on_change=self._change
            ):
                self._fit(terminal_space(self._console, images=images, keyboard=self._keyboard))
                while not self._is_over:
                    self._turn()
        finally:
            self._keyboard.close()
            self._worker.close()
            for line in self._notes.lines():
                self._console.print(escape_controls(line))

    def _change(self) -> None:
        self._has_changed = True
        self._keyboard.wake()

    def _turn(self) -> None:
        if self._has_changed:
            self._has_changed = False
            self._fit(self._space)
        self._worker.want(self._jobs())
        is_ready = self._draw()
        may_act = is_ready or self._search is not None or self._keyboard.has_any(QUIT)
        key = self._keyboard.pop() if may_act else None
        if key is None:
            self._wait(is_ready=is_ready)
        while key is not None:  # all keys that have arrived, so that the screen never lags behind them
            self._press(key)
            key = self._keyboard.pop() if not self._is_over and self._search is None else None

    def _wait(self, *, is_ready: bool) -> None:
        self._keyboard.wait(None if is_ready else _SLOW_S)
        self._keyboard.answers.clear()  # of a slow terminal
        if not is_ready and self._grid is None and self._worker.get(self._name(self._place)) is None:
            self._screen.show_footer(f"decoding sample {self._place:,}…")

    def _name(self, index: int) -> tuple[str, int, int]:
        return ("sample", index, self._sizes)

    def _jobs(self) -> list[Job]:
        if self._search is not None:
            search = self._search
            return [(search, lambda: search.advance(self._quick_view))]
        if self._grid is not None:
            return self._grid.jobs(self._place)
        places = [self._place + self._direction * step for step in range(_AHEAD + 1)]
        places.append(self._place - self._direction)
        frames = self._frames
        return [
            (self._name(place), lambda place=place: frames(place))  # type: ignore[misc]
            for place in places
            if 0 <= place < self._total
        ]

    # ---------------------------------------------------------------------------------------------------- drawing

    def _draw(self) -> bool:
        """Draw what has changed; return False if a sample or search is waited for."""
        if self._search is not None:
            return self._continue_search(self._search) and self._draw()
        if self._has_help:
            self._show(help_lines(), "any key returns", name="help")
            return True
        if self._grid is not None:
            if self._grid.draw(self._place) or self._shown != self._footer():
                self._shown = self._footer()
                self._screen.show_footer(self._footer())
            return True
        frame = self._worker.get(self._name(self._place))
        if frame is None:
            return False
        self._first_line = max(0, min(self._first_line, len(frame[1]) - self._screen.rows + 1))
        self._show(frame[1], self._footer(), name=self._name(self._place), first=self._first_line)
        return True

    def _show(self, lines: list[str], footer: str, *, name: object, first: int = 0) -> None:
        if self._shown == (name, first, footer):
            return
        if isinstance(self._shown, tuple) and self._shown[:2] == (name, first):
            self._screen.show_footer(footer)
        else:
            self._more_lines = self._screen.show(lines, footer, first=first)
            if name != "help" and self._footer() != footer:  # more lines below, or none any more
                footer = self._footer()
                self._screen.show_footer(footer)
        self._shown = (name, first, footer)

    def _footer(self) -> str:
        if self._prompt is not None:
            return str(self._prompt)
        if self._message:
            return self._message
        sample = self._sample()
        parts = [KEYS_HELP if self._grid is None else GRID_HELP]
        if sample is not None and sample in self._notes:
            parts.insert(0, "noted")
        elif len(self._notes):
            parts.append(f"{len(self._notes)} noted")
        if self._more_lines and self._grid is None:
            parts.insert(0, f"↓ {plural(self._more_lines, 'more line')}")
        return " · ".join(parts)

    def _sample(self) -> SampleView | None:
        if self._grid is not None:
            tile = self._grid.tile(self._place)
            return None if tile is None else tile[0]
        frame: Frame | None = self._worker.get(self._name(self._place))
        return None if frame is None else frame[0]

    # ------------------------------------------------------------------------------------------------------- keys

    def _press(self, key: str) -> None:
        if self._search is not None:
            self._search, self._message = None, "search stopped"
        elif self._prompt is not None:
            self._type(key, self._prompt)
        elif self._has_help:
            self._has_help, self._shown = False, None
        elif self._grid is not None and key in (*QUIT[:3], "t", "enter"):
            self._grid, self._shown = None, None
        else:
            self._message = ""
            self._command(key)

    def _command(self, key: str) -> None:
        step = self._step(key)
        if key in QUIT:
            self._is_over = True
        elif step:
            self._go(self._place + step)
        elif key == "home":
            self._go(0)
        elif key == "end":
            self._go(self._total - 1)
        elif key in ("g", "/"):
            self._prompt = Prompt("search" if key == "/" else "go to sample")
        elif key in ("n", "N"):
            self._find(1 if key == "n" else -1)
        elif key == "x":
            self._note()
        elif key == "t" and not self._screen.is_dumb:
            self._open_grid()
        elif key == "?":
            self._has_help = True

    def _step(self, key: str) -> int:
        """Return the number of samples that a key moves; 0 if it moves none, or scrolls."""
        if self._grid is not None:
            steps = {**STEPS, "page down": self._grid.size, "page up": -self._grid.size}
            return steps.get(key) or LINES.get(key, 0) * self._grid.across
        line = LINES.get(key, 0)
        if (line > 0 and self._more_lines) or (line < 0 and self._first_line):
            self._first_line += line
            return 0
        return STEPS.get(key, 0) or line

    def _go(self, index: int) -> None:
        index = max(0, min(index, self._total - 1))
        if index != self._place:
            self._direction = 1 if index > self._place else -1
            self._place, self._first_line, self._more_lines = index, 0, 0

    def _type(self, key: str, prompt: Prompt) -> None:
        prompt.press(key)
        if prompt.is_over:
            self._prompt = None
        if prompt.is_accepted:
            self._accept(prompt.label, prompt.text)

    def _accept(self, label: str, text: str) -> None:
        if label == "search":
            self._pattern = text or self._pattern
            self._find(1)
            return
        digits = text.strip().replace(",", "").replace("_", "")
        if digits.isascii() and digits.isdigit() and int(digits) < self._total:
            self._go(int(digits))
        elif text:
            self._message = f"expected a number from 0 to {self._total - 1:,}, not {escape_controls(text)!r}"

    def _note(self) -> None:
        sample = self._sample()
        if sample is not None and sample.key is None:
            self._message = "this sample has no key that split.yaml can exclude"
        elif sample is not None:
            self._notes.toggle(sample)

    def _open_grid(self) -> None:
        sizes, space = self._sizes, self._space
        make = lambda index: make_tile(self._quick_view(index), space)  # noqa: E731
        self._grid = Grid(self._screen, self._worker, self._notes, total=self._total, make=make, version=sizes)
        self._shown = None

    # ----------------------------------------------------------------------------------------------------- search

    def _find(self, step: int) -> None:
        if self._pattern:
            self._search = Search.after(self._place, self._pattern, self._total, step=step)
        else:
            self._message = "press / to search first"

    def _continue_search(self, search: Search) -> bool:
        """Act on the result of the last step of a search, if there is one; return True if the search is over."""
        done = self._worker.get(search)
        if done is None:
            return False
        if not done.is_over:
            self._search = done
            self._screen.show_footer(
                f"searching: {done.total - done.left:,} of {plural(done.total, 'sample')} read · any key stops"
            )
            self._worker.want(self._jobs())
            return False
        self._search = None
        if done.found is None:
            self._message = f"no key or text contains {escape_controls(done.pattern)!r}"
        else:
            self._go(done.found)
        self._worker.want(self._jobs())
        return True


def help_lines() -> list[str]:
    """Return a table of the keys."""
    wide = max(len(keys) for keys, _ in _MEANINGS)
    return [f"  {keys:<{wide}}  {meaning}" for keys, meaning in _MEANINGS]
