"""The keys of a walk through samples, and what they do."""

from __future__ import annotations

KEYS_HELP = "Enter/→ next · ← back · t thumbnails · / search · ? help · q quit"
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


def help_lines() -> list[str]:
    """Return a table of the keys."""
    wide = max(len(keys) for keys, _ in _MEANINGS)
    return [f"  {keys:<{wide}}  {meaning}" for keys, meaning in _MEANINGS]
