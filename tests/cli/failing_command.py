"""A command that fails in a chosen way, for tests of messages and exit codes."""

from __future__ import annotations

import click

from energon_cli.command import energon_command
from loader.errors import FormatError


@energon_command("fail")
@click.argument("how")
def fail(how: str) -> None:
    """Fail in the way HOW.

    Examples:
        Fail:
            energon fail bug
    """
    if how == "bug":
        raise RuntimeError("the flux\x1b[31m is off")
    if how == "format":
        raise FormatError("cut \x1b[2J short", shard="/data/s.tar", offset=512, hint="copy it again")
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "pipe":
        raise BrokenPipeError
    if how == "exit":
        raise click.exceptions.Exit(1)
    if how == "usage":
        raise click.BadParameter("no", param_hint="--how")
    click.echo("fine")
