"""``energon split``: another split of a prepared dataset, and what its parts share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from loader.errors import escape_controls, plural
from loader.inspect import format_percent

from ...command import energon_command
from ...console import output_console, print_json, show_note, show_warning
from ...dataset_options import compute_with_consent, yes_option
from ...dataset_paths import check_path, writable
from ...options import Parsed, flag_option, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.convert import LeakReport, SplitReport


@energon_command("split")
@click.argument("path")
@shared_options("split_ratio", help="Divide into train, val and test, or into others: train=9,holdout=1.")
@click.option(
    "--split-by",
    "by",
    type=click.Choice(["auto", "shards", "samples"]),
    default="auto",
    help="Assign whole shards, or samples; auto assigns shards if that meets all shares within 1 %.",
)
@click.option(
    "--group-by",
    metavar="EXPR",
    type=Parsed("loader.convert", "check_group_expression", keeps_text=True),
    help="Never divide groups: key, key:REGEX, or a value such as json[site].",
)
@yes_option
@flag_option("--stable", help="Assign each group by a hash of its name, so that added data never moves it.")
@shared_options("seed")
@flag_option("--check", help="Report groups, or else equal contents, in several parts; change nothing.")
@shared_options("duplicates_of", help="Let --check compare the contents of this part of samples alone.")
@click.option("--near", metavar="COLUMN", help="Let --check find samples with similar vectors in this column.")
@shared_options("threshold")
@shared_options("undo", help="Restore the previous split.")
@shared_options("dry_run", "json", "progress")
def split(
    path: str,
    *,
    split_ratio: Mapping[str, float] | None,
    group_by: str | None,
    computes: bool,
    check: bool,
    duplicates_of: str | None,
    near: str | None,
    threshold: float | None,
    is_undo: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Change the split of the prepared dataset at PATH, or check it for leaks between its parts.

    Only files in .nv-meta change. A split by shards is understood by all readers of the format. A split by samples
    stores a filter for each part, which split.yaml names under sample_filters: split_part= of all loaders here reads
    it, and megatron-energon refuses it. With --group-by, no group is in two parts.

    --check exits with 1 if parts share groups, samples of the same contents, or near-duplicates.

    Examples:
        Split whole shards or samples, as the ratio needs:
            energon split /data/coco --split-ratio 8,1,1
        Keep all pictures of a site in one part:
            energon split /data/coco --split-ratio 9,1 --group-by json[site]
        Keep frames of a video together:
            energon split /data/clips --split-ratio 9,1 --group-by 'key:^[^_]+'
        Check what train and val share:
            energon split /data/coco --check --group-by json[site]
        Find equal pictures in several parts:
            energon split /data/coco --check --duplicates-of jpg
        Find similar pictures in several parts:
            energon split /data/coco --check --near phash
        Bring back the split before:
            energon split /data/coco --undo
    """
    from loader.convert import SplitPlan, find_leaks, run_split, undo_split
    from loader.format import DatasetRef
    from loader.similarity import find_near_leaks

    # Exactly one thing is to be done.
    path = check_path(path)
    if check + is_undo + (split_ratio is not None) != 1:
        raise click.UsageError("Pass --split-ratio for a new split, --check, or --undo.")
    if duplicates_of is not None and (not check or group_by is not None):
        raise click.UsageError("--duplicates-of belongs to --check without --group-by.")
    if near is not None and (not check or group_by is not None or duplicates_of is not None):
        raise click.UsageError("--near belongs to --check without --group-by and --duplicates-of.")
    if threshold is not None and near is None:
        raise click.UsageError("--threshold belongs to --near.")
    # Keep the new split of data that cannot be written, or whose index is of others, in a folder of the user.
    if split_ratio is not None and not options["dry_run"]:
        writable(DatasetRef(path))
    # Undo the last split.
    if is_undo:
        undone = undo_split(path)
        if as_json:
            print_json({"undone": undone})
        else:
            show_note("brought back the split before" if undone else "there is nothing to undo")
        return
    bar = ProgressBar("Reading samples", unit="samples")
    compute = partial(compute_with_consent, computes=computes)
    # Check the present split.
    if split_ratio is None:
        with bar:
            if near is not None:
                leaks = find_near_leaks(path, near, threshold, on_progress=bar.update)
            else:
                leaks = find_leaks(path, group_by=group_by, part=duplicates_of, compute=compute, on_progress=bar.update)
        what = "groups" if group_by is not None else "contents" if near is None else "groups of near-duplicates"
        print_json(leaks) if as_json else _show_leaks(leaks, what)
        click.get_current_context().exit(0 if leaks.is_clean else 1)
    # Write the new one.
    plan = SplitPlan(
        path=path,
        ratio=split_ratio,
        group_by=group_by,
        **options,
        compute=compute,
    )
    with bar:
        report = run_split(plan, on_progress=bar.update)
    print_json(report) if as_json else _show(report, path)


def _show(report: SplitReport, path: str) -> None:
    from loader.inspect import print_table

    rows = [
        (part, f"{shards:,}", f"{samples:,}", format_percent(share))
        for part, (shards, samples, share) in report.parts.items()
    ]
    print_table(output_console(), ("split part", ">shards", ">samples", ">share"), rows)
    show_warning(*report.warnings)
    if report.dry_run:
        show_note(f"would split by {report.by}; nothing was changed")
    else:
        show_note(f"split by {report.by}; undo it: energon split {path} --undo")


def _show_leaks(report: LeakReport, what: str) -> None:
    console = output_console()
    for leak in report.leaks:
        parts = ", ".join(f"{part} {samples:,}" for part, samples in leak.samples.items())
        console.print(escape_controls(f"{leak.group}: {parts}"))
    if report.overlapping_samples:
        console.print(f"{plural(report.overlapping_samples, 'sample is', 'samples are')} in several parts themselves")
    verdict = f"{report.leaking_groups:,} of {report.groups:,} {what} are in several parts"
    verdict += f", with {plural(report.leaking_samples, 'sample')}"
    console.print(verdict if not report.is_clean else f"no leaks: {report.groups:,} {what}, each in one part")
