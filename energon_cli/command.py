"""Click commands and groups of ``energon``: lazy imports, examples in ``--help``, and options that commands share."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from .completion import complete_values
from .environment import name_variables, options_from_environment, variables_note
from .options import COMMON_OPTIONS, common_options, suggest_choices
from .settings import name_program, output_settings, scoped_settings

CONTEXT_SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}

_HELP_ALL = "energon_cli.help_all"
"""Key in the context of whether ``--help-all`` was given."""
_WORDS = "energon_cli.words"
"""Key in the context of the words behind the name of the command."""
_BRIEF_PARAGRAPHS, _BRIEF_EXAMPLES = 2, 3  # of a help that is to fit two screens


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that is imported on first use.

    Args:
        place: Its module, relative to ``energon_cli.commands``, a colon, and its name in the module.
        short_help: Its line in the help of the group.
    """

    place: str
    short_help: str


class _NamesVariables(click.Command):
    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        # Click caches the help option with the names of the first context that requests it.
        return ["-h", "--help"]

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with scoped_settings():  # of a command that a program runs itself, such as megatron.energon.tools.prepare
            return super().main(*args, **kwargs)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        parameters = super().get_params(ctx)
        name_variables(ctx, parameters)
        return parameters


class LazyGroup(_NamesVariables, click.Group):
    """A group that lists its commands without importing their modules.

    Args:
        lazy_commands: The commands, by name.
        examples: Pairs of a description and a command line, shown at the end of the help.
        words: Other words for commands, which messages about them name.
    """

    def __init__(
        self,
        *args: Any,
        lazy_commands: Mapping[str, LazyCommand],
        examples: Sequence[tuple[str, str]] = (),
        words: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy_commands = dict(lazy_commands)
        self.examples = tuple(examples)
        self.words = dict(words or {})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_options(ctx, formatter, self.get_params(ctx))
        self.format_commands(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.lazy_commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        lazy = self.lazy_commands.get(cmd_name)
        if lazy is None:
            return None
        module, _, attribute = lazy.place.partition(":")
        command: click.Command = getattr(importlib.import_module(module, "energon_cli.commands"), attribute)
        command.short_help = lazy.short_help
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] == "help":  # `energon help lint` is `energon lint --help`
            if not args[1:]:
                click.echo(ctx.get_help(), color=ctx.color)
                ctx.exit()
            args = [*args[1:], "--help"]
        if args and args[0] not in self.lazy_commands and args[0][:1] != "-":
            guess = self._guess(args[0], args[1:])
            line = shlex.join(guess) if guess else ""
            hint = f"Did you mean: {ctx.command_path} {line}" if line else f"Commands: {', '.join(self.lazy_commands)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def _guess(self, word: str, rest: Sequence[str]) -> list[str]:
        from difflib import get_close_matches

        word_ = word.lower()
        near = [word_] if word_ in self.words else get_close_matches(word_, self.lazy_commands, n=1)
        near = near or get_close_matches(word_, self.words, n=1)
        if near:
            return [self.words.get(near[0], near[0]), *rest]
        is_path = "info" in self.lazy_commands and ("://" in word or os.path.exists(word))
        return ["info", word, *rest] if is_path else []

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.short_help) for name, lazy in self.lazy_commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        if self.examples:
            _write_examples(formatter, self.examples)


def command_line(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command line as quoted words, without secrets."""
    from loader.format.documents import quoted

    return "energon", *(quoted(without_secrets(word)) for word in arguments)


def without_secrets(word: str) -> str:
    """Return a word of a command line without users and queries of URLs; no option takes other secrets."""
    return re.sub(r"://(?:[^/@?]*@)?([^?]*).*", r"://\1", word)


def typed_options(ctx: click.Context, *, apart_from: Sequence[str]) -> list[str]:
    """Return the options of the command line that is run, as words.

    Args:
        apart_from: Options with their values, which replace the typed ones, unless an option may be repeated.
    """
    parser, words = ctx.command.make_parser(ctx), list[str]()
    replaced = {option.name for option in parser.parse_args([*apart_from])[2] if not option.multiple}
    values, _, order = parser.parse_args([*ctx.meta[_WORDS]])
    for option in dict.fromkeys(order):
        if not isinstance(option, click.Option) or option.name in replaced:
            continue
        given = values[option.name or ""]
        names = option.opts if given is not False else option.secondary_opts
        for value in given if option.multiple else [given]:
            words += [max(names, key=len)] if option.is_flag else [max(names, key=len), str(value)]
    return words


class ExampleCommand(_NamesVariables):
    """A command whose help ends with examples.

    Args:
        examples: Pairs of a description and a command line.
        advanced: Names of parameters that only ``--help-all`` shows; then ``--help`` is brief in other respects, too.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[tuple[str, str]] = (),
        advanced: Collection[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.advanced = frozenset(advanced)
        if advanced:
            self.params.append(_help_all_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = [*args]
        try:
            rest = super().parse_args(ctx, args)
        except click.MissingParameter as error:
            raise click.UsageError(self._missing(error.param), ctx) from error
        self._check_not_empty(ctx)
        return rest

    def _check_not_empty(self, ctx: click.Context) -> None:
        for parameter in self.params:
            given = ctx.params.get(parameter.name or "")
            is_path = isinstance(parameter, click.Argument) and parameter.type is not click.UNPROCESSED
            if (is_path or parameter.name == "output") and (given == "" or (isinstance(given, tuple) and "" in given)):
                raise click.UsageError(f"{_metavar(parameter)} is empty. Check whether a shell variable is unset.", ctx)

    def _missing(self, parameter: click.Parameter | None) -> str:
        """Name what the command line lacks: of words for SOURCE… DEST, the last one."""
        following = [word for word in self.params if isinstance(word, click.Argument) and word.nargs == 1]
        if isinstance(parameter, click.Argument) and parameter.nargs == -1 and following:
            parameter = following[-1]
        name = "an argument" if parameter is None else _metavar(parameter)
        flag = f"{parameter.opts[0]} " if isinstance(parameter, click.Option) else ""
        role = ", the new folder, file or URL to write" if name == "DEST" else ""
        example = f" Example: {name_program(self.examples[0][1])}" if self.examples else ""  # python -OO drops them
        return f"Missing {flag}{name}{role}.{example}"

    def _is_brief(self, ctx: click.Context) -> bool:
        return bool(self.advanced) and not ctx.meta.get(_HELP_ALL)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        text = self.help
        if text and self._is_brief(ctx):
            self.help = "\n\n".join(inspect.cleandoc(text).split("\n\n")[:_BRIEF_PARAGRAPHS])
        try:
            super().format_help_text(ctx, formatter)
        finally:
            self.help = text

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        parameters = self.get_params(ctx)
        if self._is_brief(ctx):
            hidden = self.advanced | {*COMMON_OPTIONS}
            shown = [parameter for parameter in parameters if parameter.name not in hidden]
            with formatter.section("Options"):
                formatter.write_dl([record for parameter in shown if (record := _record(parameter, ctx))])
        else:
            _write_options(ctx, formatter, parameters)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(formatter, self.examples[:_BRIEF_EXAMPLES] if self._is_brief(ctx) else self.examples)

    def invoke(self, ctx: click.Context) -> Any:
        if output_settings().verbosity:
            from .console import show_note

            for flag, variable in options_from_environment(ctx):
                show_note(f"{flag} is set by {variable}")
        from loader.engine import COMMAND_LINE
        from loader.storage import few_tries

        token = COMMAND_LINE.set(partial(command_line, ctx.find_root().obj or ()))
        ctx.call_on_close(partial(COMMAND_LINE.reset, token))
        with few_tries():
            try:
                return super().invoke(ctx)
            except Exception as error:
                from loader.engine import AlreadyDoneError, ShareDone

                if isinstance(error, ShareDone):
                    _show_share(error)
                elif isinstance(error, AlreadyDoneError):
                    _show_done(str(error.at), as_json=bool(ctx.params.get("as_json")))
                else:
                    raise
                return None


def _show_share(done: Any) -> None:
    """Print that a share of a command is done, and the command that joins all shares."""
    from loader.engine import command_with
    from loader.errors import plural

    from .console import output_console

    before = f"; {done.tasks - done.ran:,} of them had been done" if done.ran < done.tasks else ""
    console = output_console()
    console.print(f"share {done.share} is done: {plural(done.tasks, 'task')}{before}")
    console.print(f"when all shares are done: {command_with('--merge', command='')}")


def _show_done(output: str, *, as_json: bool) -> None:
    from loader.errors import escape_controls

    from .console import output_console, print_json

    if as_json:
        print_json({"output": output, "already_done": True})
    else:
        output_console().print(f"already done: {escape_controls(output)}")


def _metavar(parameter: click.Parameter) -> str:
    return (parameter.metavar or parameter.name or "").rstrip("….").strip("[]").partition("…")[0].upper()


def _help_all_option() -> click.Option:
    def show(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.meta[_HELP_ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show, help="Show all options."
    )


def _record(parameter: click.Parameter, ctx: click.Context) -> tuple[str, str] | None:
    return parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None


def _write_examples(formatter: click.HelpFormatter, examples: Sequence[tuple[str, str]]) -> None:
    with formatter.section("Examples"):
        for position, (description, line) in enumerate(examples):
            if position:
                formatter.write_paragraph()
            formatter.write_text(f"{description}:")
            formatter.write(f"{'':>{formatter.current_indent + 2}}{name_program(line)}\n")


def _write_options(ctx: click.Context, formatter: click.HelpFormatter, parameters: Sequence[click.Parameter]) -> None:
    sections: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    for parameter in parameters:
        record = _record(parameter, ctx)
        if record is not None:
            is_common = parameter.name in COMMON_OPTIONS or parameter.is_eager  # --help and --version are eager
            sections[is_common].append(record)
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

        # The names in Python have underscores; both spellings are accepted.
        pairs = [value.partition("=") for value in values]
        if not all(separator for _, separator, _ in pairs):
            raise click.BadParameter("expected KEY=VALUE, such as endpoint_url=https://minio.local")
        try:
            remember_options("", {name.replace("-", "_"): value for name, _, value in pairs})
        except ConfigError as error:
            raise click.BadParameter(f"{error.message}; {error.hint}" if error.hint else error.message) from error

    # The callback stores the options for this process: every storage that is opened later uses them.
    return click.Option(
        ["--storage-option"],
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=remember,
        help="Set an option of object stores: endpoint_url, region, profile, anonymous …  [repeatable]",
    )


def energon_command(
    name: str, *, takes_path: bool = True, advanced: Collection[str] = ()
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that turns a function into a command with help, the common options and completion.

    The section ``Examples`` of the function's docstring, of descriptions and command lines, is shown at the end.

    Args:
        name: Name of the command.
        takes_path: It reads datasets, and takes ``--storage-option``.
        advanced: Names of the parameters that only ``--help-all`` shows.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        text, _, section = inspect.cleandoc(function.__doc__ or "").partition("\nExamples:\n")
        lines = [line.strip() for line in section.splitlines()]
        command: click.Command = click.command(
            name,
            cls=ExampleCommand,
            help=text,
            examples=[*zip([line.rstrip(":") for line in lines[::2]], lines[1::2], strict=True)],
            advanced=advanced,
            context_settings=CONTEXT_SETTINGS,
        )(function)
        if takes_path:
            command.params.append(storage_option())
        add_common_options(command)
        return command

    return decorate
