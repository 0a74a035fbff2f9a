"""``energon rule``: explain codes of findings and of unused input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from loader.errors import ConfigError

from ...command import energon_command
from ...console import facts_of, output_console, print_json
from ...options import shared_options

if TYPE_CHECKING:
    from rich.console import Console

    from loader.engine import Rule

_TEXTS = ("why", "action", "example")  # are Markdown
_LABEL_WIDTH = 9
_COLOURS = {"error": "red", "failed": "red", "warning": "yellow", "left out": "yellow"}


@energon_command("rule", takes_path=False)
@click.argument("codes", metavar="[CODE]...", nargs=-1)
@shared_options("json")
def rule(codes: tuple[str, ...], *, as_json: bool) -> None:
    """Explain each CODE that a command prints, such as E302; without one, list all codes.

    An explanation has the meaning, the consequences, the fix and an example. Codes of lint begin with E for errors and
    W for warnings. Codes of input that a command did not use begin with L if it was left out, and with F if it failed.

    Examples:
        Explain a code:
            energon rule E302
        List all codes:
            energon rule
        Print explanations as JSON:
            energon rule E302 W305 --json
    """
    from loader.inspect import find_rule, rule_groups

    try:
        rules = [find_rule(code) for code in codes]
    except ConfigError as error:
        raise click.BadParameter(f"{error.message} ({error.hint})", param_hint="CODE") from error
    if as_json:
        print_json([_document(each) for each in rules or (each for group in rule_groups() for each in group.rules)])
        return
    console = output_console()
    for position, each in enumerate(rules):
        if position:
            console.print()
        _show(console, each)
    if not rules:
        _show_all(console)


def _document(rule: Rule) -> dict[str, Any]:
    from loader.engine import plain_text

    texts = {name: plain_text(getattr(rule, name)) for name in _TEXTS}
    return facts_of(rule, "code severity meaning why action example", **texts)


def _show(console: Console, rule: Rule) -> None:
    from rich.text import Text

    document = _document(rule)
    console.print(Text.assemble((f"{rule.severity} {rule.code}", _COLOURS[rule.severity]), f": {rule.meaning}"))
    for label in _TEXTS:
        console.print(Text.assemble("  ", (f"{label + ':':<{_LABEL_WIDTH}}", "cyan"), document[label]))


def _show_all(console: Console) -> None:
    from rich.text import Text

    from loader.inspect import rule_groups

    for group in rule_groups():
        console.print(Text(group.title, style="bold"))
        for rule in group.rules:
            console.print(Text.assemble("  ", (rule.code, _COLOURS[rule.severity]), f"  {rule.meaning}"))
