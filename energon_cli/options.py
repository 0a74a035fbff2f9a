"""Options that every command takes, before and after its name, and messages about wrong values of choices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from .settings import OutputSettings, output_settings

COMMON_OPTIONS = ("quiet", "verbose", "color", "no_progress", "debug")
"""Names of the options of :func:`common_options`."""


def common_options(taken: Iterable[str] = ()) -> list[click.Option]:
    """Create ``--quiet``, ``--verbose``, ``--color``, ``--no-progress`` and ``--debug``.

    Args:
        taken: Flags of the command itself, which keep their meaning.
    """
    taken = set(taken)
    options: list[tuple[list[str], dict[str, Any]]] = [
        (
            ["-q", "--quiet"],
            {"is_flag": True, "callback": _remember(_set_quiet), "help": "Print only results and errors."},
        ),
        (
            ["-v", "--verbose"],
            {
                "count": True,
                "callback": _remember(_set_verbosity),
                "help": "Print messages of the library, time and memory; -vv prints more.",
            },
        ),
        (
            ["--color"],
            {
                "type": _Choice(["auto", "always", "never"]),
                "callback": _remember(_set_color),
                "help": "Use colours and links; auto uses them on terminals.",
            },
        ),
        (
            ["--no-progress"],
            {"is_flag": True, "callback": _remember(_set_no_progress), "help": "Show no progress."},
        ),
        (
            ["--debug"],
            {"is_flag": True, "callback": _remember(_set_debug), "help": "Show the traceback of an error."},
        ),
    ]
    made = []
    for names, settings in options:
        free = [name for name in names if name not in taken]
        if free:
            made.append(click.Option(free, expose_value=False, **settings))
    return made


def _remember(change: Callable[[OutputSettings, Any], None]) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that changes the settings of this run, if the option is given."""

    def callback(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:  # not given after the command's name: the value from before it stays
            settings = output_settings()
            change(settings, value)
            ctx.color = {"always": True, "never": False}.get(settings.color, ctx.color)

    return callback


def _set_quiet(settings: OutputSettings, value: bool) -> None:
    settings.quiet = value


def _set_verbosity(settings: OutputSettings, value: int) -> None:
    settings.verbosity += value
    logging.getLogger("loader").setLevel(settings.log_level)


def _set_color(settings: OutputSettings, value: str) -> None:
    settings.color = value


def _set_no_progress(settings: OutputSettings, value: bool) -> None:
    settings.progress = not value


def _set_debug(settings: OutputSettings, value: bool) -> None:
    settings.debug = value


if TYPE_CHECKING:
    _AnyChoice = click.Choice[str]
else:
    _AnyChoice = click.Choice  # before click 8.2 it takes no type


class _Choice(_AnyChoice):
    """A choice whose message about another value suggests a similar one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            from difflib import get_close_matches

            near = get_close_matches(str(value).lower(), [str(choice) for choice in self.choices], n=1)
            if near:
                vars(error)["message"] = f"{error.message} Did you mean {near[0]!r}?"  # type checkers take it for final
            raise


def suggest_choices(parameters: Iterable[click.Parameter]) -> None:
    """Let messages about wrong values of choices suggest a similar value."""
    for parameter in parameters:
        if type(parameter.type) is click.Choice:
            parameter.type = _Choice(parameter.type.choices, case_sensitive=parameter.type.case_sensitive)
