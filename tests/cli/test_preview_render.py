"""Pictures and texts in the space of a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from PIL import Image

from energon_cli.terminal.drawing import draw_picture, fit_cells, half_blocks
from energon_cli.terminal.keys import PictureMethod, Terminal
from energon_cli.terminal.render import DrawingSpace, draw_in
from loader.inspect import describe_part, describe_value
from tests.unit.inspect.test_fields import draw, encode, photograph


def test_long_texts_are_cut_and_say_so() -> None:
    text = draw(describe_value("caption", "word " * 2000), colour=False)
    assert "… (cut)" in text
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
    rows = half_blocks(photograph(), 7, 3)
    assert [row.count("▀") for row in rows] == [7, 7, 7]


def test_half_blocks_of_a_palette_use_the_nearest_colour() -> None:
    [row] = half_blocks(Image.new("RGB", (1, 2), (255, 100, 0)), 1, 1, truecolour=False)
    assert row == "\x1b[38;5;202;48;5;202m▀\x1b[0m"


def test_no_picture_where_none_is_wanted() -> None:
    view = describe_part("jpg", encode(photograph(), "JPEG"))
    assert "▀" not in draw(view, space=DrawingSpace(columns=80, rows=24, pictures=False))


@pytest.mark.parametrize("method", ["kitty", "sixel", "blocks", "shades"])
@pytest.mark.parametrize("size", [(1, 1), (900, 1), (1, 900), (64, 48)])
def test_every_way_of_drawing_can_draw_every_picture(method: PictureMethod, size: tuple[int, int]) -> None:
    space = DrawingSpace(columns=80, rows=24, pictures=True, terminal=Terminal(method=method))
    view = describe_part("png", encode(Image.new("L", size, 255)))
    assert {"kitty": "\x1b_G", "sixel": "\x1bP", "blocks": "▀", "shades": "█"}[method] in draw(view, space=space)


@pytest.mark.parametrize(("method", "longest"), [("kitty", 800), ("sixel", 640)])
def test_a_picture_has_no_more_pixels_than_are_quickly_shown(method: PictureMethod, longest: int) -> None:
    terminal = Terminal(method=method, cell=(20, 40))
    space = DrawingSpace(columns=200, rows=60, pictures=True, terminal=terminal)
    [picture] = describe_part("png", encode(Image.new("RGB", (2000, 1000)))).pictures
    loaded: list[int] = []

    def load(pixels: int) -> Image.Image:
        loaded.append(pixels)
        return picture.load(pixels)

    drawing = draw_in(replace(picture, load=load), 200, 60, space)
    assert loaded == [longest]
    assert drawing.width == (200 if method == "kitty" else longest // 20)  # Kitty enlarges the picture itself


@pytest.mark.parametrize("method", ["kitty", "sixel", "blocks", "shades"])
def test_a_picture_takes_whole_rows_of_the_screen(method: PictureMethod) -> None:
    drawing = draw_picture(photograph(), 30, 10, method=method)
    assert [len(row) for row in drawing.rows] == [30] * 10
    assert [bool(drawing.row(number)) for number in range(10)] == {
        "blocks": [True] * 10,
        "shades": [False] * 10,
    }.get(method, [False] * 9 + [True]), "graphics follow the last row, when the screen has scrolled"


def test_without_colour_pictures_are_shades() -> None:
    space = DrawingSpace(columns=80, rows=24, pictures=True, colour=False, terminal=Terminal(method="kitty"))
    assert "\x1b_G" not in draw(describe_part("png", encode(photograph())), space=space)
