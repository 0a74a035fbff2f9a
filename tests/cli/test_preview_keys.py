"""``energon preview`` on a terminal: keys and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from energon_cli.preview.pager import KEYS_HELP, split_keys
from tests.cli.make_dataset import caption_parts, write_captions
from tests.cli.terminal import CTRL_C, ENTER, LEFT, RIGHT, TerminalRun


@pytest.fixture
def pager(prepared: Path) -> Iterator[TerminalRun]:
    with TerminalRun("preview", prepared, "--crude") as run:  # spares the import of torch
        yield run.wait_for(KEYS_HELP)


def test_keys_go_forward_back_and_out(pager: TerminalRun) -> None:
    assert "sample 0 of 12" in pager.text
    assert "picture number 0" in pager.text
    pager.press(ENTER).wait_for("picture number 1")
    assert "picture number 0" not in pager.text, "one sample a screen"
    pager.press(RIGHT).wait_for("picture number 2").press(LEFT).wait_for("picture number 1")
    pager.press(LEFT).wait_for("picture number 0").press(LEFT, LEFT, ENTER).wait_for("picture number 1")
    assert pager.press("q").finish(timeout_s=10) == 0


def test_it_stops_at_the_last_sample(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--index", 11, "--crude") as run:
        run.wait_for(KEYS_HELP).press(RIGHT, RIGHT, LEFT).wait_for("sample 10 of 12")
        assert run.press("q").finish(timeout_s=10) == 0


def test_pictures_are_drawn_in_colour(pager: TerminalRun) -> None:
    rows = [row for row in pager.screen.buffer.values() if row[6].data == "▀"]
    assert len(rows) == 8  # 16 pixels, two a row
    left, right = rows[0][4], rows[0][27]
    assert int(left.fg[:2], 16) < 20
    assert int(right.fg[:2], 16) > 235, "the gradient runs from left to right"
    pager.press("q").finish(timeout_s=10)


def test_no_pictures_where_none_are_wanted(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", "--no-images") as run:
        run.wait_for(KEYS_HELP)
        assert "▀" not in run.text
        run.press("q").finish(timeout_s=10)


def test_a_dumb_terminal_gets_text(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", environment={"TERM": "dumb"}) as run:
        run.wait_for("picture number 0")
        assert "▀" not in run.text
        run.press("q").finish(timeout_s=10)


def test_no_color_draws_without_colour(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", environment={"NO_COLOR": "1"}) as run:
        run.wait_for(KEYS_HELP)
        assert "38;2" not in run.raw
        run.press("q").finish(timeout_s=10)


@pytest.mark.slow
def test_a_wanted_number_is_printed_without_asking_for_keys(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "-n", 2) as run:
        assert run.finish() == 0
        assert KEYS_HELP not in run.text
        assert "sample 1 of 12" in run.text


def test_ctrl_c_leaves_the_terminal_as_it_was(pager: TerminalRun) -> None:
    assert pager.press(CTRL_C).finish(timeout_s=10) == 130
    assert "Traceback" not in pager.raw
    assert not pager.screen.cursor.hidden


@pytest.mark.slow
def test_a_sample_that_cannot_be_made_does_not_end_the_walk(tmp_path: Path) -> None:
    def parts(number: int) -> dict[str, bytes]:
        return caption_parts(number) | ({"jpg": b"<!DOCTYPE"} if number == 1 else {})

    folder = write_captions(tmp_path, shards=1, parts=parts)
    with TerminalRun("prepare", folder, "--yes", "--num-workers", 1) as run:
        assert run.finish() == 0
    with TerminalRun("preview", folder) as run:
        run.wait_for(KEYS_HELP).press(RIGHT).wait_for("not an image").press(RIGHT).wait_for("picture number 2")
        assert run.press("q").finish(timeout_s=10) == 0


def test_a_terminal_that_never_answers_costs_no_words(pager: TerminalRun) -> None:
    assert "Timeout" not in pager.raw
    assert "cell size" not in pager.raw
    pager.press("q").finish(timeout_s=10)


def test_keys_sent_at_once_are_told_apart() -> None:
    assert split_keys("\x1b[C\x1bOCq\r\x1b[1;5Dä") == ["\x1b[C", "\x1bOC", "q", "\r", "\x1b[1;5D", "ä"]
    assert split_keys("\x1b") == ["\x1b"]
