"""Click commands and groups of ``energon``: lazy imports, examples in ``--help``, and options that commands share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from .completion import complete_values
from .environment import name_variables, options_from_environment, variables_note
from .options import COMMON_OPTIONS, common_options, suggest_choices
from .settings import output_settings
from .sizes import parse_size

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

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        parameters = super().get_params(ctx)
        name_variables(ctx, parameters)
        return parameters

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_options(ctx, formatter, self.get_params(ctx))
        self.format_commands(ctx, formatter)

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

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        parameters = super().get_params(ctx)
        name_variables(ctx, parameters)
        return parameters

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_options(ctx, formatter, self.get_params(ctx))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        _write_examples(formatter, self.examples)

    def invoke(self, ctx: click.Context) -> Any:
        if output_settings().verbosity:
            from .console import show_note

            for flag, variable in options_from_environment(ctx):
                show_note(f"{flag} is set by {variable}")
        return super().invoke(ctx)


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[tuple[str, str]]) -> None:
    with formatter.section("Examples"):
        for number, (description, line) in enumerate(examples):
            if number:
                formatter.write_paragraph()
            formatter.write_text(f"{description}:")
            formatter.write(f"{'':>{formatter.current_indent + 2}}{line}\n")


def _write_options(ctx: click.Context, formatter: click.HelpFormatter, parameters: Sequence[click.Parameter]) -> None:
    """Write the options of a command, then those of all commands and the rule of the variables."""
    sections: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    for one in parameters:
        record = one.get_help_record(ctx)
        if record is not None and isinstance(one, click.Option):  # arguments are in the usage line
            sections[one.name in COMMON_OPTIONS or one.is_eager].append(record)  # --help and --version are eager
    for is_common, records in sections.items():
        if records:
            with formatter.section("Common options" if is_common and sections[False] else "Options"):
                formatter.write_dl(records)
    note = variables_note(ctx, parameters)
    if note is not None:
        with formatter.section("Environment"):
            formatter.write_text(note)


def add_common_options(command: click.Command) -> None:
    """Add the options of all commands, and completion and suggestions of values."""
    complete_values(command.params)
    suggest_choices(command.params)
    taken = [flag for option in command.params for flag in (*option.opts, *option.secondary_opts)]
    command.params += common_options(taken)


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
    """Return a decorator that turns a function into a command with help, the common options and completion.

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
        if takes_path:
            command.params.append(storage_option())
        add_common_options(command)
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


def max_json_option(default: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--max-json-bytes``, the limit of the JSON parts that are parsed."""
    return click.option(
        "--max-json-bytes",
        metavar="SIZE",
        callback=parse_size,
        default=default,
        show_default=True,
        help="Do not parse larger JSON parts, but name them.",
    )


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
