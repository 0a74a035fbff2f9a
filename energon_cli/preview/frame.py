"""The lines of one sample on the screen."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from loader.inspect import SampleView

from .render import DrawingSpace, render_sample

if TYPE_CHECKING:
    from rich.console import Console


class Frame(NamedTuple):
    """A sample, and the lines that show it.

    Attributes:
        sample: The sample, without its fields.
        lines: Lines with control sequences.
    """

    sample: SampleView
    lines: list[str]


class FrameRenderer:
    """Renders samples for one size of the screen.

    Args:
        console: The terminal.
        space: Its size and abilities.
        view: Reads and describes a sample.
    """

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
