"""``energon add-parts``: parts added later, in a dataset next to the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural

from ...command import energon_command
from ...console import output_console, print_json, show_account, show_note
from ...dataset_paths import check_path
from ...engine_options import EngineChoice, engine_options
from ...options import flag_option, parse_pairs, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.convert import AddPartsReport


@energon_command("add-parts")
@click.argument("dataset")
@click.argument("output", metavar="DEST")
@click.option(
    "--from", "source", required=True, metavar="SOURCE", help="Read the parts from this folder, table or dataset."
)
@click.option("--metadataset", metavar="FILE", help="Write the metadataset to this file.  [default: DEST.yaml]")
@shared_options("key_column", help="Take the keys from this column of a table.  [default: key or id]")
@click.option(
    "--nonmatch",
    type=click.Choice(["error", "skip", "none"]),
    default="error",
    help="Choose what happens to samples without new parts: none keeps them.",
)
@click.option("--rename", multiple=True, metavar="OLD=NEW", callback=parse_pairs, help="Rename a part.  [repeatable]")
@flag_option("--replace", help="Let new parts replace parts of the same name in samples.")
@click.option("--joiner", metavar="MODULE:NAME", default="loader:join_parts", help="Join by this function or class.")
@engine_options
@shared_options("json", "strict", "progress")
def add_parts(
    dataset: str,
    output: str,
    *,
    engine: EngineChoice,
    as_json: bool,
    **options: Any,
) -> None:
    """Add parts to the samples of the prepared DATASET without a change of its shards.

    The parts become a dataset at DEST, under the keys of the samples that they belong to. A metadataset is written
    and prepared that joins both by key: load it instead of DATASET. SOURCE is a folder of files that are named after
    keys, a .jsonl, .csv or .tsv file with a column of keys, or a prepared dataset. Keys are those that energon preview
    shows, with or without their shard.

    Examples:
        Add the rows of a table, by its column id:
            energon add-parts /data/coco --from new.jsonl --key-column id /data/new
        Add files that are named after keys:
            energon add-parts /data/coco --from embeddings/ /data/coco_embeddings
        Replace captions:
            energon add-parts /data/coco --from new.csv --rename text.txt=txt --replace /data/new
        Skip samples without new parts:
            energon add-parts /data/coco --from masks/ --nonmatch skip /data/coco_masks
        Write a share of the parts in each job of a Slurm array, then join them with --merge:
            energon add-parts /data/coco --from masks/ /data/coco_masks --share auto
    """
    from loader.convert import AddPartsPlan, run_add_parts

    # Write the dataset of the new parts and the metadataset that joins them.
    with engine.open() as opened:
        plan = AddPartsPlan(
            dataset=check_path(dataset),
            output=output,
            engine=opened,
            **options,
        )
        with ProgressBar("Writing parts", unit="samples") as bar:
            report = run_add_parts(plan, on_progress=lambda state: bar.update(state.samples, state.samples_total))
    # Report, with the keys on either side that match nothing.
    show_account(report.account)
    if as_json:
        print_json(report)
    else:
        _show(report)


def _show(report: AddPartsReport) -> None:
    from ..make.import_data.run import describe_changes

    parts = ", ".join(f"{name} {count:,}" for name, count in report.parts.items())
    output_console().print(escape_controls(f"wrote {plural(report.matched, 'sample')} to {report.output}: {parts}"))
    rows = ", ".join(f"{part} {count:,}" for part, count in report.rows.items())
    output_console().print(escape_controls(f"wrote {report.metadataset}, which joins them: {rows} samples"))
    for count, keys, what in (
        (report.missing, report.missing_keys, "samples of the dataset have no new parts"),
        (report.unused, report.unused_keys, "samples of the source belong to none of the dataset"),
    ):
        if count:
            show_note(escape_controls(f"{count:,} {what}: {', '.join(keys)}{' …' if count > len(keys) else ''}"))
    show_note(*describe_changes(report.changed, report.first_changed))
