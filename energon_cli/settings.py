"""Settings of the output that all commands share."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class OutputSettings:
    """Settings of the output of a run of the program.

    Attributes:
        quiet: Print only results and errors: no notes, warnings or progress.
        verbosity: 1 prints what options came from the environment, the time and memory, and messages of the library; 2
            prints details, too.
        color: ``auto`` (on terminals, unless ``NO_COLOR`` is set), ``always`` or ``never``.
        progress: False shows no progress, as ``--quiet`` sets it, too; None is the default of each output.
        debug: Print the traceback of an error.
    """

    quiet: bool = False
    verbosity: int = 0
    color: str = "auto"
    progress: bool | None = None
    debug: bool = False

    @property
    def log_level(self) -> int:
        """The lowest level of records of the library that are printed."""
        if self.quiet:
            return logging.ERROR
        return (logging.WARNING, logging.INFO, logging.DEBUG)[min(self.verbosity, 2)]


def program_name() -> str:
    """Return how a user runs the program again: ``energon``, or ``python -m energon_cli`` if it was started so."""
    folder, file = os.path.split(sys.argv[0])
    return "python -m energon_cli" if file == "__main__.py" and os.path.basename(folder) == "energon_cli" else "energon"


def name_program(text: str) -> str:
    """Return a message whose commands are written as :func:`program_name` runs them."""
    name = program_name()
    return text if name == "energon" else re.sub(r"(?<![\w./-])energon (?=[a-z-]+\b)", f"{name} ", text)


_settings: ContextVar[OutputSettings | None] = ContextVar("energon_output_settings", default=None)


def output_settings() -> OutputSettings:
    """Return the settings of this run; outside of a run, those without options."""
    return _settings.get() or OutputSettings()


@contextlib.contextmanager
def scoped_settings() -> Iterator[OutputSettings]:
    """Create settings for a run, which options change while they are parsed."""
    token = _settings.set(OutputSettings())
    try:
        yield output_settings()
    finally:
        _settings.reset(token)
