"""The help texts, word for word: a change to one is a decision, never an accident.

``ENERGON_WRITE_GOLDEN=1 pytest tests/cli/test_help.py`` writes them anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from energon_cli.main import cli, main

GOLDEN = Path(__file__).parent.parent / "golden" / "help"
COMMANDS = ["", *cli.list_commands(click.Context(cli))]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_is_the_one_on_record(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "50")
    assert main([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    path = GOLDEN / f"{name or 'energon'}.txt"
    if os.environ.get("ENERGON_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize("name", COMMANDS[1:])
def test_every_command_ends_with_examples_that_are_valid_usage(capsys, name):
    import shlex

    command = cli.get_command(click.Context(cli), name)
    assert command.examples
    for what, line in command.examples:
        words = shlex.split(line.split(" | ")[0])
        assert words[:2] == ["energon", name]
        context = command.make_context(name, words[2:], resilient_parsing=False)
        assert context.params["path"].startswith("/data/")
        assert what[0].isupper()


@pytest.mark.parametrize("name", COMMANDS[1:])
def test_every_command_takes_both_help_flags_and_debug(capsys, name):
    assert main([name, "-h"]) == 0
    text = capsys.readouterr().out
    assert "-h, --help" in text
    assert "--debug" in text
