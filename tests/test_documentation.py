"""What the documentation tells a reader to type, click or open is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.source_tree import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each ``energon`` command: of lines behind a prompt, and of code within sentences."""
    joined = text.replace("\\\n", " ")
    lines = re.findall(r"^\s*\$ (.*)$", joined, flags=re.MULTILINE)
    lines += re.findall(r"`(energon [^`\n]+)`", joined)
    for line in lines:
        for start in re.finditer(r"(?:^|[|&;] *|/)energon ", line):
            lexer = shlex.shlex(line[start.end() - len("energon ") :], posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split = True
            words = []
            for word in lexer:
                if word[0] in "|&;<>#":
                    break
                words.append(word)
            yield words


def unknown_words(words: list[str], group: click.Group) -> Iterator[str]:
    context = click.Context(group, info_name="energon")
    command: click.Command | None = group
    for word in words[1:]:
        if isinstance(command, click.Group) and not word.startswith("-"):
            command = command.get_command(context, word)
            if command is None:
                yield f"energon {word}"
                return
        elif word.startswith("-"):
            known = {name for option in command.get_params(context) for name in [*option.opts, *option.secondary_opts]}
            if word.partition("=")[0] not in known:
                yield f"energon {command.name} {word}"


@by_page
def test_every_command_line_in_the_documentation_is_understood(page: Path) -> None:
    from energon_cli.main import cli

    unknown = [
        unknown for words in command_lines(page.read_text(encoding="utf-8")) for unknown in unknown_words(words, cli)
    ]
    assert not unknown


@by_page
def test_every_link_in_the_documentation_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert not [link for link in links if link and not (page.parent / link).exists()]


@by_page
def test_every_make_target_in_the_documentation_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`|^\s*\$ make ([a-z-]+)", text, flags=re.MULTILINE))
    assert {first or second for first, second in named} <= targets


def test_every_finding_of_lint_is_explained_in_the_words_that_the_code_has() -> None:
    from loader.format.lint.report import CODES

    text = (ROOT / "docs" / "reference" / "findings.md").read_text(encoding="utf-8").replace("`", "")
    rows = re.findall(r"^\| ([EW]\d{3}) \| (.+?) \| .+ \|$", text, flags=re.MULTILINE)
    assert rows == list(CODES.items())


def test_the_reader_of_command_lines_finds_them() -> None:
    text = "$ energon lint /d --level headers && echo '--no'\n$ printf x | energon prepare /d\nuse `energon info -h`\n"
    text += "$ energon prepare /d \\\n    --yes  # comment\n$ .venv/bin/energon preview build/demo\n"
    assert list(command_lines(text)) == [
        ["energon", "lint", "/d", "--level", "headers"],
        ["energon", "prepare", "/d"],
        ["energon", "prepare", "/d", "--yes"],
        ["energon", "preview", "build/demo"],
        ["energon", "info", "-h"],
    ]


def test_a_flag_that_no_command_has_is_found() -> None:
    group = click.Group("energon", commands=[click.Command("info", params=[click.Option(["--json"], is_flag=True)])])
    assert list(unknown_words(["energon", "info", "/d", "--json", "--help"], group)) == []
    assert list(unknown_words(["energon", "info", "--jason"], group)) == ["energon info --jason"]
    assert list(unknown_words(["energon", "inform"], group)) == ["energon inform"]
