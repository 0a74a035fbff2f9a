"""Environment variables of options, and their spellings before 0.3.0, which work until 0.4.0 with a note.

Flags of megatron-energon are no old spellings: commands declare them as further names of their options.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence

import click
from click.core import ParameterSource

from .options import COMMON_OPTIONS

PREFIX = "ENERGON"
_STORAGE_OPTION = "storage_option"
"""``ENERGON_STORAGE_OPTIONS`` sets it, for all programs."""


def name_variables(ctx: click.Context, parameters: Iterable[click.Parameter]) -> None:
    """Name the variable of each option: the prefix, the words of the command, and the flag.

    Options of all commands have one variable without the name of a command, such as ``ENERGON_COLOR``.
    """
    if ctx.auto_envvar_prefix is None:
        return
    for option in parameters:
        if not isinstance(option, click.Option) or option.is_eager or option.name == _STORAGE_OPTION:
            continue
        option.allow_from_autoenv = False  # click's own names have the parameter's name, not the flag
        if option.envvar is None and (ctx.parent is None or option.name not in COMMON_OPTIONS):
            option.envvar = variable_name(ctx.auto_envvar_prefix, _flag(option))


def variable_name(prefix: str, flag: str) -> str:
    """Return the variable of a flag of the command that a prefix names.

    >>> variable_name("ENERGON_LINT", "--max-findings")
    'ENERGON_LINT_MAX_FINDINGS'
    """
    return f"{prefix}_{flag.lstrip('-').replace('-', '_').upper()}"


def _flag(option: click.Option) -> str:
    return next((name for name in option.opts if name.startswith("--")), option.opts[0])


def variables_note(ctx: click.Context, parameters: Iterable[click.Parameter]) -> str | None:
    """Return the line of the help that has the variables' rule; None if no option has a variable."""
    prefix = ctx.auto_envvar_prefix
    options = [option for option in parameters if isinstance(option, click.Option) and not option.hidden]
    named = [
        option for option in options if prefix is not None and option.envvar == variable_name(prefix, _flag(option))
    ]
    if not named:
        return None
    return f"Variables of the environment set options, too: {named[0].envvar} sets {_flag(named[0])}."


def options_from_environment(ctx: click.Context) -> list[tuple[str, str]]:
    """Return the flags that variables set in a context, each with its variable."""
    return [
        (_flag(option), str(option.envvar))
        for option in ctx.command.params
        if isinstance(option, click.Option)
        and option.name
        and ctx.get_parameter_source(option.name) is ParameterSource.ENVIRONMENT
    ]


def explain_source(error: click.UsageError) -> None:
    """Add the variable to a message about an option that it sets."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return
    name, variable = error.param.name, error.param.envvar
    if name and variable and error.ctx.get_parameter_source(name) is ParameterSource.ENVIRONMENT:
        vars(error)["message"] = f"{error.message} The variable {variable} of the environment sets it."


_RUN = {"--split-part": "--split-parts", "--seed-offset": "--seed"}
_QUERY = {"--split-part": "--split-parts"}
OLD_SPELLINGS: dict[str, dict[str, str]] = {
    "add-parts": {"--key": "--key-column"},
    "analyze-debug": _RUN,
    "checkpoint migrate": {"--overwrite": "--force-overwrite"},
    "checkpoint redist": {"--overwrite": "--force-overwrite"},
    "diff": _QUERY,
    "exclude": {**_QUERY, "--column": "--key-column"},
    "explain": _RUN,
    "export": {**_QUERY, "--keep-parts": "--parts"},
    "extract": _QUERY,
    "import": {"--key": "--key-column", "--shuffle": "--shuffle --seed N"},
    "lint": {"--parallel": "--num-workers"},
    "mount": _QUERY,
    "preview": {"-n": "--limit", "--key": "KEY"},
    "reshard": {**_QUERY, "--keep-parts": "--parts", "--shuffle": "--shuffle --seed N"},
    "split": {"--by": "--split-by", "--part": "--duplicates-of"},
    "stats": {**_QUERY, "--dedupe": "--duplicates", "--dedupe-part": "--duplicates-of", "--sample": "--limit"},
    "trace": _RUN,
}
"""For each command, the old flag → the new one. ``N`` and ``KEY`` mark where its value goes.

Of a flag that the command still has, such as ``--parallel`` of megatron-energon, only the variable is old, or a value.
"""


def replace_old_spellings(ctx: click.Context, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of a command in new spellings, after what old variables set, and a note for each old one."""
    # Find the old spellings of this command, by its name and the names of its groups.
    words, parent = [], ctx
    while parent.parent is not None:
        words.append(parent.info_name or "")
        parent = parent.parent
    replacements = OLD_SPELLINGS.get(" ".join(reversed(words)), {})
    if not replacements:
        return list(arguments), []
    options = {
        flag: option for option in ctx.command.params if isinstance(option, click.Option) for flag in option.opts
    }
    set_, notes = _from_variables(ctx.auto_envvar_prefix or "", replacements, options, arguments)
    # Replace the flags up to "--"; a value that is an argument now goes behind the others.
    done, keys, rest = [], [], deque(arguments)
    while rest and rest[0] != "--":
        word = rest.popleft()
        flag, equals, value = word.partition("=")
        new = replacements.get(flag, "")
        *flags, last = new.split() or [""]
        if not equals and rest:
            value = rest[0]
        if not last.isupper():
            is_old = bool(new) and flag not in options
            done.append(f"{new}{equals}{value if equals else ''}" if is_old else word)
        elif is_old := _is_number(value) if last == "N" else bool(value):
            if not equals:
                rest.popleft()
            if flags:
                done += [*flags[:-1], f"{flags[-1]}={value}"]
            else:
                keys.append(value)
        else:
            done.append(word)
        if is_old:
            notes.append(f"{flag} is an old spelling, which works until 0.4.0: write {new}")
    tail = ["--", *list(rest)[1:], *keys] if rest or keys else []
    return [*set_, *done, *tail], notes


def _from_variables(
    prefix: str, replacements: dict[str, str], options: dict[str, click.Option], arguments: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the arguments that old variables set, unless the command line or a new variable does, and notes."""
    made, notes = [], []
    given = {word.partition("=")[0] for word in arguments}
    # Read each old variable that is set. A text that is no number is for the new option, which has the old name.
    for old, new in replacements.items():
        variable = variable_name(prefix, old)
        text = os.environ.get(variable, "")
        *flags, last = new.split()
        if not text or (last == "N" and not _is_number(text)):
            continue
        if last == "KEY":  # the argument itself reads the variable
            notes.append(f"{variable} works until 0.4.0: write the key behind PATH")
            continue
        # Name the new variable, which takes precedence, as does the command line.
        flag = flags[-1] if last == "N" else last
        option, now = options[flag], variable_name(prefix, flag)
        notes.append(f"{variable} works until 0.4.0: set {now}")
        if given & {old, *option.opts, *option.secondary_opts} or now in os.environ:
            continue
        # Write the value as arguments: flags have none, and repeatable options several.
        if option.is_flag:
            made += [flag] if click.BOOL.convert(text, option, None) else []
        else:
            values = text.split() if option.multiple else [text]
            made += [*flags[:-1], *(f"{flag}={value}" for value in values)]
    return made, notes


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
