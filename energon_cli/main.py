"""The ``energon`` program: finds the command, runs it, and turns what went wrong into one message and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Literal

import click

from .command import CONTEXT_SETTINGS, LazyCommand, LazyGroup, debug_option
from .installation import installation_faults, shadowed_loader
from .log_lines import log_lines

__all__ = ["COMMANDS", "EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_READER_GONE", "cli", "main"]

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count
EXIT_READER_GONE = 141  # 128 + SIGPIPE

COMMANDS = {
    "prepare": LazyCommand(
        module="energon_cli.prepare.command",
        attribute="prepare",
        short_help="Make a folder of tar shards an energon dataset.",
    ),
    "prepare-media": LazyCommand(
        module="energon_cli.prepare.media",
        attribute="prepare_media",
        short_help="Collect the sizes and durations of a folder's media files.",
    ),
    "info": LazyCommand(
        module="energon_cli.info.command",
        attribute="info",
        short_help="Describe a prepared dataset on one screen.",
    ),
    "lint": LazyCommand(
        module="energon_cli.lint.command",
        attribute="lint",
        short_help="Check a dataset and report everything wrong with it.",
    ),
    "preview": LazyCommand(
        module="energon_cli.preview.command",
        attribute="preview",
        short_help="Show samples, with their pictures, in the terminal.",
    ),
    "checkpoint": LazyCommand(
        module="energon_cli.checkpoint.command",
        attribute="checkpoint",
        short_help="Look into saved states, and write them for other ranks.",
    ),
}


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from loader import __version__

        click.echo(f"energon {__version__}")
        faults = list(installation_faults())
        for fault in faults:
            _complain(fault.message, label="error" if fault.breaks else "warning")
        ctx.exit(EXIT_FAILED if any(fault.breaks for fault in faults) else 0)


class _Program(LazyGroup):
    """The group of all commands; called by itself, it is the program with its messages and exit codes."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if standalone_mode and "_ENERGON_COMPLETE" not in os.environ:
            sys.exit(main(args))
        return super().main(args, prog_name, complete_var, standalone_mode=standalone_mode, **extra)


@click.group(cls=_Program, late=COMMANDS, context_settings=CONTEXT_SETTINGS, no_args_is_help=True)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Prepare, describe, check and look at datasets of tar shards.

    Exit codes: 0 done and nothing wrong, 1 findings or a failed run, 2 wrong usage, 130 stopped by Ctrl-C.
    """


cli.params.append(debug_option())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and give its exit code."""
    _never_fail_to_encode()
    shadow = shadowed_loader()
    if shadow is not None:
        _complain(shadow)
        return EXIT_FAILED
    if "_ENERGON_COMPLETE" in os.environ:
        cli.main(prog_name="energon")  # a shell asks for completions; click answers and exits
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = [False]
    try:
        with log_lines():
            code = _run(arguments, debug)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return EXIT_READER_GONE
    except KeyboardInterrupt:
        _complain("interrupted", label=None)
        return EXIT_INTERRUPTED
    return code


def _run(arguments: list[str], debug: list[bool]) -> int:
    from loader.errors import EnergonError

    try:
        try:
            with cli.make_context("energon", arguments) as ctx:
                try:
                    cli.invoke(ctx)
                finally:
                    debug[0] = ctx.meta.get("energon.debug", False)
            return 0
        except Exception:
            if debug[0] and not isinstance(sys.exception(), click.exceptions.Exit | click.UsageError):
                import traceback

                click.echo(traceback.format_exc(), err=True)
            raise
    except click.exceptions.Exit as wanted:
        return wanted.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_FAILED
    except EnergonError as error:
        _complain(str(error))
        return EXIT_FAILED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last line of defence: one line instead of a traceback
        _complain(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        if not debug[0]:
            _complain("  this is a bug or an unforeseen state of the machine; run again with --debug", label=None)
        return EXIT_FAILED


def _complain(message: str, *, label: Literal["error", "warning"] | None = "error") -> None:
    from .console import escape_controls

    text = escape_controls(message, keep="\n\t")
    try:
        if label is not None:
            plain = "NO_COLOR" in os.environ or not sys.stderr.isatty()
            colour = "red" if label == "error" else "yellow"
            text = (f"{label}: " if plain else click.style(f"{label}: ", fg=colour, bold=True)) + text
        click.echo(text, err=True)
    except OSError:
        pass  # nobody reads standard error; the exit code says it all


def _never_fail_to_encode() -> None:
    """Let a terminal that knows only ASCII get escapes instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Keep the interpreter from complaining about the closed pipe when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):  # stdout is no file (in tests); nothing is flushed then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
