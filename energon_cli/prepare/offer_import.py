"""Offer to import files that are no shards, before ``energon prepare`` fails on them."""

from __future__ import annotations

import os
from typing import Any, cast

import click

from loader.format.documents import content_of_folder, fault_of_file, new_folder_for
from loader.storage import is_url

from ..console import escape_controls, output_console
from .flags import PrepareFlags

_PROPOSALS, _QUESTIONS, _AS_IT_IS, _LEAVE = "proposals", "questions", "prepare", "leave"
_SHARED = ("split_ratio", "sample_type", "field_map", "dry_run", "compat", "num_workers", "progress", "strict")
"""Flags that both commands have; None and False are their defaults."""


def offer_import(flags: PrepareFlags) -> str | None:
    """On a terminal, offer to import a path that holds no shards; return the folder of the dataset, None for the path.

    Raises:
        click.exceptions.Exit: The user leaves, or only wanted to see the plan.
    """
    path = flags.path
    if not flags.asks_by_menus or flags.as_json or is_url(path) or os.path.exists(os.path.join(path, ".nv-meta")):
        return None
    content = content_of_folder(path) if os.path.isdir(path) else "files" if fault_of_file(path) else "nothing"
    if content not in ("tables", "media", "files"):
        return None
    target = new_folder_for(path)
    choice = _ask(path, target, content)
    if choice == _AS_IT_IS:
        return None
    if choice == _LEAVE:
        output_console().print("nothing was written")
        raise click.exceptions.Exit(1)
    given = {name: getattr(flags, name) for name in _SHARED if getattr(flags, name) not in (None, False)}
    _import(path, target, {**given, "yes": choice == _PROPOSALS})
    if flags.dry_run:
        raise click.exceptions.Exit
    return target


def _ask(path: str, target: str, content: str) -> str:
    from .prompts import GoBack, select

    choices = {
        f"import them to {target}, with all proposals": _PROPOSALS,
        f"import them to {target}, and ask about the split and the type": _QUESTIONS,
        **({"prepare the tables alone, as they are": _AS_IT_IS} if content == "tables" else {}),
        "leave, and write nothing": _LEAVE,
    }
    labels = {escape_controls(label): choice for label, choice in choices.items()}
    what = "files that no sample of a shard has" if content == "tables" else "files, and no shards"
    try:
        return labels[select(f"{escape_controls(path)} holds {what}. Make a dataset of them?", [*labels])]
    except GoBack:
        return _LEAVE


def _import(path: str, target: str, settings: dict[str, Any]) -> None:
    program = click.get_current_context().find_root()
    command = cast("click.Group", program.command).get_command(program, "import")
    if command is None:
        raise LookupError("there is no command import")
    with command.make_context("import", [path, target], parent=program) as context:
        context.params.update(settings)
        command.invoke(context)
