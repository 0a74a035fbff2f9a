"""Show samples and batches as pages of HTML, in cells of notebooks: values as text, and pictures as small ones."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor

from ..errors import escape_controls
from .picture import Picture, PictureError, array_picture, encoded_picture, shrink_to_rgb
from .sample_format import shown_values

MAX_PAGE_BYTES = 200_000
"""Largest page: notebooks keep the page of each cell in their file."""

_PICTURE_PIXELS = 160  # of the longer side
_MIN_PIXELS = 8  # of a side: smaller arrays are rather numbers than pictures
_MAX_PICTURES = 8  # of a value
_CHANNELS = (1, 3, 4)
_TABLE = "border-collapse:collapse;text-align:left"
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
_TEXT = "margin:0;white-space:pre-wrap;overflow-wrap:anywhere"


class Page:
    """The pieces of a page that does not outgrow its limit; what does not fit is omitted."""

    def __init__(self, max_bytes: int = MAX_PAGE_BYTES) -> None:
        self._pieces: list[str] = []
        self._left = max_bytes - 100  # for the end of the page
        self.is_full = False

    def add(self, piece: str) -> bool:
        """Add a piece with all its tags closed; return False if it does not fit."""
        size_bytes = len(piece.encode())
        if size_bytes > self._left:
            self.is_full = True
            return False
        self._left -= size_bytes
        self._pieces.append(piece)
        return True

    def add_table(self, rows: Iterable[Sequence[str]]) -> None:
        """Add a table; the first of the forms of each row that fits is taken."""
        end = "</table>"
        self._left -= len(end)
        if self.add(f"<table style='{_TABLE}'>"):
            for forms in rows:
                any(self.add(form) for form in forms)
            self._pieces.append(end)

    def text(self) -> str:
        """Return the page, which says whether something was omitted."""
        end = "<p>… the rest is omitted: a cell holds 200 KB</p>" if self.is_full else ""
        return f"<div>{''.join(self._pieces)}{end}</div>"


def escaped(text: str) -> str:
    """Return text that a browser shows as it is, with control characters escaped."""
    return html.escape(escape_controls(text, keep="\n\t").encode("utf-8", "replace").decode())


def sample_html(sample: Any) -> str:
    """Return a page that shows a sample or batch: a row for each value, with its pictures."""
    page = Page()
    add_sample(page, sample, title=type(sample).__name__)
    return page.text()


def add_sample(page: Page, sample: Any, *, title: str) -> None:
    """Add a table with the values of a sample to a page."""
    page.add(f"<p style='margin:8px 0 2px'><b>{escaped(title)}</b></p>")
    page.add_table(_row_forms(name, value, text) for name, value, text in shown_values(sample))


def _row_forms(name: str, value: Any, text: str) -> tuple[str, str]:
    """Return the row of a value with its pictures, and without."""
    begin = f"<tr><th style='{_CELL}'>{escaped(name)}</th><td style='{_CELL}'>"
    row = f"{begin}<pre style='{_TEXT}'>{escaped(text)}</pre>"
    return f"{row}{''.join(_image_tags(value))}</td></tr>", f"{row}</td></tr>"


def _image_tags(value: Any) -> Iterator[str]:
    for picture in islice(_pictures(value), _MAX_PICTURES):
        with suppress(PictureError):
            data = io.BytesIO()
            picture.load(_PICTURE_PIXELS).save(data, "JPEG", quality=80)
            yield f"<img src='data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}' style='margin:2px'>"


def _pictures(value: Any) -> Iterator[Picture]:
    if isinstance(value, Tensor | np.ndarray):
        shape = tuple(value.shape)
        if len(shape) == 4:
            for each in value[:_MAX_PICTURES]:
                yield from _pictures(each)
        elif len(shape) == 3 and _is_image(shape) and (picture := array_picture(value)) is not None:
            yield picture
    elif isinstance(value, bytes):
        with suppress(PictureError):
            yield encoded_picture(value)
    elif isinstance(value, list | tuple):
        for each in value[:_MAX_PICTURES]:
            if isinstance(each, Tensor | np.ndarray | bytes) or hasattr(each, "getbands"):
                yield from _pictures(each)
    elif hasattr(value, "getbands"):  # an image of Pillow
        yield Picture(width=value.width, height=value.height, load=lambda side: shrink_to_rgb(value.copy(), side))


def _is_image(shape: tuple[int, ...]) -> bool:
    sides = shape[1:] if shape[0] in _CHANNELS else shape[:2] if shape[2] in _CHANNELS else ()
    return bool(sides) and min(sides) >= _MIN_PIXELS
