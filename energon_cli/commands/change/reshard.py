"""``energon reshard``: write the samples of a dataset to new shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from loader.errors import plural
from loader.inspect import format_bytes

from ...command import energon_command
from ...console import facts_of, print_json, show_account, show_note, show_warning
from ...dataset_options import copy_options, dataset_options
from ...dataset_paths import check_ref
from ...engine_options import EngineChoice, engine_options
from ...license_option import license_option
from ...options import layout_of, shared_options, shuffle_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.convert import ReshardReport
    from loader.format import DatasetRef


@energon_command("reshard")
@click.argument("path")
@click.argument("dest")
@shared_options("shard_bytes", "samples_per_shard")
@shuffle_options
@click.option("--sort-by", metavar="VALUE", help="Sort by key, or by a value such as jpg.width or json[score].")
@shared_options("split_ratio", help="Split the samples in this ratio.  [default: the split of PATH]")
@shared_options("keep_parts", "drop_parts")
@copy_options
@license_option("dest")
@engine_options
@shared_options("compat", "strict", "progress", "json")
@dataset_options()
def reshard(
    ref: DatasetRef,
    dest: str,
    *,
    sort_by: str | None,
    engine: EngineChoice,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the samples of the dataset at PATH to new shards at DEST, as a prepared dataset.

    PATH may also be a folder of tar shards without metadata, or one such shard. The bytes of parts are copied, and the
    parts of a sample come side by side. Each sample stays in its split part; dataset.yaml, columns and filters move
    along. PATH is not changed.

    Run the same command again after an interruption: shards that are written are kept. The same dataset and flags make
    the same bytes.

    Examples:
        Shuffle all samples once, into shards of 1 GB:
            energon reshard /data/coco /data/coco_shuffled --shuffle
        Write smaller shards:
            energon reshard /data/coco /data/small --shard-size 200MB --samples-per-shard 2000
        Sort by a value, for batches of like lengths:
            energon reshard /data/text /data/sorted --sort-by txt.chars
        Drop parts that no training reads:
            energon reshard /data/coco /data/lean --drop-parts '*.npy,seg.png'
        Keep good samples only:
            energon reshard /data/coco /data/good --where 'jpg.width >= 512'
        Copy to an object store:
            energon reshard /data/coco s3://bucket/coco --shuffle --seed 7
        Publish on the Hugging Face Hub:
            energon reshard /data/coco hf://datasets/me/coco --license cc-by-4.0
        Write a share of the shards in each job of a Slurm array:
            energon reshard /data/coco /data/coco_shuffled --shuffle --share auto
        Commit the shards of all shares:
            energon reshard /data/coco /data/coco_shuffled --shuffle --merge
    """
    from loader.convert import ReshardPlan, run_reshard

    # Without --split-ratio, the new dataset has the split of the old one.
    layout = layout_of(options)
    if layout.shuffle_seed is not None and sort_by is not None:
        raise click.UsageError("Pass --shuffle or --sort-by, not both.")
    # Write the shards, and prepare the dataset that they form.
    with engine.open() as opened:
        plan = ReshardPlan(
            ref=check_ref(ref),
            output=dest,
            layout=layout,
            sort_by=sort_by,
            engine=opened,
            **options,
        )
        with ProgressBar("Writing shards", unit="samples") as bar:
            report = run_reshard(plan, on_progress=lambda now: bar.update(now.samples, now.samples_total))
    _show(report, dest, as_json=as_json)


def _show(report: ReshardReport, dest: str, *, as_json: bool) -> None:
    # The JSON has the facts of the new dataset and of the old one.
    written, prepared = report.written, report.written.prepared
    warnings = (*report.warnings, *prepared.warnings)
    if as_json:
        show_account(written.account)
        document = facts_of(
            report,
            "output written.prepared.samples written.prepared.shards written.size_bytes written.prepared.split "
            "shards_kept_from_interrupted_run=written.resumed renamed_keys=written.renamed excluded without_parts "
            "columns filters warnings seconds written.account",
            output=dest,
            warnings=warnings,
            seconds=round(written.seconds, 3),
        )
        print_json(document)
        return
    # The text has what was written, and what was not.
    show_note(
        f"wrote {plural(prepared.samples, 'sample')} in {plural(prepared.shards, 'shard')}, "
        f"{format_bytes(written.size_bytes)}, to {dest} ({written.seconds:.1f} s)"
    )
    for count, what in (
        (written.resumed, "shards were kept from an interrupted run"),
        (written.renamed, "samples have a new key, since another sample has theirs"),
        (report.excluded, "samples that the split excludes are skipped; --include-excluded copies them"),
    ):
        if count:
            show_note(f"{count:,} {what}")
    for what, names in (("columns", report.columns), ("filters", report.filters)):
        if names:
            show_note(f"{what} moved along: {', '.join(names)}")
    show_warning(*warnings)
    show_account(written.account)
