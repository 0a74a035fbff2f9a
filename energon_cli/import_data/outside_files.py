"""Ask about the files outside of the sources of ``energon import``, or end the command before it writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import click

from loader.convert.rows import FileAccess, RefusedFiles
from loader.inspect import plural

from ..console import escape_controls
from .flags import ImportFlags

_STOP = "stop, and write nothing"


def settle_outside_files(flags: ImportFlags, access: FileAccess) -> ImportFlags:
    """Return the flags with the decisions on files that the listing has refused; unchanged if all is decided.

    Raises:
        click.UsageError: Files are refused, no flag decides on them, and there is no terminal to ask on.
        click.exceptions.Exit: The user leaves.
    """
    if access.links.count and flags.follow_links is None:
        found = _sentence(access.links, "link", "leads out of its folder", "lead out of their folders")
        flags = replace(flags, follow_links=_answer(flags, found, "follow_links"))
    if access.paths.count and flags.allow_outside is None:
        found = _sentence(
            access.paths, "path", "of a table leads out of its folder", "of tables lead out of their folders"
        )
        flags = replace(flags, allow_outside=_answer(flags, found, "allow_outside", root=access.paths.parent))
    return flags


def _sentence(refused: RefusedFiles, noun: str, one: str, several: str) -> str:
    verb = one if refused.count == 1 else several
    example, parent = map(escape_controls, (refused.example, refused.parent))
    return f"{plural(refused.count, noun)} {verb}, to {parent}, such as {example}"


def _answer(flags: ImportFlags, found: str, flag: Literal["follow_links", "allow_outside"], *, root: str = "") -> bool:
    option = flag.replace("_", "-")
    if not flags.asks_by_menus:
        others = "leaves them out" if flag == "follow_links" else "lets their rows fail"
        ways = f"--{option} imports these files, --no-{option} {others}"
        if root not in ("", "/") and flags.root is None:
            ways = f"--root {escape_controls(root)} names that folder; {ways}"
        raise click.UsageError(f"{found}; nothing was written. {ways}")
    from ..prepare.prompts import GoBack, select

    refuse = "leave them out" if flag == "follow_links" else "let their rows fail"
    allow = f"import these files (--{option})"
    try:
        answer = select(f"{found}. Import these files?", [refuse, allow, _STOP])
    except GoBack:
        answer = _STOP
    if answer == _STOP:
        click.echo("nothing was written", err=True)
        raise click.exceptions.Exit(1)
    return answer == allow
