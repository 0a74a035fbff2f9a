"""``energon export``: copy the samples of a dataset to another format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ...command import energon_command
from ...dataset_path import check_ref, dataset_options
from ...options import shared_options
from ...query_options import copy_options

if TYPE_CHECKING:
    from loader.convert.exporting import ExportRequest
    from loader.format import DatasetRef


_BY_ENDING = {".jsonl": "jsonl", ".parquet": "parquet"}
_OTHER_FILES = frozenset(
    {".arrow", ".csv", ".gz", ".json", ".ndjson", ".pq", ".tar", ".tgz", ".tsv", ".txt", ".zip", ".zst"}
)


@energon_command("export", short_help="Copy a dataset to files, JSON lines, Parquet, Hugging Face.")
@click.argument("path")
@click.argument("dest")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["files", "jsonl", "parquet", "hf", "webdataset"]),
    help="Form of the copy.  [default: by the ending of DEST, else files]",
)
@copy_options
@shared_options("limit", "parts", "drop_parts", "by_shard")
@click.option("--link", is_flag=True, help="With webdataset, hard links to whole shards instead of copies.")
@click.option("--raw", is_flag=True, help="With parquet and hf, all parts as bytes.")
@shared_options("shard_size", help="With webdataset, most bytes of a shard.")
@shared_options("strict", "progress", "json")
@dataset_options()
def export(
    ref: DatasetRef,
    dest: str,
    *,
    file_format: str | None,
    parts: tuple[str, ...],
    link: bool,
    shard_size: int,
    progress: bool | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Copy the samples of the dataset at PATH to DEST, for other programs; nothing is overwritten.

    files: each part is a file <key>.<part>. jsonl: a line for each sample. parquet and hf: a row for each sample, with
    columns of texts, integers, pictures and bytes. webdataset: tar shards without metadata; whole shards are copied as
    they are if all samples and parts are chosen.

    Examples:
        Write a file for each part:
            energon export /data/coco coco_files
        Write a Parquet file:
            energon export /data/coco coco.parquet
        Write a dataset that datasets.load_from_disk opens:
            energon export /data/coco coco_hf --format hf
        Write lines of JSON without pictures:
            energon export /data/coco coco.jsonl --drop-parts jpg
        Link the shards without their metadata:
            energon export /data/coco plain --format webdataset --link
        Export the validation part:
            energon export s3://bucket/coco val --split-parts val
    """
    from loader.convert.exporting import ExportRequest

    ending = os.path.splitext(dest)[1].lower()
    if file_format is None and ending in _OTHER_FILES:
        raise click.UsageError(
            f"No form of an export is a {ending} file: name DEST .jsonl or .parquet, or a folder, or pass --format."
        )
    if link and file_format != "webdataset":
        raise click.UsageError("--link belongs to --format webdataset.")
    endings = (form for ending, form in _BY_ENDING.items() if dest.endswith(ending))
    request = ExportRequest(
        refs=[check_ref(ref)],
        output=dest,
        format=file_format or next(endings, "files"),
        keep_parts=parts,
        link=link,
        shard_bytes=shard_size,
        **options,
    )
    copy_samples(request, progress=progress, as_json=as_json)


# Copy samples with a progress bar, and report what was written: ``energon extract`` and ``energon export``.


def copy_samples(request: ExportRequest, *, progress: bool | None, as_json: bool) -> None:
    """Copy the samples of a request, and print a note or JSON."""
    from loader.convert.exporting import export_samples
    from loader.inspect import format_bytes, plural

    from ...console import print_json, show_account, show_note
    from ...progress import ProgressBar

    with ProgressBar("Copying samples", unit="samples", enabled=progress) as bar:
        report = export_samples(request, bar.update)
    for note in report.notes:
        show_note(note)
    show_account(report.account)
    if as_json:
        print_json(report)
    else:
        show_note(f"wrote {plural(report.samples, 'sample')}, {format_bytes(report.size_bytes)}, to {report.output}")
