"""``energon export`` and ``energon extract``: copy samples of datasets to other formats."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from loader.inspect import format_bytes, plural

from ...command import energon_command
from ...console import print_json, show_account, show_note
from ...dataset_options import check_ref, copy_options, dataset_options
from ...options import parse_size_or_megabytes, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.convert import ExportRequest
    from loader.dataset.query import SampleQuery
    from loader.format import DatasetRef


_BY_ENDING = {".jsonl": "jsonl", ".parquet": "parquet"}
_OTHER_FILES = frozenset(
    {".arrow", ".csv", ".gz", ".json", ".ndjson", ".pq", ".tar", ".tgz", ".tsv", ".txt", ".zip", ".zst"}
)


@energon_command("export")
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
    from loader.convert import ExportRequest

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
    _copy_samples(request, as_json=as_json)


@energon_command("extract")
@click.argument("paths", nargs=-1, required=True, metavar="PATH… [KEY]…")
@click.option("-o", "--output", metavar="DEST", required=True, help="A new folder; for jsonl, a new file.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["files", "tar", "jsonl"]),
    help="Form of the copy.  [default: jsonl if DEST ends in .jsonl, else files]",
)
@copy_options
@shared_options("limit", "parts", "drop_parts", "by_shard")
@shared_options(
    "shard_size", callback=parse_size_or_megabytes, help="Most bytes of a tar shard; a number alone counts megabytes."
)
@shared_options("strict", "progress", "json")
@dataset_options()
def extract(
    refs: tuple[DatasetRef, ...],
    *,
    output: str,
    file_format: str | None,
    query: SampleQuery,
    parts: tuple[str, ...],
    shard_size: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Copy samples of the datasets at PATH to a new folder or file; nothing is overwritten.

    files: each part is a file <key>.<part>. tar: shards that energon prepare takes. jsonl: a line for each sample, with
    JSON and texts as they are and other parts in base64.

    PATH is a dataset, a .jsonl, .bin or .parquet file, tar shards that are not prepared, or a URL. A metadataset .yaml
    represents the datasets that it reads; with --split-parts, only the datasets of the named splits.

    KEY is <shard>/<key>, the key alone, or a whole shard: each word behind the first PATH that is neither the path of a
    file or folder nor a URL.

    CONDITION is made of values as energon stats names them, such as 'jpg.width >= 512 and json[label] == "cat"', of
    columns (energon stats --write), and of bytes, shard, size("jpg") and has("jpg").

    Examples:
        Copy wide pictures to files:
            energon extract /data/coco -o wide --where 'jpg.width >= 2048'
        Make a small dataset of the first samples:
            energon extract /data/coco -o tiny --format tar -n 100
        Write the captions of the validation part:
            energon extract /data/coco -o v.jsonl --split-parts val --parts txt
        Copy two samples:
            energon extract /data/coco shard_000.tar/000017 shard_003.tar/000171 -o two
        Copy the samples of a list:
            energon extract /data/coco -o bad --keys-from bad.txt
        Copy the first samples of the datasets of a mix:
            energon extract /data/mix.yaml -o tiny --format tar -n 100
        Copy what a filter keeps:
            energon extract s3://bucket/coco -o good --format tar --filter good
    """
    from loader.convert import ExportRequest

    # Words that name no path are keys.
    keys = [ref.path for ref in refs[1:] if not _is_path(ref.path)]
    request = ExportRequest(
        refs=[check_ref(ref) for ref in refs if ref.path not in keys],
        output=output,
        format=file_format or ("jsonl" if output.endswith(".jsonl") else "files"),
        query=replace(query, keys=[*keys, *(query.keys or ())]) if keys else query,
        keep_parts=parts,
        shard_bytes=shard_size,
        **options,
    )
    _copy_samples(request, as_json=as_json)


def _is_path(word: str) -> bool:
    return "://" in word or os.path.lexists(word)


def _copy_samples(request: ExportRequest, *, as_json: bool) -> None:
    from loader.convert import export_samples

    with ProgressBar("Copying samples", unit="samples") as bar:
        report = export_samples(request, bar.update)
    for note in report.notes:
        show_note(note)
    show_account(report.account)
    if as_json:
        print_json(report)
    else:
        show_note(f"wrote {plural(report.samples, 'sample')}, {format_bytes(report.size_bytes)}, to {report.output}")
