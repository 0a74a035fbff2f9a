"""``energon checkpoint redist``: the states of all ranks of a run made into those of another number of ranks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ..command import energon_command

if TYPE_CHECKING:
    from loader.training.states import Redistributed, StateFile

__all__ = ["redist"]

_EXAMPLES = (
    (
        "Let a run go on with 16 ranks",
        "energon checkpoint redist /data/run/step_1000/*.pt /data/run/for_16_ranks --new-world-size 16",
    ),
    (
        "Do so with all files of a folder",
        "energon checkpoint redist /data/run/step_1000 /data/run/for_4_ranks --new-world-size 4",
    ),
)


@energon_command("redist", examples=_EXAMPLES, short_help="Write the states of all ranks for another number of ranks.")
@click.argument("files", metavar="INPUT_FILES...", nargs=-1, required=True)
@click.argument("output_path", metavar="OUTPUT_PATH")
@click.option("--new-world-size", metavar="N", type=click.IntRange(min=1), help="How many ranks there will be.")
@click.option("--place", metavar="PLACE", help="Where the states lie, in files with those of several loaders.")
@click.option("--overwrite", is_flag=True, help="Replace files that are in OUTPUT_PATH already.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def redist(
    files: tuple[str, ...],
    output_path: str,
    *,
    new_world_size: int | None,
    place: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Make the states of all ranks of a run, in INPUT_FILES, into those of another number of ranks.

    Files with a state each become files with a state each in the folder OUTPUT_PATH, named alike, which the new ranks
    restore each for itself: loader.restore_state_rank(). A list of all states in one file becomes such a list. The new
    ranks together get exactly the batches that would have come.

    Any number will do that divides the number of lanes; energon checkpoint info lists them. Without --new-world-size it
    is asked for. Only the loader's states are written, nothing that lay beside them.
    """
    from loader.training.states import redistribute_files

    from ..console import escape_controls, output_console, plural, print_json

    if not output_path:
        raise click.UsageError("OUTPUT_PATH is empty. Is a variable of the shell not set?")
    read = _read(files, place)
    done = redistribute_files(read, new_world_size or _asked_for(read), output_path, overwrite=overwrite)
    if done.dropped:
        names = ", ".join(done.dropped[:8]) + " …" * (len(done.dropped) > 8)
        click.echo(escape_controls(f"note: not written, since it lay beside the states: {names}"), err=True)
    if as_json:
        print_json(_document(done))
        return
    goes = "goes" if done.ranks == 1 else "go"
    text = f"{plural(done.ranks, 'rank')} instead of {done.ranks_before:,} {goes} on at micro-batch {done.batch:,}: "
    text += f"wrote {plural(len(done.files), 'file')} to {done.folder} ({_listed(done)})"
    output_console().print(escape_controls(text), soft_wrap=True, style="green")


def _read(paths: tuple[str, ...], place: str | None) -> list[StateFile]:
    from loader.errors import EnergonError

    from .files import read_state_files

    files = []
    for _, found in read_state_files(paths, place=place):
        if isinstance(found, EnergonError):
            raise found
        files.append(found)
    return files


def _asked_for(files: list[StateFile]) -> int:
    """Ask for the number of ranks, on a terminal or in a line of standard input."""
    from loader.training.states import ranks_of_run

    from ..console import is_terminal

    possible = ranks_of_run(files[0].states[0].state)
    allowed = "any number" if possible is None else ", ".join(map(str, possible))
    try:
        asked: int = click.prompt(f"New number of ranks ({allowed})", type=click.IntRange(min=1), err=True)
    except click.Abort:
        if is_terminal(sys.stdin):
            raise KeyboardInterrupt from None  # which click takes for the same as the end of the input
        raise click.UsageError(f"Say how many ranks there will be: --new-world-size N; N is {allowed}.") from None
    return asked


def _document(done: Redistributed) -> dict[str, object]:
    return {
        "ranks_before": done.ranks_before,
        "ranks": done.ranks,
        "batch": done.batch,
        "folder": done.folder,
        "files": list(done.files),
        "left_out": list(done.dropped),
    }


def _listed(done: Redistributed) -> str:
    return done.files[0] if len(done.files) == 1 else f"{done.files[0]} … {done.files[-1]}"
