"""Every command has help with an example, and a page in the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from tests.source_tree import ROOT


def commands() -> list[tuple[str, click.Command]]:
    """Return all commands; those of a group follow it: ``checkpoint``, ``checkpoint info``."""
    from energon_cli.main import cli

    return list(commands_of(cli, ""))


def commands_of(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name="energon")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield prefix + name, command
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{prefix}{name} ")


def test_the_commands_are_those_of_the_design() -> None:
    assert {"prepare", "info", "lint", "preview"} <= {name for name, _ in commands()}


def test_every_command_has_help_with_an_example() -> None:
    for name, command in commands():
        context = click.Context(command, info_name=name, parent=click.Context(click.Group(), info_name="energon"))
        text = command.get_help(context)
        assert re.search(rf"^ +(\$ )?energon {name} ", text, flags=re.MULTILINE), f"no example in:\n{text}"


def test_every_option_has_help() -> None:
    silent = [
        f"energon {name} {parameter.opts[-1]}"
        for name, command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden and not parameter.help
    ]
    assert not silent


def test_every_command_has_a_documentation_page_in_the_navigation() -> None:
    from energon_cli.main import COMMANDS

    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in (name for name, _ in commands() if " " not in name):  # a group's page documents its commands
        page = (ROOT / "docs" / "commands" / f"{name}.md").read_text(encoding="utf-8")
        late = COMMANDS[name]
        assert f":module: {late.module}\n:command: {late.attribute}\n".replace("\n", "\n    ").rstrip() in page
        assert f"commands/{name}.md" in navigation
