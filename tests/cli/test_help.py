"""The help texts, word for word, so that they change only on purpose.

``ENERGON_WRITE_GOLDEN=1 pytest tests/cli/test_help.py`` rewrites them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from energon_cli.command import ExampleCommand, LazyGroup
from energon_cli.main import main
from tests.cli.test_commands import commands

GOLDEN = Path(__file__).parent.parent / "golden" / "help"
BY_NAME = dict(commands())
COMMANDS = ["", *BY_NAME]

NO_VERBS = re.compile(
    "(A|Also|Always|An|At|By|Column|Default|File|First|Folder|For|From|If|In|Kind|Length|Like|Most|No|Number|Of|On|Only"
    "|Part|Path|Ranks|Samples|Seed|Size|Steps|The|To|Type|What|Which|With|Without)\\b"
)
"""Openings of option texts that lack a verb, or hide it: write Keep only …, Limit a shard to …, Take … from …"""

CLAUSES = re.compile(r"\[default: [^]]*\b(detected|if|these|when|where)\b")
"""Defaults that are clauses: name a value, or write a sentence, such as ``Without it, …``."""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_matches_the_golden_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "50")
    assert main([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    path = GOLDEN / f"{name.replace(' ', '-') or 'energon'}.txt"
    if os.environ.get("ENERGON_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize("name", COMMANDS[1:])
def test_the_text_of_an_option_is_a_sentence_with_a_verb_and_a_default_is_a_value(name: str) -> None:
    options = [option for option in BY_NAME[name].params if isinstance(option, click.Option)]
    texts = {option.opts[-1]: option.help or "" for option in options}
    assert not {flag: text for flag, text in texts.items() if NO_VERBS.match(text) or not text[:1].isupper()}
    assert not {flag: text for flag, text in texts.items() if not text.endswith((".", "…", "]"))}
    assert not {flag: text for flag, text in texts.items() if CLAUSES.search(text)}


@pytest.mark.parametrize("text", ["Only these.", "No parts.", "Also those.", "Of a rank.", "With files.", "Like that."])
def test_a_text_without_a_verb_is_found(text: str) -> None:
    assert NO_VERBS.match(text)
    assert not NO_VERBS.match("Keep only these.")
    assert not NO_VERBS.match("Indexes count.")


@pytest.mark.parametrize("name", COMMANDS[1:])
def test_every_command_ends_with_examples_that_are_valid_usage(capsys: pytest.CaptureFixture[str], name: str) -> None:
    import shlex

    command = BY_NAME[name]
    assert isinstance(command, ExampleCommand | LazyGroup)
    assert command.examples
    for what, line in command.examples:
        words = shlex.split(line.split(" | ")[0].split(" > ")[0])
        leading = ["energon", *name.split()]
        assert words[: len(leading)] == leading
        named: click.Command = command
        words = words[len(leading) :]
        if isinstance(named, click.Group):
            named, words = BY_NAME[f"{name} {words[0]}"], words[1:]
        params = named.make_context(name, words, resilient_parsing=False).params
        paths = [params["path"]] if "path" in params else params.get("files", ())
        assert all(path.startswith(("/data/", "s3://bucket/")) for path in paths)
        assert paths or not any(parameter.name in ("path", "files") for parameter in named.params)
        assert what[0].isupper()


@pytest.mark.parametrize("name", COMMANDS[1:])
def test_every_command_takes_both_help_flags_and_debug(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main([*name.split(), "-h"]) == 0
    text = capsys.readouterr().out
    assert "-h, --help" in text
    if "--help-all" in text:
        assert main([*name.split(), "--help-all"]) == 0
        text = capsys.readouterr().out
    assert "--debug" in text


def test_the_help_of_prepare_fits_two_screens_and_help_all_shows_every_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["prepare", "--help"]) == 0
    brief = capsys.readouterr().out
    assert len(brief.splitlines()) <= 50
    assert main(["prepare", "--help-all"]) == 0
    whole = capsys.readouterr().out
    command = BY_NAME["prepare"]
    assert isinstance(command, ExampleCommand)
    options = {one.name: one.opts[-1] for one in command.params if isinstance(one, click.Option)}
    assert {*options.values()} <= {word.strip(",") for line in whole.split() for word in line.split("/")}
    assert command.advanced <= {*options}
    assert not {options[name] for name in command.advanced} & {*brief.split()}
    assert all(line in whole for _, line in command.examples)


@pytest.mark.parametrize(
    ("arguments", "same"),
    [
        (["help"], ["--help"]),
        (["help", "lint"], ["lint", "--help"]),
        (["help", "checkpoint", "info"], ["checkpoint", "info", "--help"]),
        (["checkpoint", "help", "info"], ["checkpoint", "info", "--help"]),
    ],
)
def test_the_word_help_is_the_flag(capsys: pytest.CaptureFixture[str], arguments: list[str], same: list[str]) -> None:
    assert main(arguments) == main(same) == 0
    text = capsys.readouterr().out
    assert text[: len(text) // 2] == text[len(text) // 2 :]
