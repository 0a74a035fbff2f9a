"""``energon lint``: check a dataset, list its faults, and exit with 1 on errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from loader.errors import ConfigError, EnergonError, MissingPackageError

from ...command import energon_command
from ...dataset_options import dataset_options
from ...dataset_paths import check_ref, writable
from ...engine_options import EngineChoice, engine_options
from ...options import NUMBER, flag_option, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.format import DatasetRef
    from loader.inspect import LintRequest
    from loader.inspect.browse import PageLinks
    from loader.lint import LintReport


@energon_command("lint")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--level",
    type=click.Choice(["headers", "bytes", "decode"]),
    default="decode",
    help="Read only headers, read every byte, or also decode every part.",
)
@partial(engine_options, flags=["--parallel"])
@shared_options("split_parts")
@flag_option("--fix", help="Add broken and incomplete samples to 'exclude' in the split file.")
@flag_option("--all", "list_all", help="Print every finding instead of one line for each cause.")
@click.option("--max-findings", **NUMBER, help="Stop after this many findings.")
@shared_options("json", help="Print the findings as JSON, as --format json does.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "github", "sarif"]),
    help="Print lines of text, JSON, annotations for GitHub Actions, or SARIF 2.1.0.  [default: text]",
)
@click.option("--browse", metavar="URL", help="Link findings to pages of this URL, which energon browse prints.")
@shared_options("progress")
@dataset_options("dataset_config", "trust_code")
@shared_options("max_json_bytes", default="64MiB")
def lint(
    refs: tuple[DatasetRef, ...],
    *,
    level: str,
    engine: EngineChoice,
    split_parts: tuple[str, ...],
    fix: bool,
    list_all: bool,
    as_json: bool,
    output_format: str | None,
    browse: str | None,
    **options: Any,
) -> None:
    """Check every byte of the datasets at PATH... against their indexes, splits and dataset.yaml.

    PATH may also be a .jsonl, .bin or .parquet file, a folder of files after prepare-media, or a metadataset .yaml, to
    check its references and each of its datasets once. Tar files that are not prepared, a folder or a single one, are
    checked without an index: their structure, names and keys, and the decoding of their parts.

    Findings name the shard, key, part and byte offset; findings of one cause, such as a wrong field map, share a line
    with their number and first places. Exits with 1 if there are errors or the check stopped early, and with 0 if there
    are only warnings or no findings. Explain a code: energon rule E302.

    Several paths are checked one after another; --json then prints a list, and --max-findings applies to each.

    PATH may be a URL of an object store or web server, such as s3://bucket/coco.

    Examples:
        Check everything, and decode every sample:
            energon lint /data/coco
        Check only headers and the index, in seconds:
            energon lint /data/coco --level headers
        Exclude broken samples from training:
            energon lint /data/coco --fix
        Check a metadataset and all its datasets:
            energon lint /data/mix.yaml
        Check several datasets:
            energon lint /data/coco /data/sa1b
        Check one tar file:
            energon lint /data/coco/shard_000.tar
        Check a dataset in an object store:
            energon lint s3://bucket/coco --level headers
        Print the first 100 findings as JSON:
            energon lint /data/coco --json --max-findings 100
        Link findings to the pages of energon browse:
            energon lint /data/coco --browse http://127.0.0.1:8800/?token=x
        Write a report for code scanning:
            energon lint /data/coco --format sarif > /data/coco.sarif
        Check a share in each job of a Slurm array:
            energon lint /data/coco --share auto
        Report what all shares have found:
            energon lint /data/coco --merge
    """
    # Check the flags against each other and against each path.
    if as_json and output_format not in (None, "json"):
        raise click.UsageError(f"--json and --format {output_format} exclude each other.")
    refs = tuple(writable(check_ref(ref)) if fix else check_ref(ref) for ref in refs)
    units = [_checked_unit(ref, level=level, fix=fix, split_parts=split_parts) for ref in refs]
    from loader.engine import ShareEnds
    from loader.inspect import LintRequest, exclude_broken

    from .lint_output import print_documents, print_report

    # Check one path after the other; findings are printed at once, or collected.
    output_format, documents = "json" if as_json else output_format or "text", []
    refusals, is_faulty = [], False
    with engine.open() as opened:
        ends = ShareEnds(opened)
        for ref, unit in zip(refs, units, strict=True):
            pages = None if browse is None else _page_links(browse, ref.path, tuple(each.path for each in refs))
            request = LintRequest(ref=ref, level=level, engine=opened, split_parts=split_parts or None, **options)
            report = ends.call(partial(_run, request, unit=unit))
            if report is None:
                continue
            # Exclude what is broken.
            fixed = None
            if fix:
                try:
                    fixed = exclude_broken(ref, report)
                except EnergonError as error:  # the findings say what is wrong; the refusal comes behind them
                    refusals.append(error)
            is_faulty |= bool(report.errors) or not report.complete  # unchecked samples may be broken
            document = print_report(
                output_format,
                request,
                report,
                fixed,
                pages=pages,
                unit=unit,
                list_all=list_all,
                with_advice=not fix,
                is_titled=len(refs) > 1,
            )
            documents += [] if document is None else [document]
        ends.finish()
        # Print what was collected, and end the command by the worst result.
        if documents:
            print_documents(output_format, documents)
        if not refusals:
            opened.discard_merged()
    if refusals:
        raise refusals[0]
    if is_faulty:
        raise click.exceptions.Exit(1)


def _run(request: LintRequest, *, unit: str) -> LintReport:
    from loader.inspect import run_lint

    with ProgressBar("Checking", unit=unit) as bar:
        try:
            return run_lint(request, lambda now: bar.update(now.done, now.total))
        except ConfigError as error:  # about the flags; faults of the dataset are findings
            is_of_shares = request.runs_on.is_partial and error.at
            if is_of_shares or isinstance(error, MissingPackageError):
                raise
            raise click.UsageError(f"--split-parts: {error.message}.") from error


def _page_links(url: str, path: str, paths: tuple[str, ...]) -> PageLinks:
    from loader.inspect.browse import PageLinks

    try:
        return PageLinks(url, path, among=paths)
    except ConfigError as error:
        raise click.BadParameter(error.message, param_hint="--browse") from error


def _checked_unit(ref: DatasetRef, *, level: str, fix: bool, split_parts: tuple[str, ...]) -> str:
    """Return the unit of the progress bar for what PATH names; raise if a flag needs a split that it lacks."""
    from loader.dataset import kind_at

    kind = kind_at(ref)
    faults = {
        "folders of media files": "a folder of files has no split",
        "unprepared tar files": "tar files that are not prepared have no split",
    }
    flag = "--fix" if fix else "--split-parts" if split_parts else None
    if fix and (ref.kind.is_file or kind == "metadatasets"):
        raise click.BadParameter("only a dataset of shards can exclude samples", param_hint=flag)
    fault = "a single file has no split parts" if ref.kind.is_file else faults.get(kind)
    if flag is not None and fault is not None:
        raise click.BadParameter(fault, param_hint=flag)
    if ref.kind.is_file:
        return "bytes"
    return "files" if kind == "folders of media files" else "samples" if level == "decode" else "shards"
