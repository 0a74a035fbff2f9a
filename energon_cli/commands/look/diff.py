"""``energon diff``: list what differs between two datasets, metadatasets or checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from loader.errors import ConfigError, plural

from ...command import energon_command
from ...console import facts_of, output_console, print_json, show_note
from ...options import NUMBER, flag_option, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from rich.console import Console

    from loader.inspect.diff import DiffReport


@energon_command("diff")
@click.argument("path", metavar="A")
@click.argument("other", metavar="B")
@shared_options("split_part", help="Compare a checkpoint with this split part.  [default: the part of the checkpoint]")
@shared_options("place")
@flag_option("--contents", help="Compare the bytes of shards that are equal in the index.")
@click.option("--max-differences", **NUMBER, default=100, help="List this many differences; all are counted.")
@shared_options("json", "progress", "trust_code")
def diff(
    path: str,
    *,
    other: str,
    as_json: bool,
    **options: Any,
) -> None:
    """List what differs between A and B: two datasets, metadatasets, files of samples or checkpoints.

    Of datasets, the shards, samples, keys, parts, split and dataset.yaml are compared; of metadatasets, the leaves of
    each split and their shares; of checkpoints, all that must be equal for a run to resume, and the progress.

    A may be a checkpoint and B a dataset or metadataset: could the run resume with it exactly? A restore that is
    refused lists the same differences.

    Exits with 0 if there is no difference, and with 1 if there is one.

    Examples:
        Compare two versions of a dataset:
            energon diff /data/coco_v1 /data/coco_v2
        Compare the weights of two mixes:
            energon diff /data/mix.yaml /data/new_mix.yaml
        Compare two checkpoints:
            energon diff /data/run/step_1000 /data/run/step_2000
        Find why a run would not resume with a dataset:
            energon diff /data/run/step_1000 /data/mix.yaml
        Compare the bytes of shards, too:
            energon diff /data/coco s3://bucket/coco --contents
    """
    from loader.inspect.diff import compare_paths

    # Compare; two kinds of data that do not fit are a wrong usage.
    with ProgressBar("Comparing", unit="shards") as bar:
        try:
            report = compare_paths(
                path,
                other,
                on_progress=bar.update,
                **options,
            )
        except ConfigError as error:
            if "cannot be compared" in error.message:
                raise click.UsageError(f"{error.message}: {error.hint}.") from error
            raise
    # Show the differences; any makes the exit code 1.
    if as_json:
        print_json(_document(report))
    else:
        _show(output_console(), report)
    if not report.is_same:
        raise click.exceptions.Exit(1)


def _document(report: DiffReport) -> dict[str, Any]:
    differences = [
        facts_of(difference, "place name a=before b=after text", text=str(difference))
        for difference in report.differences
    ]
    names = "a=before b=after kinds same=is_same count resumes differences notes"
    return facts_of(report, names, differences=differences)


def _show(console: Console, report: DiffReport) -> None:
    for difference in report.differences:
        console.print(str(difference))
    # What is counted and not listed, and the verdict for a checkpoint.
    hidden = report.count - len(report.differences)
    if hidden:
        console.print(f"… and {hidden:,} more (--max-differences)")
    show_note(*report.notes)
    if report.resumes is not None:
        answer = f"{'continues' if report.resumes else 'cannot continue'} A exactly"
        with_data = " and the arguments of A" if report.kinds[1] != "checkpoint" and report.resumes else ""
        console.print(f"a run with B{with_data} {answer}", style="green" if report.resumes else "bold red")
    text = "no differences" if report.is_same else plural(report.count, "difference")
    console.print(text, style="green" if report.is_same else "bold")
