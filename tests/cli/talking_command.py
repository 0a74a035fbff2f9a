"""A command that prints a result, a note, log records and progress, for tests of the common options."""

from __future__ import annotations

import logging

import click

from energon_cli.command import energon_command
from energon_cli.console import show_note
from energon_cli.progress import ProgressBar


@energon_command("talk", takes_path=False)
def talk() -> None:
    """Print to all outputs.

    Examples:
        Talk:
            energon talk
    """
    click.echo("the result")
    log = logging.getLogger("loader.talk")
    log.debug("a detail")
    log.info("an info")
    log.warning("a warning")
    show_note("a note")
    times = iter((0.0, 31.0))
    with ProgressBar("Talking", unit="steps", clock=lambda: next(times)) as bar:
        bar.update(3, 4)
