"""Environment variables of options."""

from __future__ import annotations

from collections.abc import Iterable

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
