"""``energon lint``: check a dataset, list its faults, and exit with 1 on errors."""

from __future__ import annotations

import os

import click

from ..command import energon_command
from ..dataset_path import check_path, given_name

__all__ = ["lint"]

_EXAMPLES = (
    ("Check everything, and decode every sample", "energon lint /data/coco"),
    ("Check only headers and the index, in seconds", "energon lint /data/coco --level headers"),
    ("Exclude broken samples from training", "energon lint /data/coco --fix"),
    ("Check a metadataset and all its datasets", "energon lint /data/mix.yaml"),
    ("Print the first 100 findings as JSON", "energon lint /data/coco --json --max-findings 100"),
)


@energon_command("lint", examples=_EXAMPLES, short_help="Check a dataset and list all its faults.")
@click.argument("path")
@click.option(
    "--level",
    type=click.Choice(["headers", "bytes", "decode"]),
    default="decode",
    show_default=True,
    help="Read only headers, read every byte, or also decode every part.",
)
@click.option(
    "--parallel", metavar="N", type=click.IntRange(min=1), help="Number of worker processes.  [default: one per core]"
)
@click.option("--split-parts", metavar="A,B", help="Check only these split parts, or these splits of a metadataset.")
@click.option("--fix", is_flag=True, help="Add broken and incomplete samples to 'exclude' in the split file.")
@click.option("--max-findings", metavar="N", type=click.IntRange(min=1), help="Stop after this many findings.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--progress/--no-progress", default=True, help="Show a progress bar on a terminal.")
@click.option(
    "--dataset-config",
    metavar="NAME",
    default="dataset.yaml",
    show_default=True,
    help="Name of the dataset file in .nv-meta.",
)
@click.option(
    "--split-config",
    metavar="NAME",
    default="split.yaml",
    show_default=True,
    help="Name of the split file in .nv-meta.",
)
@click.option("--trust-code", is_flag=True, envvar="ENERGON_TRUST_CODE", help="Run Python files of the dataset.")
def lint(
    path: str,
    *,
    level: str,
    parallel: int | None,
    split_parts: str | None,
    fix: bool,
    max_findings: int | None,
    as_json: bool,
    progress: bool,
    dataset_config: str,
    split_config: str,
    trust_code: bool,
) -> None:
    """Check every byte of the dataset at PATH against its index, split and dataset.yaml.

    PATH may also be a .jsonl, .bin or .parquet file, a folder of files after prepare-media, or a metadataset .yaml, to
    check its references and each of its datasets once.

    Findings name the shard, key, part and byte offset. Exits with 1 if there are errors or the check stopped early,
    and with 0 if there are only warnings or no findings.
    """
    from loader.format.documents import is_metadataset, is_record_file

    path = check_path(path)
    if fix and (is_record_file(path) or is_metadataset(path)):
        raise click.BadParameter("only a dataset of shards can exclude samples", param_hint="--fix")
    if is_record_file(path) and split_parts is not None:
        raise click.BadParameter("a single file has no split parts", param_hint="--split-parts")
    from loader.errors import ConfigError
    from loader.format import usable_cores
    from loader.inspect import LintRequest, exclude_broken, is_only_media_folder, run_lint
    from loader.storage import open_storage

    from ..console import output_console, print_json
    from ..progress import ProgressBar
    from .report import lint_document, show_lint

    is_files = os.path.isdir(path) and is_only_media_folder(open_storage(path))
    if is_files and (fix or split_parts is not None):
        name = "--fix" if fix else "--split-parts"
        raise click.BadParameter("a folder of files has no split", param_hint=name)
    request = LintRequest(
        path=path,
        level=level,
        workers=parallel or usable_cores(),
        split_parts=None if split_parts is None else tuple(name.strip() for name in split_parts.split(",")),
        split_config=given_name("split_config", split_config),
        dataset_config=given_name("dataset_config", dataset_config),
        max_findings=max_findings,
        trust_code=trust_code,
    )
    unit = "bytes" if is_record_file(path) else "files" if is_files else "samples" if level == "decode" else "shards"
    with ProgressBar("Checking", unit=unit, enabled=progress) as bar:
        try:
            report = run_lint(request, lambda now: bar.update(now.done, now.total))
        except ConfigError as error:  # about the flags; faults of the dataset are findings
            raise click.UsageError(f"--split-parts: {error.message}.") from error
    fixed = exclude_broken(path, report, split_config=split_config) if fix else None
    if as_json:
        print_json(lint_document(path, level, report, None if fixed is None else fixed.samples))
    else:
        show_lint(output_console(), request, report, fixed)
    if report.errors or not report.complete:  # unchecked samples may be broken
        raise click.exceptions.Exit(1)
