"""``energon checkpoint migrate``: continue a saved run with an edited mix of datasets."""

from __future__ import annotations

import click

from ..command import energon_command
from ..options import shared_options


@energon_command(
    "migrate",
    short_help="Continue a saved run with an edited mix of datasets.",
    takes_path=False,
)
@click.argument("files", metavar="INPUT_FILES...", nargs=-1, required=True)
@click.argument("dataset", metavar="NEW_MIX")
@click.argument("output_path", metavar="DEST")
@shared_options("place", "task_encoder", "trust_code", "force_overwrite", "json")
def migrate(
    files: tuple[str, ...],
    dataset: str,
    output_path: str,
    *,
    place: str | None,
    task_encoder: str | None,
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

    from ..console import output_console, print_json, show_warning
    from .files import note_dropped, read_states_to_convert, written_files

    read = read_states_to_convert(files, place)
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
