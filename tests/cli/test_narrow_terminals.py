"""Narrow terminals: no word is broken that fits into a line, whatever command prints it."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from energon_cli.commands.look.preview.walk import KEYS_HELP
from energon_cli.console import output_console
from energon_cli.terminal_text import break_between_words
from loader.inspect import print_table
from tests.cli.make_dataset import caption_parts, picture, write_captions
from tests.cli.terminal import TerminalRun
from tests.source_tree import ROOT

COLUMNS = (60, 400)
REASON = "the server had answered with a page instead of a picture, as lint says"
MIX = (
    "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
    "    - {path: ./damaged, weight: 3, subflavors: {kind: pictures of the street}}\n    - {path: ./sound, weight: 1}\n"
)
COMMANDS = (
    ("lint", "damaged"),
    ("lint", "mix.yaml", "--all"),
    ("lint", "damaged", "--levle", "all"),
    ("lint", "damaged", "--level", "all"),
    ("info", "damaged"),
    ("info", "mix.yaml"),
    ("info", "pictures"),
    ("stats", "damaged"),
    ("explain", "mix.yaml", "--steps", "100", "--batch-size", "4"),
    ("trace", "mix.yaml", "--step", "3", "--batch-size", "2"),
    ("diff", "damaged", "sound"),
    ("doctor",),
    ("rule", "E302"),
    ("rule",),
    ("preview", "damaged", "-n", "9", "--no-images"),
    ("get", "damaged", "000008"),
    ("extract", "sound", "-o", "extracted-{}", "000001"),
    ("split", "damaged", "--dry-run", "--split-ratio", "8,1,1"),
    ("split", "sound", "--check"),
    ("prepare", "raw", "--dry-run", "--yes"),
    ("prepare", "pictures", "--yes"),
    ("import", "pictures", "imported-{}", "--dry-run"),
    ("import", "pictures", "imported-{}", "--yes"),
    ("reshard", "sound", "resharded-{}"),
    ("export", "sound", "exported-{}"),
    ("merge", "sound", "imported-{}", "merged-{}"),
    ("exclude", "sound", "000004", "--reason", REASON),
    ("exclude", "sound", "--list"),
    ("exclude", "sound", "--undo"),
    ("checkpoint", "info", "nothing-of-this-name"),
)  # fmt: skip
RUN = """
import os, sys; sys.path.insert(0, {root!r}); os.chdir({folder!r})
from energon_cli.main import main
for number, command in enumerate({commands!r}):
    sys.argv[0] = "energon"
    print(f"[[{{number}}]]", flush=True)
    main(list(command))
print("[[end]]", flush=True)
"""


def damaged_parts(number: int) -> dict[str, bytes]:
    parts = caption_parts(number)
    return parts | {
        2: {"json": b'{"caption": nothing'},
        4: {"jpg": b"<!DOCTYPE html> nothing"},
        7: {"jpg": parts["jpg"][:300]},
        8: {"npy": b"no array"},
    }.get(number, {})


@pytest.fixture(scope="module")
def screens() -> Iterator[list[list[str]]]:
    # A long path is broken anywhere, and digits of a path are compared as numbers.
    letters = str(os.getpid()).translate(str.maketrans("0123456789", "abcdefghij")).rjust(8, "k")
    short = Path("/tmp", f"tmp{letters}")
    short.mkdir()
    try:
        yield screens_in(short)
    finally:
        shutil.rmtree(short)


def screens_in(folder: Path) -> list[list[str]]:
    """Return the text of each command on terminals of each width."""
    for name, parts in (("damaged", damaged_parts), ("sound", caption_parts), ("raw", damaged_parts)):
        write_captions(folder / name, parts=parts)
    (folder / "mix.yaml").write_text(MIX)
    (folder / "pictures").mkdir()
    for number in range(3):
        (folder / f"pictures/{number}.jpg").write_bytes(picture(number))
    (folder / "pictures/notes.md").write_bytes(b"x")
    prepares = [("prepare", name, "--yes", "-q") for name in ("damaged", "sound")]
    texts = []
    for columns in COLUMNS:
        commands = [[word.format(columns) for word in command] for command in (*prepares, *COMMANDS)]
        code = RUN.format(root=str(ROOT), folder=str(folder), commands=commands)
        with TerminalRun(columns=columns, rows=900, program=(sys.executable, "-c", code)) as run:
            run.wait_for("[[end]]", timeout_s=200)
            texts.append(re.split(r"\[\[\w+\]\]\n", run.text)[len(prepares) + 1 : -1])
    return texts


def words_of(text: str) -> set[str]:
    """The words, with any number in place of those that are measured."""
    return {re.sub(r"\d+", "0", word) for word in text.split()}


def test_no_word_that_fits_is_broken(screens: list[list[str]]) -> None:
    broken = {}
    for command, *texts in zip(COMMANDS, *screens, strict=True):
        narrow, wide = map(words_of, texts)
        assert len(wide) > 2, command
        room = 20 if command[0] == "explain" else COLUMNS[0]  # six numbers leave no room for a path
        pieces = "\n".join(word for word in wide if len(word) > room)
        broken[command] = {word for word in narrow - wide if word not in pieces}
    assert {command: words for command, words in broken.items() if words} == {}


def test_keys_that_do_not_fit_are_left_out_from_the_end(prepared: Path) -> None:
    with TerminalRun("preview", prepared, columns=60) as run:
        shown = run.wait_for("q quit").text.splitlines()[-1]
        run.press("q")
        assert run.finish() == 0
    assert KEYS_HELP.startswith(f"{shown} · ")


class Terminal(io.StringIO):
    """A terminal without a size of its own, which ``COLUMNS`` sets."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in (("COLUMNS", "30"), ("TERM", "xterm-256color"), ("LC_ALL", "C.UTF-8")):
        monkeypatch.setenv(name, value)
    return Terminal()


def test_the_widest_words_of_a_table_fold_and_numbers_stay_whole(terminal: Terminal) -> None:
    row = ("/data/a_folder/of_a_long_name", "1,234,567", "100.0 %")
    with redirect_stdout(terminal):
        print_table(output_console(), ("path", ">samples", ">share of all"), [row])
    shown = re.sub("\x1b.*?m", "", terminal.getvalue())
    assert "1,234,567" in shown
    assert "100.0 %" in shown
    assert "/data/a_folder/of_a_long_name" in "".join(line[:8].strip() for line in shown.splitlines())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("error: the words of a sentence break here", ["error: the words of a sentence", "break here"]),
        ("  at: /data/a folder/with spaces/in its name", ["  at: /data/a folder/with spaces/in its name"]),
        ("run: energon prepare /data/coco --yes; or not", ["run:", "energon prepare /data/coco --yes;", "or not"]),
        ("to /data/a_folder_of_a_very_long_name now", ["to", "/data/a_folder_of_a_very_long_name", "now"]),
        ("電電電電 電電電電 電電電電 電電電電", ["電電電電 電電電電 電電電電", "電電電電"]),
    ],
    ids=["words", "places", "commands", "long words", "wide characters"],
)  # fmt: skip
def test_texts_break_between_words_only(terminal: Terminal, text: str, lines: list[str]) -> None:
    assert break_between_words(text, terminal).split("\n") == lines
    with redirect_stdout(terminal):
        output_console().print(text)
    assert terminal.getvalue() == "\n".join([*lines, ""])
