"""Click commands and groups of ``energon``: lazy imports, examples in ``--help``, and options that commands share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from .completion import complete_values

__all__ = [
    "CONTEXT_SETTINGS",
    "ExampleCommand",
    "LazyCommand",
    "LazyGroup",
    "dataset_files_options",
    "debug_option",
    "energon_command",
    "meta_folder_option",
    "progress_option",
    "storage_option",
    "trust_code_option",
    "worker_options",
]

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """A command that is imported on first use.

    Args:
        module: The module that defines it.
        attribute: Its name in that module.
        short_help: Its line in the group's help.
    """

    module: str
    attribute: str
    short_help: str


class LazyGroup(click.Group):
    """A group that lists its commands without importing their modules.

    Args:
        lazy_commands: The commands, by name.
        examples: Pairs of a description and a command line, shown at the end of the help.
    """

    def __init__(
        self,
        *args: Any,
        lazy_commands: Mapping[str, LazyCommand],
        examples: Sequence[tuple[str, str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy_commands = dict(lazy_commands)
        self.examples = tuple(examples)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        # Click caches the help option with the names of the first context that requests it.
        return ["-h", "--help"]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        lazy = self.lazy_commands.get(cmd_name)
        if lazy is None:
            return None
        command: click.Command = getattr(importlib.import_module(lazy.module), lazy.attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.lazy_commands and args[0][:1] != "-":
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.lazy_commands, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Commands: {', '.join(self.lazy_commands)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.short_help) for name, lazy in self.lazy_commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        if self.examples:
            _write_examples(formatter, self.examples)


class ExampleCommand(click.Command):
    """A command whose help ends with examples.

    Args:
        examples: Pairs of a description and a command line.
    """

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        # Click caches the help option with the names of the first context that requests it.
        return ["-h", "--help"]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        _write_examples(formatter, self.examples)


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[tuple[str, str]]) -> None:
    with formatter.section("Examples"):
        for number, (description, line) in enumerate(examples):
            if number:
                formatter.write_paragraph()
            formatter.write_text(f"{description}:")
            formatter.write(f"{'':>{formatter.current_indent + 2}}{line}\n")


def debug_option() -> click.Option:
    """Create ``--debug``, which is accepted before and after a command's name."""

    def remember(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta["energon.debug"] = True

    return click.Option(
        ["--debug"], is_flag=True, expose_value=False, callback=remember, help="Show the traceback of an error."
    )


def storage_option() -> click.Option:
    """Create ``--storage-option``, which sets the endpoint, region and limits of object stores."""

    def remember(_ctx: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> None:
        if not values:
            return
        from loader.errors import ConfigError
        from loader.storage import remember_options

        pairs = [value.partition("=") for value in values]
        if not all(separator for _, separator, _ in pairs):
            raise click.BadParameter("expected KEY=VALUE, such as endpoint_url=https://minio.local")
        try:
            remember_options("", {name.replace("-", "_"): value for name, _, value in pairs})
        except ConfigError as error:
            raise click.BadParameter(f"{error.message}; {error.hint}" if error.hint else error.message) from error

    return click.Option(
        ["--storage-option"],
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=remember,
        help="Option of object stores: endpoint_url, region, profile, anonymous …  [repeatable]",
    )


def energon_command(
    name: str, *, examples: Sequence[tuple[str, str]], short_help: str, takes_path: bool = True
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that turns a function into a command with ``--help``, ``--debug``, completion and examples.

    Args:
        name: Name of the command.
        examples: Pairs of a description and a command line.
        short_help: Its line in the group's help.
        takes_path: It reads datasets, and takes ``--storage-option``.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        command: click.Command = click.command(
            name, cls=ExampleCommand, examples=examples, short_help=short_help, context_settings=CONTEXT_SETTINGS
        )(function)
        complete_values(command.params)
        command.params += [storage_option(), debug_option()] if takes_path else [debug_option()]
        return command

    return decorate


def meta_folder_option(function: F) -> F:
    """Add ``--meta-folder``, which names the folder to use instead of a dataset's ``.nv-meta``."""
    add = click.option("--meta-folder", metavar="DIR", help="Folder to use instead of PATH/.nv-meta.")
    return add(function)


def dataset_files_options(function: F) -> F:
    """Add ``--dataset-config``, ``--split-config`` and ``--meta-folder``, which name a dataset's files."""
    function = meta_folder_option(function)
    for option, name, title in (
        ("--split-config", "split.yaml", "split file"),
        ("--dataset-config", "dataset.yaml", "dataset file"),
    ):
        add = click.option(
            option, metavar="NAME", default=name, show_default=True, help=f"Name of the {title} in .nv-meta."
        )
        function = add(function)
    return function


def progress_option(command: F) -> F:
    """Add ``--progress/--no-progress``, as a parameter that is None without the flag."""
    return click.option(
        "--progress/--no-progress",
        default=None,
        help="Show a progress bar on a terminal; in a log, a line every 30 s, or every 5 s with --progress.",
    )(command)


def worker_options(function: F) -> F:
    """Add ``--num-workers``, and ``--tmp-path``, which has no effect."""
    function = click.option(
        "--tmp-path", metavar="DIR", help="Ignored; accepted for compatibility with megatron-energon."
    )(function)
    return click.option(
        "--num-workers",
        metavar="N",
        type=click.IntRange(min=0),
        help="Number of worker processes.  [default: one per core]",
    )(function)


def trust_code_option(function: F) -> F:
    """Add ``--trust-code``, without which a dataset runs no code."""
    add = click.option(
        "--trust-code", is_flag=True, envvar="ENERGON_TRUST_CODE", help="Run Python files of the dataset."
    )
    return add(function)
