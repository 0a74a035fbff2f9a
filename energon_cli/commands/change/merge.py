"""``energon merge``: one dataset of several, without a scan of their shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from loader.errors import escape_controls, plural

from ...command import energon_command
from ...console import output_console, print_json, show_warning
from ...dataset_paths import check_path
from ...options import flag_option, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.convert import MergeReport


@energon_command("merge")
@click.argument("inputs", nargs=-1, required=True, metavar="PATH PATH…")
@click.argument("output", metavar="DEST")
@click.option("--reference", "shards", flag_value="reference", help="Link to the shards by relative paths.  [default]")
@click.option(
    "--link", "shards", flag_value="link", help="Use hard links, so that shards stay if an input removes them."
)
@click.option("--copy", "shards", flag_value="copy", help="Copy the shards.")
@flag_option("--rename-keys", help="Rename keys that several inputs have, in copies of their shards.")
@flag_option("--crude", help="Write no dataset.yaml; the inputs may have different ones.")
@shared_options("compat", default=False, help="Write index.sqlite, too, by which megatron-energon finds keys.")
@shared_options("strict", "json", "progress")
def merge(
    inputs: tuple[str, ...],
    output: str,
    *,
    shards: Literal["reference", "link", "copy"] | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Merge the prepared datasets at two or more PATHs into a new one at DEST.

    The shards of each input are in a folder of its own, DEST/<input>/…, and samples are <input>/<shard>/<key>. The new
    index is joined from the indexes of the inputs, so no shard is scanned. Split parts of one name become one part.
    Excluded samples stay excluded; columns and filters that all inputs have are carried. DEST must be new or empty, and
    appears when it is complete.

    Examples:
        Merge two datasets by links to their shards:
            energon merge /data/coco /data/laion /data/both
        Keep the shards if the inputs are removed:
            energon merge /data/coco /data/laion /data/both --link
        Copy a dataset of a bucket:
            energon merge s3://bucket/coco /data/laion /data/both --copy
        Make bare keys unique, for joins:
            energon merge /data/coco /data/laion /data/both --rename-keys
    """
    from loader.convert import MergePlan, run_merge
    from loader.engine import usable_cores

    # The last path is DEST, so that click cannot count the inputs.
    if len(inputs) < 2:
        raise click.UsageError("Name at least two datasets, and then the new one.")
    plan = MergePlan(
        inputs=tuple(check_path(path) for path in inputs),
        output=output,
        shards=shards or "reference",
        workers=usable_cores(),
        **options,
    )
    # Links take no time that depends on their size: the bar counts bytes only for copies.
    is_copy = plan.shards == "copy"
    with ProgressBar("Copying shards" if is_copy else "Linking shards", unit="bytes" if is_copy else "shards") as bar:
        report = run_merge(plan, on_progress=bar.update)
    if as_json:
        print_json(report)
    else:
        _show(report, output)


def _show(report: MergeReport, output: str) -> None:
    console = output_console()
    folders = escape_controls(f"{', '.join(report.folders)} into {output}")
    console.print(
        f"merged {plural(report.samples, 'sample')} in {plural(report.shards, 'shard')} from {folders}"
        f" in {report.seconds:.1f} s"
    )
    parts = ", ".join(f"{part} {samples:,}" for part, (_, samples) in report.split.items())
    console.print(f"split: {parts} samples")
    for what, names in (("columns", report.columns), ("filters", report.filters)):
        if names:
            console.print(f"{what}: {', '.join(names)}")
    if report.renamed_shards:
        console.print(f"renamed keys in copies of {plural(report.renamed_shards, 'shard')}")
    show_warning(*report.warnings)
