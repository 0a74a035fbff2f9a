"""``energon checkpoint``: the group of commands for saved states."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ...command import CONTEXT_SETTINGS, LazyCommand, LazyGroup, add_common_options, energon_command
from ...options import shared_options

if TYPE_CHECKING:
    from loader.errors import EnergonError
    from loader.training.states import Redistributed, StateFile


_COMMANDS = {
    "info": LazyCommand(".run.checkpoint_info:info", "Show the progress of a run, and the ranks it can resume on."),
    "migrate": LazyCommand(".run.checkpoint:migrate", "Continue a saved run with an edited mix of datasets."),
    "redist": LazyCommand(".run.checkpoint:redist", "Convert the states of all ranks to another number of ranks."),
}
_EXAMPLES = (
    ("Show the progress of a run", "energon checkpoint info /data/run/step_1000"),
    (
        "Convert the states of a run to 16 ranks",
        "energon checkpoint redist /data/run/step_1000/*.pt /data/run/for_16_ranks --new-world-size 16",
    ),
)


@click.group(
    "checkpoint",
    cls=LazyGroup,
    lazy_commands=_COMMANDS,
    examples=_EXAMPLES,
    context_settings=CONTEXT_SETTINGS,
    no_args_is_help=True,
    short_help="Inspect and redistribute saved states.",
)
def checkpoint() -> None:
    """Inspect states that loaders saved, and convert them to another number of ranks or another mix of datasets.

    A state may be anywhere in a JSON file or a torch.save file, next to models and other data. No code in a file is
    run, and no tensor is loaded.
    """


add_common_options(checkpoint)


# Read the state files named on the command line.


def read_state_files(
    paths: Sequence[str], *, place: str | None = None, allow_edited: bool = False
) -> Iterator[tuple[str, StateFile | EnergonError]]:
    """Read files, and the files directly in folders; yield each path with its contents or an error.

    Files without a state are skipped in folders, since folders of checkpoints also contain models.

    Args:
        paths: The files and folders.
        place: The place of the states within each file; None accepts any place.
        allow_edited: Accept states that were edited.

    Raises:
        StorageError: A folder cannot be read, or contains no file of a kind that can hold states.
    """
    from loader.errors import EnergonError, StateError
    from loader.storage import EPath
    from loader.training.states import list_state_files, read_state_file

    where = f" at {place}" if place else ""
    for path in paths:
        # Read the file, or each file of the folder.
        is_folder = EPath(path).is_dir()
        states = 0
        for name in list_state_files(path) if is_folder else [path]:
            try:
                file = read_state_file(name, place=place, allow_edited=allow_edited)
            except EnergonError as error:
                yield name, error
                states += 1
                continue
            # A named file without a state is an error; in a folder, it is another kind of file.
            if file.states:
                yield name, file
            elif not is_folder:
                yield (
                    name,
                    StateError(
                        f"this file contains no state of a loader{where}",
                        at=name,
                        hint="save one with torch.save({'loader': loader.save_state_rank(), …}, path)",
                    ),
                )
            states += len(file.states)
        if is_folder and not states:
            yield path, StateError(f"no file in this folder contains a state of a loader{where}", at=path)


def read_states_to_convert(paths: Sequence[str], place: str | None, *, allow_edited: bool) -> list[StateFile]:
    """Read files, as :func:`read_state_files` does.

    Raises:
        EnergonError: One of them cannot be read, or contains no state.
    """
    from loader.errors import EnergonError

    files = []
    for _, found in read_state_files(paths, place=place, allow_edited=allow_edited):
        if isinstance(found, EnergonError):
            raise found
        files.append(found)
    return files


def note_dropped(done: Redistributed) -> None:
    """Show which contents of the files were not copied."""
    from ...console import show_note

    if done.left_out:
        names = ", ".join(done.left_out[:8]) + " …" * (len(done.left_out) > 8)
        show_note(f"not copied, since only states are written: {names}")


def written_files(done: Redistributed) -> str:
    """Return the number of new files, with their folder and names."""
    from loader.inspect import plural

    names = done.files[0] if len(done.files) == 1 else f"{done.files[0]} … {done.files[-1]}"
    return f"wrote {plural(len(done.files), 'file')} to {done.folder} ({names})"


# ``energon checkpoint migrate``: continue a saved run with an edited mix of datasets.


@energon_command("migrate", takes_path=False)
@click.argument("files", metavar="INPUT_FILES...", nargs=-1, required=True)
@click.argument("dataset", metavar="NEW_MIX")
@click.argument("output_path", metavar="DEST")
@shared_options("place", "task_encoder", "allow_edited_state", "trust_code", "force_overwrite", "json")
def migrate(
    files: tuple[str, ...],
    dataset: str,
    output_path: str,
    *,
    place: str | None,
    task_encoder: str | None,
    allow_edited_state: bool,
    trust_code: bool,
    force_overwrite: bool,
    as_json: bool,
) -> None:
    """Write the states of all ranks of a run, in INPUT_FILES, so that it continues with the metadataset NEW_MIX.

    Shows what becomes of each dataset. One that stays continues where it stopped: no sample is repeated or skipped. The
    states in DEST restore in a run with NEW_MIX, on any number of ranks, without allow_mix_change. INPUT_FILES
    stay as they are.

    A change that the run cannot follow exactly is refused, and so are states of a pass that ends. A run keeps the unit
    of its weights (blend_weight_unit). A nested blend with a new metric as its unit needs --task-encoder.

    Examples:
        Continue a run with other weights:
            energon checkpoint migrate /data/run/step_1000 /data/mix_2.yaml /data/run/step_1000_mix_2
    """
    from loader.errors import escape_controls
    from loader.inspect.runs import load_task_encoder, migrate_files

    from ...console import output_console, print_json, show_warning

    read = read_states_to_convert(files, place, allow_edited=allow_edited_state)
    encoder = None if task_encoder is None else load_task_encoder(task_encoder)
    done = migrate_files(
        read, dataset, output_path, trust_code=trust_code, overwrite=force_overwrite, task_encoder=encoder
    )
    note_dropped(done.written)
    show_warning(*done.warnings, even_if_quiet=True)  # the states may be those of another run
    if as_json:
        written = done.written
        names = {"folder": written.folder, "files": list(written.files)}
        print_json({"batch": written.batch, "datasets": list(done.leaves), "warnings": list(done.warnings), **names})
        return
    console = output_console()
    for line in done.leaves:
        console.print(escape_controls(line))
    change = f"changes before micro-batch {done.written.batch:,}" if done.leaves else "has not changed"
    text = f"the mix {change}: {written_files(done.written)}"
    console.print(escape_controls(text), style="green")


# ``energon checkpoint redist``: convert the states of a run to another number of ranks.


@energon_command("redist", takes_path=False)
@click.argument("files", metavar="INPUT_FILES...", nargs=-1, required=True)
@click.argument("output_path", metavar="DEST")
@click.option("--new-world-size", metavar="N", type=click.IntRange(min=1), help="New number of ranks.")
@shared_options("place", "allow_edited_state", "force_overwrite", "json")
def redist(
    files: tuple[str, ...],
    output_path: str,
    *,
    new_world_size: int | None,
    place: str | None,
    allow_edited_state: bool,
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

    from ...console import output_console, print_json

    read = read_states_to_convert(files, place, allow_edited=allow_edited_state)
    done = redistribute_files(read, new_world_size or _prompt_for_ranks(read), output_path, overwrite=force_overwrite)
    note_dropped(done)
    if as_json:
        print_json(done)
        return
    text = f"converted {plural(done.ranks_before, 'rank')} to {done.ranks:,} at micro-batch {done.batch:,}: "
    text += written_files(done)
    output_console().print(escape_controls(text), style="green")


def _prompt_for_ranks(files: list[StateFile]) -> int:
    """Prompt for the number of ranks, on a terminal or from a line of standard input."""
    from loader.training.states import ranks_of_run

    from ...console import is_terminal

    possible = ranks_of_run(files[0].states[0].state)
    allowed = "any number" if possible is None else ", ".join(map(str, possible))
    try:
        asked: int = click.prompt(f"New number of ranks ({allowed})", type=click.IntRange(min=1), err=True)
    except click.Abort:
        if is_terminal(sys.stdin):
            raise KeyboardInterrupt from None  # click raises Abort for Ctrl-C and for the end of the input
        raise click.UsageError(f"Pass --new-world-size N; allowed: {allowed}.") from None
    return asked
