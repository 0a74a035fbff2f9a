"""Offer to import what is not a folder of shards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import click

from loader.errors import escape_controls
from loader.format.documents import content_of_folder, fault_of_file, new_folder_for
from loader.storage import is_url

from .flags import PrepareFlags

if TYPE_CHECKING:
    from ....command import LazyGroup

_SHARED = ("split_ratio", "sample_type", "field_map", "dry_run", "compat", "strict", "num_workers")
"""Flags that both commands have; None and False are their defaults."""


def offer_import(flags: PrepareFlags) -> str | None:
    """Offer to import a path that holds no shards; return the folder of the dataset, None for the path itself."""
    # Only people on a terminal are asked, and only about files that are no shards.
    path = flags.ref.path
    if not flags.asks_by_menus or flags.as_json or is_url(path) or os.path.exists(os.path.join(path, ".nv-meta")):
        return None
    content = content_of_folder(path) if os.path.isdir(path) else "files" if fault_of_file(path) else "nothing"
    if content not in ("tables", "media", "files"):
        return None
    from loader.convert.sources import ways_to_import

    from ..prompts import select_or_leave

    target = new_folder_for(path)
    # Each way to import is offered with all proposals and with questions.
    choices: dict[str, tuple[Sequence[str], bool] | None] = {}
    for way in ways_to_import(path):
        if way.is_import:
            begin = escape_controls(f"import {way.taken or 'them'} to {target}")
            choices[f"{begin}, with all proposals"] = way.words[1:-1], True
            choices[f"{begin}, and ask about the split and the type"] = way.words[1:-1], False
    if not choices:
        return None
    tables, leave = "prepare the tables alone, as they are", "leave, and write nothing"
    choices |= {tables: None} if content == "tables" else {}
    # Ask, and leave if nothing is to be imported.
    what = "files that no sample of a shard has" if content == "tables" else "files, and no shards"
    label = select_or_leave(f"{escape_controls(path)} holds {what}. Make a dataset of them?", [*choices], leave)
    choice = choices[label]
    if choice is None:
        return None
    # Run the import, with the flags that both commands have.
    typed, program = click.get_current_context().params, click.get_current_context().find_root()
    command = cast("LazyGroup", program.command).get_command(program, "import") or program.command
    with command.make_context("import", [*choice[0]], parent=program) as context:
        context.params |= {name: typed[name] for name in _SHARED if typed[name] not in (None, False)}
        context.params["yes"] = choice[1]
        command.invoke(context)
    if flags.dry_run:
        raise click.exceptions.Exit
    return target
