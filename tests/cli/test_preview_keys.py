"""``energon preview`` on a terminal: keys and pictures."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from energon_cli.commands.look.preview.walk import KEYS_HELP
from energon_cli.terminal.keys import split_input
from tests.cli.make_dataset import caption_parts, write_captions
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import (
    CTRL_C,
    DOWN,
    END,
    ENTER,
    HOME,
    KITTY_ANSWERS,
    LEFT,
    PAGE_DOWN,
    PAGE_UP,
    RIGHT,
    TerminalRun,
)


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
    assert pager.press("q").finish() == 0


def test_it_stops_at_the_last_sample(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--index", 11, "--crude") as run:
        run.wait_for(KEYS_HELP).press(RIGHT, RIGHT, LEFT).wait_for("sample 10 of 12")
        assert run.press("q").finish() == 0


def test_pictures_are_drawn_in_colour(pager: TerminalRun) -> None:
    rows = [row for row in pager.screen.buffer.values() if row[6].data == "▀"]
    assert len(rows) == 8  # 16 pixels, two a row
    left, right = rows[0][4], rows[0][27]
    assert int(left.fg[:2], 16) < 20
    assert int(right.fg[:2], 16) > 235, "the gradient runs from left to right"
    pager.press("q").finish()


def test_no_pictures_where_none_are_wanted(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", "--no-images") as run:
        run.wait_for(KEYS_HELP)
        assert "▀" not in run.text
        run.press("q").finish()


def test_a_dumb_terminal_gets_text(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", environment={"TERM": "dumb"}) as run:
        run.wait_for("picture number 0")
        assert "▀" not in run.text
        run.press("q").finish()


def test_no_color_draws_without_colour(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", environment={"NO_COLOR": "1"}) as run:
        run.wait_for(KEYS_HELP)
        assert "38;2" not in run.raw
        run.press("q").finish()


def test_a_wanted_number_is_printed_without_asking_for_keys(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "-n", 2) as run:
        assert run.finish() == 0
        assert KEYS_HELP not in run.text
        assert "sample 1 of 12" in run.text


def test_ctrl_c_leaves_the_terminal_as_it_was(pager: TerminalRun) -> None:
    assert pager.press(CTRL_C).finish() == 130
    assert "Traceback" not in pager.raw
    assert not pager.screen.cursor.hidden


def test_a_sample_that_cannot_be_made_does_not_end_the_walk(tmp_path: Path) -> None:
    def parts(number: int) -> dict[str, bytes]:
        return caption_parts(number) | ({"jpg": b"<!DOCTYPE"} if number == 1 else {})

    folder = write_captions(tmp_path, shards=1, parts=parts)
    with TerminalRun("prepare", folder, "--yes", "--num-workers", 1) as run:
        assert run.finish() == 0
    with TerminalRun("preview", folder) as run:
        run.wait_for(KEYS_HELP).press(RIGHT).wait_for("not an image").press(RIGHT).wait_for("picture number 2")
        assert run.press("q").finish() == 0


def test_a_terminal_that_never_answers_costs_no_words(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", answers=None) as run:
        run.wait_for(KEYS_HELP)
        assert "▀" in run.text
        run.press(RIGHT).wait_for("sample 1 of 12")
        assert run.press("q").finish() == 0
        assert "Timeout" not in run.raw


def test_a_late_answer_is_no_key(pager: TerminalRun) -> None:
    before = pager.text
    pager.press(KITTY_ANSWERS, "\x1bP>|XTerm(379)\x1b\\").press(RIGHT).wait_for("sample 1 of 12").press(LEFT)
    pager.wait_for("sample 0 of 12").wait_for(before)
    assert pager.press("q").finish() == 0


@pytest.mark.parametrize(
    ("text", "keys", "answers", "rest"),
    [
        ("\x1b[C\x1bOCq\r\x1b[1;5Dä", ["right", "right", "q", "enter", "\x1b[1;5D", "ä"], [], ""),
        ("a\x1b_Gi=31;OK\x1b\\b\x1b[?62;4c", ["a", "b"], ["\x1b_Gi=31;OK\x1b\\", "\x1b[?62;4c"], ""),
        ("\x1b[6;20;10tq", ["q"], ["\x1b[6;20;10t"], ""),
        ("q\x1b[", ["q"], [], "\x1b["),
        ("\x1b_Gi=31;", [], [], "\x1b_Gi=31;"),
        ("\x1b\x1b[A", ["escape", "up"], [], ""),
    ],
)
def test_input_is_split_into_keys_and_answers(text: str, keys: list[str], answers: list[str], rest: str) -> None:
    assert split_input(text) == (keys, answers, rest)


# ------------------------------------------------------------------------------------------------- a longer dataset


@pytest.fixture
def many(tmp_path: Path, energon: RunEnergon) -> Iterator[TerminalRun]:
    """A walk through 80 samples in one shard."""
    folder = write_captions(tmp_path / "many", shards=1, samples=80)
    assert energon("prepare", folder, "--yes", "--num-workers", 1).code == 0
    with TerminalRun("preview", folder, "--crude") as run:
        yield run.wait_for(KEYS_HELP)


def test_no_key_is_lost_or_echoed(many: TerminalRun) -> None:
    assert not many.process.getecho()
    many.process.send(RIGHT * 64)
    many.wait_for("sample 64 of 80")
    many.process.send((LEFT + "l") * 20 + "\x7f" * 4)
    many.wait_for("sample 60 of 80")
    assert "^[" not in many.raw
    assert "lll" not in many.raw
    assert many.press("q").finish() == 0


def test_keys_jump(many: TerminalRun) -> None:
    many.press(END).wait_for("sample 79 of 80").press(PAGE_UP).wait_for("sample 69 of 80")
    many.press(HOME).wait_for("sample 0 of 80").press(PAGE_DOWN).wait_for("sample 10 of 80")
    many.press("g", "4", "9", "\x7f", "2").wait_for("go to sample: 42").press(ENTER).wait_for("sample 42 of 80")
    many.press("g", "8", "0", ENTER).wait_for("expected a number from 0 to 79, not '80'")
    many.press("g", "q", "\x1b").wait_for(KEYS_HELP)
    assert "sample 42 of 80" in many.text
    assert many.press("q").finish() == 0


def test_search_finds_texts_and_keys(many: TerminalRun) -> None:
    many.press("n").wait_for("press / to search first")
    many.press("/", *"PICTURE", ENTER).wait_for("no key or text contains 'PICTURE'")
    many.press("/", *"number 3", ENTER).wait_for("sample 3 of 80")
    many.press("n").wait_for("sample 30 of 80").press("n").wait_for("sample 31 of 80")
    many.press("N", "N").wait_for("sample 3 of 80").press("N").wait_for("sample 39 of 80")
    many.press("/", *"tar/000077", ENTER).wait_for("sample 77 of 80")
    assert many.press("q").finish() == 0


def test_the_grid_opens_the_selected_sample(many: TerminalRun) -> None:
    many.press("t").wait_for("000019").press(DOWN, RIGHT, "x").wait_for("x 000006")
    many.press(PAGE_DOWN).wait_for("000039").press(ENTER).wait_for("sample 26 of 80").wait_for("picture number 26")
    many.press("t").wait_for("000039").press("q").wait_for("sample 26 of 80")
    assert many.press("q").finish() == 0


def test_noted_keys_are_printed_for_the_split_file(many: TerminalRun) -> None:
    many.press("x").wait_for("noted ·").press(RIGHT, "x").wait_for("sample 1 of 80").press(RIGHT, "x")
    many.wait_for("sample 2 of 80").wait_for("noted ·").press(LEFT).wait_for("sample 1 of 80").press("x")
    many.wait_for("2 noted").press(CTRL_C)
    assert many.finish() == 130
    assert many.raw.count("exclude:\r\n- shard_000.tar/000000\r\n- shard_000.tar/000002\r\ninterrupted") == 1


def test_help_lists_the_keys(pager: TerminalRun) -> None:
    pager.press("?").wait_for("grid of thumbnails").press("q").wait_for("sample 0 of 12")
    assert pager.press("q").finish() == 0


def test_another_size_of_the_terminal_draws_again(pager: TerminalRun) -> None:
    pager.screen.resize(30, 90)
    pager.process.setwinsize(30, 90)
    pager.wait_for("text")
    deadline = 100
    while "\x1b[30;1H" not in pager.raw and deadline:
        pager.press("")
        deadline -= 1
    assert "\x1b[30;1H" in pager.raw, "the footer is in the last row"
    assert pager.press("q").finish() == 0


def test_a_long_sample_scrolls(prepared: Path) -> None:
    with TerminalRun("preview", prepared, "--crude", "--no-images", rows=8) as run:
        run.wait_for("↓ 1 more line ·")
        assert "… (" not in run.text
        run.press(DOWN).wait_for("… (").wait_for(f"\n{KEYS_HELP}")  # no line more below
        assert "sample 0 of 12" not in run.text
        run.press(DOWN).wait_for("sample 1 of 12")
        assert run.press("q").finish() == 0


# ---------------------------------------------------------------------------------------------------------- endings

_STTY = "; stty -a | tr ' ' '\n' | grep -x -e -icanon -e icanon -e -echo -e echo; echo ended"


@pytest.mark.parametrize("ending", ["q", CTRL_C, "kill"])
@pytest.mark.sampled(2)
def test_the_terminal_is_restored(prepared: Path, ending: str) -> None:
    command = f"trap : INT; {sys.executable} -m energon_cli preview {prepared} --crude" + _STTY
    with TerminalRun(program=["sh", "-c", command]) as run:
        run.wait_for(KEYS_HELP)
        if ending == "kill":
            children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children")
            os.kill(int(children.read_text(encoding="ascii")), signal.SIGTERM)
        else:
            run.press(ending)
        run.wait_for("ended")
        shown = run.raw.partition("\x1b[?1049l")[2].split()
        assert {"icanon", "echo"} <= set(shown)
        assert "-echo" not in shown
        run.finish()


def test_ctrl_z_pauses_and_the_walk_continues(prepared: Path) -> None:
    with TerminalRun(program=["bash", "--norc", "-i"], environment={"PS1": "$ "}) as run:
        run.press(f"{sys.executable} -m energon_cli preview {prepared} --crude\r").wait_for(KEYS_HELP)
        run.press(RIGHT).wait_for("sample 1 of 12").press("\x1a").wait_for("Stopped")
        assert run.raw.count("\x1b[?1049l") == 1
        run.press("fg\r")
        while run.raw.count("\x1b[?1049h") < 2:
            run.press("")
        run.press(RIGHT).wait_for("sample 2 of 12").press("q")
        while not re.search(r"[#$] $", run.raw.rpartition("\x1b[?1049l")[2]):
            run.press("")  # keys are dropped until the shell prompts
        run.press("exit\r").finish()


@pytest.mark.parametrize("options", [("-n", "1"), pytest.param((), marks=pytest.mark.slow)])
def test_the_status_line_disappears(prepared: Path, options: tuple[str, ...]) -> None:
    with TerminalRun("preview", prepared, "--no-images", *options) as run:
        run.wait_for("picture number 0")
        assert (run if options else run.press("q")).finish() == 0
        assert "decoding the first sample…" in run.raw
        assert "decoding the first sample…" not in run.text
