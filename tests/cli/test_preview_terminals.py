"""Pictures in terminals of different abilities, whose answers are played at the other end of a pseudo-terminal."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from PIL import Image

from energon_cli.commands.look.preview.walk import KEYS_HELP
from energon_cli.terminal.drawing import encode_sixel
from energon_cli.terminal.keys import read_answers
from tests.cli.terminal import KITTY_ANSWERS, LATIN_ANSWERS, RIGHT, SIXEL_ANSWERS, TEXT_ANSWERS, TerminalRun
from tests.unit.inspect.test_fields import photograph


def test_kitty_draws_by_placement_not_by_placeholders(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", answers=KITTY_ANSWERS) as run:
        run.wait_for(KEYS_HELP)
        assert "\U0010eeee" not in run.raw
        assert "▀" not in run.text
        [options, data] = re.findall("\x1b_G(a=T[^;]*);([^\x1b]*)", run.raw)[0]
        assert options == "a=T,f=100,q=2,C=1,c=24,r=8,m=0"
        assert Image.open(io.BytesIO(base64.b64decode(data))).size == (24, 16)
        run.press(RIGHT).wait_for("sample 1 of 12")
        assert "\x1b_Ga=d,d=A,q=2\x1b\\" in run.raw.rpartition("\x1b_Ga=T")[0], "the first picture is deleted"
        assert run.press("q").finish() == 0


def test_a_sixel_terminal_gets_sixel(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", answers=SIXEL_ANSWERS) as run:
        run.wait_for(KEYS_HELP)
        assert "\x1bP0;1;0q" in run.raw
        assert "▀" not in run.text
        assert run.press("q").finish() == 0


@pytest.mark.parametrize(
    ("environment", "answers"),
    [
        ({"LC_ALL": "C"}, TEXT_ANSWERS),
        ({"LC_ALL": "", "LC_CTYPE": "", "LANG": "C"}, TEXT_ANSWERS),
        ({"TERM": "linux"}, None),
        ({"TERM": "dumb"}, None),
        ({"PYTHONIOENCODING": "latin-1"}, TEXT_ANSWERS),
        ({"LC_ALL": "C.UTF-8"}, LATIN_ANSWERS),
    ],
)
@pytest.mark.sampled(8)
def test_an_ascii_terminal_gets_ascii(prepared: Path, environment: dict[str, str], answers: str | None) -> None:
    with TerminalRun("preview", prepared, "--crude", environment=environment, answers=answers) as run:
        run.wait_for("q quit")
        shown = run.raw.rpartition("\x1b[c")[2]
        assert shown.isascii()
        assert "JPEG 24x16 RGB" in run.text
        assert run.press("q").finish() == 0


def test_printed_samples_are_drawn_alike(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", "-n", 1, answers=KITTY_ANSWERS) as run:
        assert run.finish() == 0
        assert "\x1b_Ga=T" in run.raw


@pytest.mark.parametrize(
    "answers", [["\x1b[6;0;0t", "\x1b[?62;4c"], ["\x1b[?4c"], ["\x1b_Gi=31;ENOTSUPPORTED\x1b\\"], []]
)
def test_odd_answers_give_a_usable_terminal(answers: list[str]) -> None:
    assert min(read_answers(answers).cell) > 0
    assert read_answers(answers).method in ("sixel", "blocks")


# ------------------------------------------------------------------------------------------------------------ sixel


def decode_sixel(text: str) -> npt.NDArray[np.uint8]:
    """Decode the pixels of a Sixel picture, (height, width, 3); those that it does not draw are magenta."""
    found = re.fullmatch(r'\x1bP0;1;0q"1;1;(\d+);(\d+)(.*)\x1b\\', text, flags=re.DOTALL)
    assert found is not None
    width, height = int(found[1]), int(found[2])
    pixels = np.full((height + 6, width, 3), (255, 0, 255), np.uint8)
    colours: dict[int, tuple[int, ...]] = {}
    x = y = colour = 0
    for token in re.finditer(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)(.)|(.)", found[3]):
        if token[1]:
            colour = int(token[1])
            if token[2]:
                colours[colour] = tuple(round(int(part) * 2.55) for part in token.groups()[1:4])
            continue
        character = token[6] or token[7]
        if character in "$-":
            x, y = 0, y + 6 * (character == "-")
            continue
        count = int(token[5] or 1)
        for bit in range(6):
            if ord(character) - 63 >> bit & 1:
                pixels[y + bit, x : x + count] = colours[colour]
        x += count
    assert (pixels[height:] == (255, 0, 255)).all(), "nothing is drawn below the picture"
    return pixels[:height]


@given(st.integers(1, 40), st.integers(1, 20))
def test_sixel_shows_every_pixel(width: int, height: int) -> None:
    image = photograph(width, height)
    shown = decode_sixel(encode_sixel(image))
    assert not (shown == (255, 0, 255)).all(axis=2).any()
    assert np.abs(shown.astype(int).mean((0, 1)) - np.asarray(image).mean((0, 1))).max() < 40


def test_long_runs_and_empty_bands_are_exact() -> None:
    pixels = np.zeros((40, 700, 3), np.uint8)
    pixels[20:, 600:] = 255
    pixels[3, 5] = 255
    assert np.abs(decode_sixel(encode_sixel(Image.fromarray(pixels))).astype(int) - pixels).max() <= 6
