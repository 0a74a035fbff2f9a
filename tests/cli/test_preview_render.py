"""Pictures and texts in the space of a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from PIL import Image

from energon_cli.preview.render import DrawingSpace, fit_cells, half_blocks
from loader.inspect import describe_part, describe_value
from tests.unit.inspect.test_fields import draw, encode, photograph


def test_long_texts_are_cut_and_say_so() -> None:
    text = draw(describe_value("caption", "word " * 2000), colour=False)
    assert "(10,000 characters in all)" in text
    assert len(text.splitlines()) <= 24


def test_text_of_wide_characters_fits_the_screen() -> None:
    from rich.cells import cell_len

    text = draw(describe_value("caption", "漢字" * 100), colour=False)
    assert all(cell_len(line) <= 80 for line in text.splitlines())


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 300), st.integers(1, 100))
def test_a_picture_fits_its_box_and_takes_a_cell_at_least(width: int, height: int, columns: int, rows: int) -> None:
    across, down = fit_cells(width, height, columns, rows)
    assert 1 <= across <= columns
    assert 1 <= down <= rows


def test_half_blocks_have_the_size_asked_for() -> None:
    segments = list(half_blocks(photograph(), 7, 3))
    assert sum(segment.text == "▀" for segment in segments) == 21
    assert sum(segment.text == "\n" for segment in segments) == 3


def test_no_picture_where_none_is_wanted() -> None:
    view = describe_part("jpg", encode(photograph(), "JPEG"))
    assert "▀" not in draw(view, space=DrawingSpace(columns=80, rows=24, pictures=False))


@pytest.mark.parametrize("name", ["SixelImage", "TGPImage", "UnicodeImage", "HalfcellImage"])
@pytest.mark.parametrize("size", [(1, 1), (900, 1), (1, 900), (64, 48)])
def test_every_way_of_drawing_can_draw_every_picture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, size: tuple[int, int]
) -> None:
    from textual_image import renderable

    import energon_cli.preview.render

    monkeypatch.setattr(energon_cli.preview.render, "best_renderable", lambda *, colour: getattr(renderable, name))
    draw(describe_part("png", encode(Image.new("L", size))))


def test_a_failure_while_drawing_falls_back_to_half_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    import energon_cli.preview.render

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(energon_cli.preview.render, "best_renderable", lambda *, colour: broken)
    assert "▀" in draw(describe_part("png", encode(photograph())))
