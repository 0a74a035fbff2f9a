"""``energon extract``: copy a selection of samples to files, tar shards or lines of JSON."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ...command import energon_command
from ...dataset_path import check_ref, dataset_options
from ...options import parse_size_or_megabytes, shared_options
from ...query_options import copy_options

if TYPE_CHECKING:
    from loader.dataset.query import SampleQuery
    from loader.format import DatasetRef


@energon_command("extract", short_help="Copy samples to files, tar shards or lines of JSON.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH… [KEY]…")
@click.option("-o", "--output", metavar="DEST", required=True, help="A new folder; for jsonl, a new file.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["files", "tar", "jsonl"]),
    help="Form of the copy.  [default: jsonl for a name that ends so, else files]",
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
    progress: bool | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Copy samples of the datasets at PATH to a new folder or file; nothing is overwritten.

    files: each part is a file <key>.<part>. tar: shards that energon prepare takes. jsonl: a line for each sample, with
    JSON and texts as they are and other parts in base64.

    PATH is a dataset, a .jsonl, .bin or .parquet file, tar shards that are not prepared, or a URL. A metadataset .yaml
    represents the datasets that it reads, and with --split-parts, for those of these splits.

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
    from loader.convert.exporting import ExportRequest

    from .export import copy_samples

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
    copy_samples(request, progress=progress, as_json=as_json)


def _is_path(word: str) -> bool:
    return "://" in word or os.path.lexists(word)
