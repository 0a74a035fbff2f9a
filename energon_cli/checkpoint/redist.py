"""``energon checkpoint redist``: convert the states of a run to another number of ranks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..command import energon_command
from ..options import shared_options

if TYPE_CHECKING:
    from loader.training.states import Redistributed, StateFile


@energon_command(
    "redist",
    short_help="Convert the states of all ranks to another number of ranks.",
    takes_path=False,
)
@click.argument("files", metavar="INPUT_FILES...", nargs=-1, required=True)
@click.argument("output_path", metavar="DEST")
@click.option("--new-world-size", metavar="N", type=click.IntRange(min=1), help="New number of ranks.")
@shared_options("place", "force_overwrite", "json")
def redist(
    files: tuple[str, ...],
    output_path: str,
    *,
    new_world_size: int | None,
    place: str | None,
    force_overwrite: bool,
    as_json: bool,
) -> None:
    """Convert the states of all ranks of a run, in INPUT_FILES, to another number of ranks.

    One file per rank becomes one file per new rank in the folder DEST, with similar names; each rank restores
    its own with loader.restore_state_rank(). A single file with a list of all states becomes a single file. Together,
    the new ranks continue with exactly the same batches.

    The new number must divide the number of lanes; energon checkpoint info lists the choices. Without --new-world-size,
    the command prompts for it. Only the states are written; other contents of INPUT_FILES are not copied. A checkpoint
    of Lightning is copied whole, with the states of its loaders replaced.

    Examples:
        Convert the states of a run to 16 ranks:
            energon checkpoint redist /data/run/step_1000/*.pt /data/run/for_16_ranks --new-world-size 16
        Convert all files of a folder:
            energon checkpoint redist /data/run/step_1000 /data/run/for_4_ranks --new-world-size 4
    """
    from loader.errors import escape_controls
    from loader.inspect import plural
    from loader.training.states import redistribute_files

    from ..console import output_console, print_json
    from .files import note_dropped, read_states_to_convert, written_files

    read = read_states_to_convert(files, place)
    done = redistribute_files(read, new_world_size or _prompt_for_ranks(read), output_path, overwrite=force_overwrite)
    note_dropped(done)
    if as_json:
        print_json(_document(done))
        return
    text = f"converted {plural(done.ranks_before, 'rank')} to {done.ranks:,} at micro-batch {done.batch:,}: "
    text += written_files(done)
    output_console().print(escape_controls(text), style="green")


def _prompt_for_ranks(files: list[StateFile]) -> int:
    """Prompt for the number of ranks, on a terminal or from a line of standard input."""
    from loader.training.states import ranks_of_run

    from ..console import is_terminal

    possible = ranks_of_run(files[0].states[0].state)
    allowed = "any number" if possible is None else ", ".join(map(str, possible))
    try:
        asked: int = click.prompt(f"New number of ranks ({allowed})", type=click.IntRange(min=1), err=True)
    except click.Abort:
        if is_terminal(sys.stdin):
            raise KeyboardInterrupt from None  # click raises Abort for Ctrl-C and for the end of the input
        raise click.UsageError(f"Pass --new-world-size N; allowed: {allowed}.") from None
    return asked


def _document(done: Redistributed) -> dict[str, object]:
    return {
        "ranks_before": done.ranks_before,
        "ranks": done.ranks,
        "batch": done.batch,
        "folder": done.folder,
        "files": done.files,
        "left_out": list(done.dropped),
    }
