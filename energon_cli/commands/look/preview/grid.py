"""A grid of thumbnails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loader.errors import escape_controls
from loader.inspect import SampleView
from loader.samples import PictureError

from ....ascii_text import in_ascii
from ....terminal.drawing import Drawing
from ....terminal.render import DrawingSpace, draw_in

if TYPE_CHECKING:
    from .ahead import AheadWorker, Job
    from .screen import Screen
    from .search import Notes

_WIDTH, _HEIGHT = 20, 8  # of a tile in cells, with a gap at the right and the key below


@dataclass(frozen=True, slots=True)
class Tile:
    """One sample in the grid.

    Attributes:
        sample: The sample, without its fields.
        drawing: Its first picture, or the beginning of its texts.
    """

    sample: SampleView
    drawing: Drawing


def make_tile(sample: SampleView, space: DrawingSpace) -> Tile:
    """Draw the first picture of a sample, or its texts if it has none."""
    columns, rows = _WIDTH - 2, _HEIGHT - 1
    drawing = None
    fault = sample.fault
    for picture in (picture for field in sample.fields for picture in field.pictures if space.pictures):
        try:
            drawing = draw_in(picture, columns, rows, space)
            break
        except PictureError as error:
            fault = fault or str(error)
    texts = [fault] if fault else [field.text or field.facts for field in sample.fields]
    return Tile(replace(sample, fields=()), drawing or Drawing(columns, _text_rows(texts, columns, rows, space)))


def _text_rows(texts: Sequence[str], columns: int, rows: int, space: DrawingSpace) -> list[str]:
    from rich.cells import chop_cells, set_cell_size

    lines: list[str] = []
    for text in texts:
        safe = escape_controls(text[: columns * rows])
        lines += chop_cells(in_ascii(safe) if space.terminal.ascii_only else safe, columns)
    return [set_cell_size(line, columns) for line in lines[:rows]] or [" " * columns]


class Grid:
    """A page of tiles on the screen; only what changes is drawn.

    Args:
        screen: The screen.
        worker: Makes the tiles.
        notes: The noted samples, which are marked.
        total: Number of samples.
        make: Makes the tile of a sample.
        version: Tiles of another version, for another size of the screen, are not reused.
    """

    def __init__(
        self,
        screen: Screen,
        worker: AheadWorker,
        notes: Notes,
        *,
        total: int,
        make: Callable[[int], Tile],
        version: int,
    ) -> None:
        self._version = version
        self._screen, self._worker, self._total, self._make, self._notes = screen, worker, total, make, notes
        self.across = max(1, screen.columns // _WIDTH)
        self._down = max(1, (screen.rows - 1) // (_HEIGHT + 1))
        self._page = -1
        self._labels: dict[int, str] = {}

    @property
    def size(self) -> int:
        """Number of tiles on a page."""
        return self.across * self._down

    def jobs(self, place: int) -> list[Job]:
        """Return the tiles to make: the page of a place, then the next one."""
        start = place // self.size * self.size
        places = range(start, min(self._total, start + 2 * self.size))
        return [(("tile", number, self._version), lambda number=number: self._make(number)) for number in places]  # type: ignore[misc]

    def tile(self, place: int) -> Tile | None:
        """Return the tile of a sample, if it is made."""
        return self._worker.get(("tile", place, self._version))

    def draw(self, selected: int) -> bool:
        """Draw what is new; return True if a page was begun."""
        page = selected // self.size
        is_new = page != self._page
        if is_new:
            self._screen.clear()
            self._page, self._labels = page, {}
        for number in range(self.size):
            place = page * self.size + number
            tile = self.tile(place) if place < self._total else None
            if tile is None:
                continue
            row = 1 + number // self.across * (_HEIGHT + 1)
            column = 1 + number % self.across * _WIDTH
            text = ""
            if place not in self._labels:
                for offset, line in enumerate(tile.drawing.rows[: self._screen.rows - 1 - row]):
                    text += f"\x1b[{row + offset};{column}H{line}{tile.drawing.row(offset)}"
            label = self._label(tile.sample, is_selected=place == selected)
            if self._labels.get(place) != label:
                self._labels[place] = label
                text += f"\x1b[{min(row + _HEIGHT - 1, self._screen.rows - 1)};{column}H{label}"
            if text:
                self._screen.write(text)
        return is_new

    def _label(self, sample: SampleView, *, is_selected: bool) -> str:
        from rich.cells import set_cell_size

        name = in_ascii(escape_controls(sample.title.partition("   ")[0].rpartition("/")[2]))
        mark = "x " if sample in self._notes else ""
        text = set_cell_size(f"{mark}{name[-(_WIDTH - 2 - len(mark)) :]}", _WIDTH - 2)
        return f"\x1b[0;7m{text}\x1b[0m" if is_selected else f"\x1b[0m{text}"
