"""``energon extract``: copy a selection of samples to files, tar shards or lines of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..account import strict_option
from ..command import energon_command, progress_option
from ..dataset_path import check_path, given_name
from ..sizes import parse_size_or_megabytes
from .query_options import copy_options

if TYPE_CHECKING:
    from loader.format.query import SampleQuery

_EXAMPLES = (
    (
        "Copy wide pictures to files",
        "energon extract /data/coco -o wide --where 'jpg.width >= 2048'",
    ),
    ("Make a small dataset of the first samples", "energon extract /data/coco -o tiny --format tar --limit 100"),
    (
        "Write the captions of the validation part",
        "energon extract /data/coco -o v.jsonl --split-part val --parts txt",
    ),
    ("Copy the samples of a list", "energon extract /data/coco -o bad --keys-from bad.txt"),
    (
        "Copy the first samples of the datasets of a mix",
        "energon extract /data/mix.yaml -o tiny --format tar --limit 100",
    ),
    ("Copy what a filter keeps", "energon extract s3://bucket/coco -o good --format tar --filter good"),
)


@energon_command("extract", examples=_EXAMPLES, short_help="Copy samples to files, tar shards or lines of JSON.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("-o", "--output", metavar="PATH", required=True, help="A new folder; for jsonl, a new file.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["files", "tar", "jsonl"]),
    help="Form of the copy.  [default: jsonl for a name that ends so, else files]",
)
@copy_options
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the first N of the chosen samples.")
@click.option("--parts", metavar="A,B", help="Only parts of these names.")
@click.option("--by-shard", is_flag=True, help="With files, a folder for each shard.")
@click.option(
    "--shard-size",
    metavar="SIZE",
    callback=parse_size_or_megabytes,
    default="1GB",
    show_default=True,
    help="Size at which a tar shard ends, such as 500MB; a number alone counts megabytes.",
)
@strict_option
@progress_option
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
@click.option("--split-config", metavar="NAME", default="split.yaml", show_default=True, help="Name of the split file.")
@click.option("--meta-folder", metavar="DIR", help="Folder to use instead of PATH/.nv-meta.")
def extract(
    paths: tuple[str, ...],
    *,
    output: str,
    file_format: str | None,
    query: SampleQuery,
    limit: int | None,
    parts: str | None,
    by_shard: bool,
    shard_size: int,
    progress: bool | None,
    strict: bool,
    as_json: bool,
    split_config: str,
    meta_folder: str | None,
) -> None:
    """Copy samples of the datasets at PATH to a new folder or file; nothing is overwritten.

    files: each part is a file <key>.<part>. tar: shards that energon prepare takes. jsonl: a line for each sample, with
    JSON and texts as they are and other parts in base64.

    PATH is a dataset, a .jsonl, .bin or .parquet file, tar shards that are not prepared, or a URL. A metadataset .yaml
    represents the datasets that it reads, and with --split-part, for those of this split.

    CONDITION is made of values as energon stats names them, such as 'jpg.width >= 512 and json[label] == "cat"', of
    columns (energon stats --write), and of bytes, shard, size("jpg") and has("jpg").
    """
    from loader.convert.exporting import ExportRequest

    from .copying import copy_samples

    request = ExportRequest(
        paths=[check_path(path, takes_tar=True, meta_folder=meta_folder) for path in paths],
        output=output,
        format=file_format or ("jsonl" if output.endswith(".jsonl") else "files"),
        query=query,
        limit=limit,
        parts=None if parts is None else tuple(name.strip() for name in parts.split(",")),
        by_shard=by_shard,
        shard_bytes=shard_size,
        split_config=given_name("split_config", split_config),
        meta_folder=meta_folder,
        strict=strict,
    )
    copy_samples(request, progress=progress, as_json=as_json)
