"""Searches, prompts and notes of a walk through samples, and the lines that show a sample."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from loader.errors import escape_controls
from loader.inspect import SampleView

from ....terminal.render import DrawingSpace, render_sample

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


class Notes:
    """Keys of samples, by the dataset that they are from."""

    def __init__(self) -> None:
        self._keys: dict[str | None, dict[str, None]] = {}

    def __contains__(self, sample: SampleView) -> bool:
        return sample.key is not None and sample.key in self._keys.get(sample.origin, {})

    def __len__(self) -> int:
        return sum(map(len, self._keys.values()))

    def toggle(self, sample: SampleView) -> None:
        """Note a sample, or drop the note."""
        if sample.key is None:
            return
        keys = self._keys.setdefault(sample.origin, {})
        if sample.key in keys:
            del keys[sample.key]
        else:
            keys[sample.key] = None

    def lines(self) -> list[str]:
        """Return the lines for ``split.yaml``; a comment before the lines of each dataset names it."""
        lines = []
        for origin, keys in self._keys.items():
            if keys:
                lines += [*([] if origin is None else [f"# {origin}"]), "exclude:"]
                lines += [f"- {key if _PLAIN.fullmatch(key) else json.dumps(key)}" for key in keys]
        return lines


_STEP_S = 0.1


def matches(sample: SampleView, pattern: str) -> bool:
    """Check whether the key or a text of a sample contains a pattern; lower case in it matches both cases."""
    fold = str.lower if pattern == pattern.lower() else str
    key = sample.title.partition("   ")[0]
    return any(pattern in fold(text) for text in (key, *(field.text for field in sample.fields)) if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search that continues from one step to the next, from a sample on, once around the dataset."""

    pattern: str
    total: int
    place: int  # the next sample to read
    step: int  # 1 forward, -1 backward
    left: int  # samples that remain to be read
    found: int | None = None  # the first sample that matches

    @classmethod
    def after(cls, place: int, pattern: str, total: int, *, step: int) -> Search:
        """Return a search that begins after a place, and reads the sample at this place last."""
        return cls(pattern=pattern, total=total, place=(place + step) % total, step=step, left=total)

    @property
    def is_over(self) -> bool:
        """The search has found a sample, or read all of them."""
        return self.found is not None or not self.left

    def advance(self, view: Callable[[int], SampleView]) -> Search:
        """Return the search after a tenth of a second of reading."""
        end = time.monotonic() + _STEP_S
        place, left = self.place, self.left
        while left:
            if matches(view(place), self.pattern):
                return replace(self, place=place, left=left, found=place)
            place = (place + self.step) % self.total
            left -= 1
            if time.monotonic() > end:
                break
        return replace(self, place=place, left=left)


class Prompt:
    """A question and the text typed so far."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.text = ""
        self.is_over = False
        self.is_accepted = False

    def __str__(self) -> str:
        return f"{self.label}: {escape_controls(self.text)}_"

    def press(self, key: str) -> None:
        """Add a character, remove one, accept the text or give it up."""
        if key == "backspace" and self.text:
            self.text = self.text[:-1]
        elif key in ("enter", "backspace", "escape", "end of input"):
            self.is_over = True
            self.is_accepted = key == "enter"
        elif len(key) == 1 and key.isprintable():
            self.text += key


# The lines of one sample on the screen.


class Frame(NamedTuple):
    """A sample, without its fields, and the lines that show it, with control sequences."""

    sample: SampleView
    lines: list[str]


class FrameRenderer:
    """Renders samples for one size of the screen."""

    def __init__(self, console: Console, space: DrawingSpace, view: Callable[[int], SampleView]) -> None:
        from rich.console import Console

        self._space = space
        self._view = view
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            width=space.columns,
            height=space.rows,
            color_system=console.color_system,  # type: ignore[arg-type] # a name that rich itself returned
            no_color=console.no_color,
            markup=False,
            highlight=False,
            emoji=False,
        )

    def render(self, place: int) -> Frame:
        """Read and render the sample at a place."""
        sample = self._view(place)
        with self._console.capture() as capture:
            self._console.print(*render_sample(sample, self._space), sep="\n")
        return Frame(replace(sample, fields=()), capture.get().removesuffix("\n").split("\n"))
