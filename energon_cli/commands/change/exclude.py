"""``energon exclude``: take samples out of training, list what is out, and undo it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from loader.errors import escape_controls, plural

from ...command import energon_command
from ...console import facts_of, is_terminal, output_console, print_json, print_reports, show_note
from ...dataset_options import dataset_options, query_options
from ...dataset_paths import check_ref, writable
from ...engine_options import EngineChoice, engine_options
from ...options import flag_option, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.dataset.query import SampleQuery
    from loader.format import DatasetRef
    from loader.inspect import ExcludeReport, ExcludeRequest, ListedExclusions


@energon_command("exclude")
@click.argument("path")
@click.argument("keys", nargs=-1, metavar="[KEY]…")
@query_options
@flag_option("--lint", help="Exclude the samples that energon lint finds broken.")
@shared_options("duplicates", help="Exclude all but the first of samples with identical contents.")
@shared_options("duplicates_of")
@shared_options("near_duplicates", help="Exclude all but the first of samples with similar vectors in this column.")
@shared_options("threshold")
@click.option(
    "--max-share",
    metavar="S",
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="Exclude near-duplicates up to this share of samples, in groups of any size, and do not ask."
    "  [default: 0.2, in groups of up to 100]",
)
@click.option("--to-filter", metavar="NAME", help="Build this filter without the samples; leave the split file.")
@click.option("--reason", metavar="TEXT", default="", show_default=False, help="Record this reason for --list.")
@shared_options("dry_run", help="Change nothing; show what would be excluded.")
@shared_options("undo", help="Undo the last exclusion.")
@flag_option("--list", "is_list", help="List what is excluded.")
@shared_options("json")
@engine_options
@shared_options("progress")
@dataset_options("trust_code")
def exclude(
    ref: DatasetRef,
    *,
    query: SampleQuery,
    lint: bool,
    duplicates: bool,
    duplicates_of: str | None,
    near_duplicates: str | None,
    threshold: float | None,
    max_share: float | None,
    to_filter: str | None,
    reason: str,
    dry_run: bool,
    is_undo: bool,
    is_list: bool,
    as_json: bool,
    engine: EngineChoice,
) -> None:
    """Exclude samples of the dataset at PATH from training: by keys, a list, a condition, or what lint or stats find.

    PATH may be a metadataset .yaml: its datasets are changed, each for itself. A .jsonl, .bin or .parquet file takes
    filters only.

    The samples are added to 'exclude' in split.yaml, which all readers of the format respect. With --to-filter, a named
    filter keeps all others; a metadataset uses it by 'filter: NAME', a loader by filter_name=. Shards and other files
    are not changed.

    --duplicates compares as energon stats --duplicates does, over samples that are still included.

    KEY is <shard>/<key>, a bare key, or a whole shard. All criteria that are given must hold.

    Examples:
        Exclude two samples:
            energon exclude /data/coco shard_000.tar/000017 shard_003.tar/000171
        Exclude the samples of a list:
            energon exclude /data/coco --keys-from bad.csv --reason 'wrong language'
        Exclude what lint finds broken:
            energon exclude /data/coco --lint
        Exclude copies of pictures, but for the first:
            energon exclude /data/coco --duplicates
        Exclude near-duplicates by the hashes of energon embed:
            energon exclude /data/coco --near-duplicates phash
        Exclude small pictures by a filter:
            energon exclude /data/coco --where 'jpg.width < 256' --to-filter large
        Show what would be excluded:
            energon exclude /data/coco --where 'txt.chars < 5' --dry-run
        Exclude samples of the datasets of a mix:
            energon exclude /data/mix.yaml --where 'jpg.width < 256' --to-filter large
        Search copies in each job of a Slurm array:
            energon exclude /data/coco --duplicates --share auto
        Exclude what all shares have read:
            energon exclude /data/coco --duplicates --merge
        List what is excluded, and undo the last:
            energon exclude /data/coco --list
    """
    from loader import inspect as library
    from loader.dataset.query import SampleQuery

    # Exactly one thing is to be done.
    ref = check_ref(ref, takes_tar=False)
    copies_of = duplicates_of or ("" if duplicates else None)
    chooses = query != SampleQuery() or lint or copies_of is not None or near_duplicates is not None
    if is_undo + is_list + chooses != 1:
        raise click.UsageError("Expected one of these: samples to exclude, --list, or --undo.")
    if (engine.share is not None or engine.merge) and lint == (copies_of is not None):
        raise click.UsageError("--share and --merge are valid with --lint or --duplicates, and not with both.")
    if near_duplicates is None and (threshold is not None or max_share is not None):
        raise click.UsageError("--threshold and --max-share belong to --near-duplicates.")
    # List or undo earlier exclusions.
    is_mix = ref.kind.is_mix
    if is_list:
        _list(ref, is_mix=is_mix, as_json=as_json)
        return
    if is_undo:
        _undo(ref, is_mix=is_mix, as_json=as_json)
        return
    # Choose samples, and exclude them.
    ref = ref if dry_run else writable(ref)
    with engine.open() as opened, ProgressBar("Checking samples", unit="samples") as bar:
        request = library.ExcludeRequest(
            ref=ref,
            query=query,
            lint=lint,
            duplicates=copies_of,
            near_duplicates=near_duplicates,
            threshold=threshold,
            max_share=max_share,
            confirm=partial(_confirm, bar) if is_terminal(sys.stdin) and is_terminal(sys.stderr) else None,
            filter=to_filter,
            reason=reason or query.where or _reason(lint=lint, copies_of=copies_of, near_duplicates=near_duplicates),
            dry_run=dry_run,
            engine=opened,
        )
        reports = library.exclude(request, bar.update)
        if not dry_run:
            opened.discard_merged()
    # Report.
    if as_json:
        names = "path samples already remaining examples file lacks dry_run"
        print_reports([facts_of(report, names, lacks=report.lacks or None) for report in reports], is_list=is_mix)
    else:
        _show_reports(request, reports, is_mix=is_mix)


def _confirm(bar: ProgressBar, message: str) -> None:
    bar.stop()
    click.echo(escape_controls(message), err=True)
    click.confirm("Exclude them?", abort=True, err=True)


def _reason(*, lint: bool, copies_of: str | None, near_duplicates: str | None) -> str:
    if near_duplicates is not None:
        return f"near-duplicates by {near_duplicates}"
    return "energon lint" if lint else "copies" if copies_of is not None else ""


def _list(ref: DatasetRef, *, is_mix: bool, as_json: bool) -> None:
    from loader import inspect as library

    listed = library.list_exclusions(ref)
    if as_json:
        print_reports(list(map(_listed_document, listed)), is_list=is_mix)
        return
    for exclusions in listed:
        _show_list(exclusions, title=exclusions.path if is_mix else None)


def _undo(ref: DatasetRef, *, is_mix: bool, as_json: bool) -> None:
    from loader import inspect as library

    undone = library.undo_last_exclusion(ref)
    if as_json:
        print_json({"undone": sum(entry.samples for _, entry in undone) if undone else None})
        return
    if not undone:
        show_note("there is nothing to undo")
    for dataset, entry in undone:
        what = f"filter {entry.filter}" if entry.filter else entry.split_file
        what += f" of {dataset}" if is_mix else ""
        show_note(f"undid the exclusion of {plural(entry.samples, 'sample')} of {entry.at} in {what}")


def _show_reports(request: ExcludeRequest, reports: Sequence[ExcludeReport], *, is_mix: bool) -> None:
    for report in reports:
        _show_report(report, is_mix=is_mix)
    samples = sum(report.samples for report in reports)
    if is_mix and not samples:
        show_note(
            f"nothing to exclude in {plural(len(reports), 'dataset')}: all samples that are chosen are excluded already"
        )
    if samples and not request.dry_run:
        if request.filter is not None:
            name = request.filter
            show_note(f"use it: 'filter: {name}' in a metadataset, or filter_name={name!r} of a loader")
        show_note(f"undo it: energon exclude {request.ref.path} --undo")


def _show_report(report: ExcludeReport, *, is_mix: bool) -> None:
    before = f"; {plural(report.already, 'was', 'were')} excluded before" if report.already else ""
    where = f" of {report.path}" if is_mix else ""
    if report.lacks:
        show_note(f"no sample{where}: it has {report.lacks}")
    if is_mix and not report.samples:
        return
    if report.dry_run:
        for name in report.examples:
            click.echo(escape_controls(f"{name}  {report.path}" if is_mix else name))
        show_note(
            f"would exclude {plural(report.samples, 'sample')} of {report.samples + report.remaining:,}{where}{before}"
        )
    else:
        left = plural(report.remaining, "remains", "remain")
        show_note(f"excluded {plural(report.samples, 'sample')} in {report.file}{where}; {left}{before}")


def _listed_document(listed: ListedExclusions) -> dict[str, object]:
    entries = [
        facts_of(
            entry,
            "at reason samples split_file filter names",
            split_file=entry.split_file or None,
            filter=entry.filter or None,
        )
        for entry in listed.exclusions
    ]
    return facts_of(listed, "path samples shards filters exclusions others", exclusions=entries)


def _show_list(listed: ListedExclusions, *, title: str | None) -> None:
    from loader.inspect import print_table

    console = output_console()
    if title is not None:
        console.print(escape_controls(title))
    if listed.exclusions:
        places = (f"filter {each.filter}" if each.filter else each.split_file for each in listed.exclusions)
        rows = [
            (each.at, f"{each.samples:,}", where, each.reason)
            for each, where in zip(listed.exclusions, places, strict=True)
        ]
        print_table(console, ("when", ">samples", "in", "reason"), rows)
    if listed.others:
        console.print(f"from elsewhere: {plural(len(listed.others), 'entry', 'entries')} of the split file, such as:")
        for name in listed.others[:5]:
            console.print(f"  {escape_controls(name)}")
    for name, kept in listed.filters.items():
        console.print(f"filter {name} keeps {plural(kept, 'sample')}")
    console.print(f"the split excludes {plural(listed.samples, 'sample')}")
