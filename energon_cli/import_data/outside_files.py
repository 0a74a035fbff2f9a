"""Ask about the files outside of the sources of ``energon import``, or end the command before it writes."""

from __future__ import annotations

from dataclasses import replace

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
    links, paths = access.links, access.paths
    if links.count and flags.follow_links is None:
        verb = "leads out of its folder" if links.count == 1 else "lead out of their folders"
        found = f"{plural(links.count, 'link')} {verb}, {_places(links)}"
        flags = replace(flags, follow_links=_imports(flags, found, "follow-links", "leave them out"))
    if paths.count and flags.allow_outside is None:
        verb = "of a table leads out of its folder" if paths.count == 1 else "of tables lead out of their folders"
        found = f"{plural(paths.count, 'path')} {verb}, {_places(paths)}"
        root = f"--root {escape_controls(paths.parent)} names that folder; "
        has_root = flags.root is None and paths.parent != "/"  # which would allow everything
        refuse = "let their rows fail"
        allows = _imports(flags, found, "allow-outside", refuse, other_way=root if has_root else "")
        flags = replace(flags, allow_outside=allows)
    return flags


def _places(refused: RefusedFiles) -> str:
    return f"to {escape_controls(refused.parent)}, such as {escape_controls(refused.example)}"


def _imports(flags: ImportFlags, found: str, option: str, refuse: str, *, other_way: str = "") -> bool:
    """Return True if the user wants these files."""
    allow = f"import these files (--{option})"
    if not flags.asks_by_menus:
        ways = f"{other_way}--{option} imports these files; to {refuse}, pass --no-{option}"
        raise click.UsageError(f"{found}; nothing was written. {ways}")
    from ..prepare.prompts import GoBack, select

    try:
        answer = select(f"{found}. Import these files?", [refuse, allow, _STOP])
    except GoBack:
        answer = _STOP
    if answer == _STOP:
        click.echo("nothing was written", err=True)
        raise click.exceptions.Exit(1)
    return answer == allow
