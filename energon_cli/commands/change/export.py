"""``energon export`` and ``energon extract``: copy samples of datasets to other formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from loader.errors import plural
from loader.inspect import format_bytes

from ...command import energon_command
from ...console import print_json, show_account, show_note
from ...dataset_options import copy_options, dataset_options
from ...dataset_paths import check_ref
from ...engine_options import EngineChoice, engine_options
from ...license_option import license_option
from ...options import combined, flag_option, parse_size_or_megabytes, shared_options
from ...progress import ProgressBar

if TYPE_CHECKING:
    from loader.dataset.query import SampleQuery
    from loader.format import DatasetRef

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_OTHER_FILES = frozenset(
    {".arrow", ".csv", ".gz", ".json", ".ndjson", ".pq", ".tar", ".tgz", ".tsv", ".txt", ".zip", ".zst"}
)


def _export_options(forms: Sequence[str], *added: Decorator, **shard_bytes: Any) -> Decorator:
    """Add the options of both commands; those in ``added`` follow the options that choose samples."""
    return combined(
        click.option(
            "--format",
            "file_format",
            type=click.Choice(forms),
            help="Write the copy in this format. Without it, the ending of DEST decides, or files are written.",
        ),
        copy_options,
        shared_options("limit", "keep_parts", "drop_parts", "by_shard"),
        *added,
        shared_options("shard_bytes", **shard_bytes),
        shared_options("strict", "progress", "json"),
        dataset_options(),
    )


@energon_command("export")
@click.argument("path")
@click.argument("dest")
@_export_options(
    ["files", "class-folders", "jsonl", "parquet", "hf", "webdataset", "mds", "litdata"],
    click.option(
        "--label",
        metavar="VALUE",
        help="Name classes by this column or value, such as json[label], with --format class-folders, parquet or hf.",
    ),
    flag_option("--link", help="Link to whole shards instead of copying them, with --format webdataset."),
    flag_option("--raw", help="Write all parts as bytes, with --format parquet, hf, mds or litdata."),
    license_option("dest"),
    partial(engine_options, default_workers="1; one per core with --share"),
    help="Limit a shard to this size, with --format webdataset.",
)
def export(
    ref: DatasetRef, dest: str, *, file_format: str | None, link: bool, label: str | None, **options: Any
) -> None:
    """Copy the samples of the dataset at PATH to DEST, for other programs; nothing is overwritten.

    files: each part is a file <key>.<part>. class-folders: the pictures of each label in a folder, as torchvision's
    ImageFolder reads them. jsonl: a line for each sample. parquet and hf: a row for each sample, with columns of texts,
    integers, pictures and bytes. webdataset: tar shards without metadata; whole shards are copied as they are if all
    samples and parts are chosen. mds: shards of mosaicml-streaming. litdata: its chunks.

    Examples:
        Write a file for each part:
            energon export /data/coco coco_files
        Write a Parquet file:
            energon export /data/coco coco.parquet
        Write a dataset that datasets.load_from_disk opens:
            energon export /data/coco coco_hf --format hf
        Write lines of JSON without pictures:
            energon export /data/coco coco.jsonl --drop-parts jpg
        Write chunks that mosaicml-streaming reads:
            energon export /data/coco coco_mds --format mds
        Write the pictures of each class to a folder:
            energon export /data/coco coco_classes --format class-folders --label 'json[category]'
        Link the shards without their metadata:
            energon export /data/coco plain --format webdataset --link
        Export the validation part:
            energon export s3://bucket/coco val --split-parts val
        Publish a Parquet file on the Hugging Face Hub:
            energon export /data/coco hf://datasets/me/coco/coco.parquet --license cc-by-4.0
        Read a share in each job of a Slurm array, then write the file with --merge:
            energon export s3://bucket/coco coco.parquet --share auto
    """
    ending = os.path.splitext(dest)[1].lower()
    if file_format is None and ending in _OTHER_FILES:
        raise click.UsageError(
            f"energon export does not write {ending}: name DEST .jsonl or .parquet, or a folder, or pass --format."
        )
    if link and file_format != "webdataset":
        raise click.UsageError("--link belongs to --format webdataset.")
    if label is not None and (file_format or ending[1:]) not in ("class-folders", "parquet", "hf"):
        raise click.UsageError("--label belongs to --format class-folders, parquet or hf.")
    options |= {"link": link, "label": label}
    _copy_samples([ref], dest, file_format, forms_of_files=("jsonl", "parquet"), **options)


@energon_command("extract")
@click.argument("paths", nargs=-1, required=True, metavar="PATH… [KEY]…")
@click.option("-o", "--output", metavar="DEST", required=True, help="Write a new folder; for jsonl, a new file.")
@_export_options(
    ["files", "tar", "jsonl"],
    callback=parse_size_or_megabytes,
    help="Limit a tar shard to this size; a number alone counts megabytes.",
)
def extract(
    refs: tuple[DatasetRef, ...], *, output: str, file_format: str | None, query: SampleQuery, **options: Any
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
    # Words that name no path are keys.
    keys = [ref.path for ref in refs[1:] if not ("://" in ref.path or os.path.lexists(ref.path))]
    query = replace(query, keys=[*keys, *(query.keys or ())]) if keys else query
    paths = [ref for ref in refs if ref.path not in keys]
    _copy_samples(paths, output, file_format, forms_of_files=("jsonl",), query=query, **options)


def _copy_samples(
    refs: Sequence[DatasetRef],
    output: str,
    file_format: str | None,
    *,
    forms_of_files: Sequence[str],
    as_json: bool,
    engine: EngineChoice | None = None,
    **options: Any,
) -> None:
    """Copy samples, and print a report.

    Args:
        file_format: The form of the copy; None takes the form that the ending of ``output`` names.
        forms_of_files: The forms that an ending names.
    """
    from loader.convert import ExportRequest, export_samples

    endings = (form for form in forms_of_files if output.endswith(f".{form}"))
    # Choose the form, and copy.
    with ExitStack() as stack:
        request = ExportRequest(
            refs=[check_ref(ref) for ref in refs],
            output=output,
            format=file_format or next(endings, "files"),
            engine=None if engine is None or engine.is_default else stack.enter_context(engine.open()),
            **options,
        )
        bar = stack.enter_context(ProgressBar("Copying samples", unit="samples"))
        report = export_samples(request, bar.update)
    # Notes and what was left out come first: on a terminal, the last line is the result.
    show_note(*report.notes)
    show_account(report.account)
    if as_json:
        print_json(report)
    else:
        show_note(f"wrote {plural(report.samples, 'sample')}, {format_bytes(report.size_bytes)}, to {report.output}")
