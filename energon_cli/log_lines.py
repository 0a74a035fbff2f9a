"""What the library logs while a command runs: one line each on standard error, without raw control characters."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import click

__all__ = ["log_lines"]


class _Lines(logging.Handler):
    """Names of shards, keys and paths in a message may hold anything."""

    def emit(self, record: logging.LogRecord) -> None:
        from .console import escape_controls

        try:
            click.echo(escape_controls(record.getMessage()), err=True)
        except Exception:  # noqa: BLE001 - as the logging module does: a message never stops a command
            self.handleError(record)


@contextlib.contextmanager
def log_lines() -> Iterator[None]:
    """Print warnings and worse until the context ends."""
    handler = _Lines(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
