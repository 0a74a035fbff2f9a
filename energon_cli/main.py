"""The ``energon`` program: runs a command and turns errors into one message and an exit code."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import click

from .command import CONTEXT_SETTINGS, LazyCommand, LazyGroup, add_common_options
from .environment import PREFIX, explain_source
from .installation import installation_faults
from .settings import OutputSettings, name_program, output_settings, program_name, scoped_settings
from .terminal_text import break_between_words

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as in shells
EXIT_READER_GONE = 141  # 128 + SIGPIPE

_SOURCES = tuple(
    os.path.join(os.path.dirname(os.path.dirname(__file__)), name, "") for name in ("loader", "energon_cli")
)

_COLOURS: dict[str | None, str] = {"error": "red", "warning": "yellow"}

COMMANDS = {
    "demo": LazyCommand(".make.demo:demo", "Draw pictures, and run the main commands on them."),
    "import": LazyCommand(".make.import_data.command:import_data", "Convert files, tables and archives to a dataset."),
    "prepare": LazyCommand(".make.prepare.command:prepare", "Index and split a folder of tar shards."),
    "prepare-media": LazyCommand(
        ".make.prepare_media:prepare_media", "Collect sizes and durations of media files in a folder."
    ),
    "index": LazyCommand(".make.index:index", "Share the index of a dataset as one file."),
    "info": LazyCommand(".look.info:info", "Describe a dataset on one screen."),
    "lint": LazyCommand(".look.lint:lint", "Check a dataset and list all its faults."),
    "rule": LazyCommand(".look.rule:rule", "Explain codes of findings and of unused input."),
    "preview": LazyCommand(".look.preview.command:preview", "Show samples, with their pictures, in the terminal."),
    "stats": LazyCommand(".look.stats:stats", "Show sizes, lengths, JSON fields and duplicates."),
    "explain": LazyCommand(".run.explain:explain", "Show what a training run will read."),
    "plan": LazyCommand(".run.plan:plan", "Show what the steps of a planned run cost on each rank."),
    "trace": LazyCommand(".run.trace:trace", "List the samples of a training step."),
    "analyze-debug": LazyCommand(".run.analyze_debug:analyze_debug", "Draw which samples a run used at which step."),
    "profile": LazyCommand(".run.profile:profile", "Run a training script, and show what its loaders wait for."),
    "browse": LazyCommand(".look.browse.command:browse", "Show samples, with their pictures, in a web browser."),
    "get": LazyCommand(".look.get:get", "Print a part of samples, or list their parts."),
    "extract": LazyCommand(".change.export:extract", "Copy samples to files, tar shards or lines of JSON."),
    "export": LazyCommand(".change.export:export", "Copy a dataset to files, JSON lines, Parquet, Hugging Face."),
    "reshard": LazyCommand(".change.reshard:reshard", "Write a dataset to new shards: sizes, order, parts."),
    "exclude": LazyCommand(".change.exclude:exclude", "Take samples out of training, or undo it."),
    "embed": LazyCommand(".change.embed:embed", "Compute vectors of pictures or texts, to find similar ones."),
    "map": LazyCommand(".change.map:map_dataset", "Run your own function over the samples of a dataset."),
    "merge": LazyCommand(".change.merge:merge", "Merge datasets, by links to their shards."),
    "split": LazyCommand(".change.split:split", "Change the split of a dataset, or check it for leaks."),
    "add-parts": LazyCommand(
        ".change.add_parts:add_parts", "Add parts to the samples of a dataset, next to its shards."
    ),
    "mount": LazyCommand(".look.mount:mount", "Show the samples of a dataset as files."),
    "diff": LazyCommand(".look.diff:diff", "Compare two datasets, metadatasets or checkpoints."),
    "checkpoint": LazyCommand(".run.checkpoint:checkpoint", "Inspect and redistribute saved states."),
    "doctor": LazyCommand(".run.doctor:doctor", "Examine this machine and installation."),
    "completion": LazyCommand(".run.completion:completion", "Print the script that completes commands in a shell."),
}

_WORDS = {
    "add-parts": "add annotate append attach",
    "browse": "gui open serve server ui web",
    "checkpoint": "checkpoints ckpt resume state states",
    "completion": "complete completions",
    "demo": "example examples start tour tutorial",
    "diff": "cmp compare",
    "doctor": "diagnose env machine system",
    "embed": "embedding embeddings encode phash vectors",
    "exclude": "del delete drop ignore remove rm",
    "explain": "simulate",
    "plan": "balance imbalance pack packing",
    "export": "save to write",
    "extract": "copy cp filter find grep query search select subset unpack untar",
    "get": "cat dump read",
    "import": "build convert create ingest load tar",
    "info": "count describe du inspect len list ls size status summary tree",
    "lint": "check fsck test validate verify",
    "merge": "combine concat concatenate join",
    "index": "publish pull push",
    "prepare": "init scan setup",
    "preview": "display head peek print sample samples show tail view",
    "profile": "bench benchmark run speed time",
    "reshard": "repack rewrite shard shuffle sort",
    "rule": "code codes rules",
    "split": "divide partition",
    "stats": "analyze dedupe duplicates histogram statistics",
    "--version": "version",
}
"""For each command, words that people try for it; the message about such a word names the command."""


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from loader import __version__

        click.echo(f"energon {__version__}")
        faults = list(installation_faults())
        for fault in faults:
            _print_message(fault.message, label="error" if fault.breaks else "warning")
        ctx.exit(EXIT_FAILED if any(fault.breaks for fault in faults) else 0)


class _Program(LazyGroup):
    """The top-level group; calling it runs :func:`main`, with its messages and exit codes."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if standalone_mode and "_ENERGON_COMPLETE" not in os.environ:
            sys.exit(main(args, self))
        return super().main(args, prog_name, complete_var, standalone_mode=standalone_mode, **extra)


@click.group(
    cls=_Program,
    lazy_commands=COMMANDS,
    words={word: command for command, words in _WORDS.items() for word in words.split()},
    context_settings={**CONTEXT_SETTINGS, "auto_envvar_prefix": PREFIX},
    no_args_is_help=True,
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Prepare, inspect, check and preview datasets of tar shards.

    Exit codes: 0 success, 1 errors found or a failed run, 2 invalid usage, 130 interrupted by Ctrl-C.
    """


add_common_options(cli)


def main(arguments: Sequence[str] | None = None, program: click.Group = cli) -> int:
    """Run the program and return its exit code."""
    started_s = time.monotonic()
    _escape_unencodable()
    if "_ENERGON_COMPLETE" in os.environ:
        cli.main(prog_name="energon")  # shell completion: click prints candidates and exits
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.filterwarnings("ignore", "Image size .* exceeds limit", RuntimeWarning)  # Pillow's, below our own limit
    # Run the command; each way to end has its exit code.
    with scoped_settings() as settings:
        try:
            with _print_logs():
                code = _run(program, arguments, settings)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            return EXIT_READER_GONE
        except KeyboardInterrupt as error:
            _print_message("\n".join(("interrupted", *getattr(error, "__notes__", ()))), label=None)
            return EXIT_INTERRUPTED
        if settings.verbosity and not settings.quiet:
            _print_costs(started_s)
    return code


def _run(program: click.Group, arguments: list[str], settings: OutputSettings) -> int:
    from loader.errors import EnergonError, error_text, torch_needed

    try:
        # Run the command; --debug shows where an unexpected error was raised.
        try:
            with program.make_context(program_name(), [*arguments], obj=tuple(arguments)) as ctx:
                program.invoke(ctx)
            return 0
        except Exception:
            if settings.debug and not isinstance(sys.exception(), click.exceptions.Exit | click.UsageError):
                import traceback

                from loader.errors import escape_controls

                click.echo(escape_controls(traceback.format_exc(), keep="\n\t"), err=True)
            with torch_needed():
                raise
    # Turn its end into a message and an exit code.
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        from loader.errors import escape_controls

        if isinstance(error, click.UsageError):
            explain_source(error)
            _name_option(error, arguments)
        text = break_between_words(
            "Error: " + name_program(escape_controls(error.format_message(), keep="\n")), sys.stderr
        )
        vars(error)["format_message"] = lambda: text.removeprefix("Error: ")  # type checkers take it for final
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_FAILED
    except EnergonError as error:
        _print_message(str(error))
        return EXIT_FAILED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - any other error becomes one line instead of a traceback
        _print_message(error_text(error))
        if not settings.debug:
            import traceback

            # The last line of this program, not of a library that it calls. Compiled modules may name other folders.
            frames = traceback.extract_tb(error.__traceback__)
            last = ([frame for frame in frames if frame.filename.startswith(_SOURCES)] or frames)[-1]
            where = f"{last.filename}:{last.lineno}"
            _print_message(
                f"  this is a bug or an unexpected state of the machine, at {where}; run again with --debug", label=None
            )
        return EXIT_FAILED


def _name_option(error: click.UsageError, arguments: Sequence[str]) -> None:
    if not isinstance(error, click.NoSuchOption) or not error.possibilities:
        return
    import shlex
    from difflib import get_close_matches

    # Without their dashes, which would make short names alike: --to and --json.
    longer = [option for option in error.possibilities if option.startswith(error.option_name)]
    names = {option.lstrip("-"): option for option in longer or error.possibilities}
    alike = get_close_matches(error.option_name.lstrip("-"), names, n=1, cutoff=0 if longer else 0.5)
    if not alike:
        vars(error)["possibilities"] = None
        return
    near = names[alike[0]]
    words = [
        word.replace(error.option_name, near, 1) if word.partition("=")[0] == error.option_name else word
        for word in arguments
    ]
    vars(error).update(
        message=f"{error.message.rstrip('.')}. Did you mean: {program_name()} {shlex.join(words)}", possibilities=None
    )


class _LogPrinter(logging.Handler):
    """Prints log records as single lines, with control characters of shard names, keys and paths escaped."""

    def emit(self, record: logging.LogRecord) -> None:
        from .console import show_message

        if record.levelno < output_settings().log_level:
            return
        try:
            show_message(record.getMessage())
        except Exception:  # noqa: BLE001 - like the logging module: a failed message never stops a command
            self.handleError(record)


@contextlib.contextmanager
def _print_logs() -> Iterator[None]:
    """Print warnings and errors that the library logs on standard error, inside this context."""
    handler = _LogPrinter()
    root, library = logging.getLogger(), logging.getLogger("loader")
    level = library.level
    root.addHandler(handler)
    try:
        yield
    finally:
        library.setLevel(level)
        root.removeHandler(handler)


def _print_message(message: str, *, label: Literal["error", "warning"] | None = "error") -> None:
    if label == "warning" and output_settings().quiet:
        return
    prefix = "" if label is None else f"{label}: "
    with contextlib.suppress(OSError):  # standard error is closed; the exit code remains
        from .console import show_message

        show_message(message, label=prefix, colour=_COLOURS.get(label, ""), keep="\n\t")


def _print_costs(started_s: float) -> None:
    import resource

    scale = 1 if sys.platform == "darwin" else 1024  # bytes or KiB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    _print_message(f"took {time.monotonic() - started_s:.2f} s and {peak / 1e6:.0f} MB of memory", label=None)


def _escape_unencodable() -> None:
    """Print escapes for characters that an ASCII terminal cannot encode, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Redirect standard output, so that the flush at exit does not fail on the closed pipe."""
    with contextlib.suppress(OSError, ValueError):  # stdout is not a file (in tests), so nothing is flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
