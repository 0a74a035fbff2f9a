"""``energon prepare``: index and split a folder of shards, and record the type of its samples."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from ....command import energon_command
from ....dataset_paths import check_ref
from ....engine_options import cluster_options
from ....options import Parsed, flag_option, shared_options
from ..prepare_media import MEDIA_PARAMETERS, media_options

_ADVANCED = (
    *("shuffle_tars", "skip_dataset_yaml", "dataset_yaml_name", "tar_index_only", "remove_originals", "compat"),
    *("engine", "address", "share", "merge", "scan", "num_workers", "tmp_path", "progress", "meta_folder", "as_json"),
    *(*MEDIA_PARAMETERS, "storage_option", "trust_code", "max_json_bytes", "strict"),
)
"""Parameters that only ``--help-all`` shows: for machines, clusters and rare layouts."""


@energon_command("prepare", advanced=_ADVANCED)
@click.argument("path")
@shared_options("split_ratio", help="Assign shards to train, val and test in this ratio.")
@click.option(
    "--split-by",
    type=click.Choice(["shards", "samples"]),
    help="Apply the ratio to whole shards, or to the samples of each shard. With --yes, samples are split if"
    " whole shards miss the ratio by more than 10 percentage points.  [default: shards]",
)
@click.option(
    "--split-parts",
    metavar="NAME:PATTERN",
    multiple=True,
    type=Parsed("loader.prepare", "parse_split_part"),
    help="Assign the shards that match PATTERN to the split part NAME, and ignore --split-ratio. PATTERN is a"
    " regex from the start of the name, after brace expansion, or glob:GLOB.  [repeatable]",
)
@flag_option("--shuffle-tars", help="Shuffle the shards with a fixed seed before they are split by ratio.")
@click.option("--exclude", metavar="REGEX", help="Exclude shards whose name contains a match.")
@shared_options("sample_type", "field_map")
@flag_option("--skip-dataset-yaml", help="Do not write a dataset.yaml.")
@click.option("--dataset-yaml-name", metavar="NAME", default="dataset.yaml", help="Write dataset.yaml under this name.")
@flag_option("--non-interactive", help="Never prompt; use only the given flags.")
@shared_options("yes", "dry_run")
@shared_options(
    "force_overwrite",
    help="Rescan all shards of a prepared dataset, and let flags replace the split and dataset.yaml.",
)
@flag_option("--tar-index-only", help="Index the shards, and write no split and no dataset.yaml.")
@flag_option(
    "--decompress", help="Decompress compressed shards (.tar.gz, .tgz, .tar.zst, …) first, to .tar files next to them."
)
@flag_option("--remove-originals", help="Remove each compressed shard once it is decompressed, with --decompress.")
@flag_option("--fix-duplicates", help="Rename keys that occur in several shards; replaces those shards.")
@shared_options("compat")
@partial(cluster_options, share_flags=["--part", "share"], address_flags=["--scheduler", "address"])
@click.option(
    "--scan",
    type=click.Choice(["auto", "hop", "stream"]),
    default="auto",
    help="Scan shards in object stores by a request for each header, or by large requests for all bytes.",
)
@shared_options("num_workers", type=click.IntRange(min=0))
@shared_options("tmp_path", "progress", "strict", "json")
@shared_options("max_json_bytes", default="16MiB")
@shared_options("trust_code", help="Unpickle parts of the first sample, which may run code.")
@shared_options("meta_folder")
@media_options
def prepare(path: str, **flags: Any) -> None:
    """Index and split the tar shards in PATH, and record their sample type.

    On a terminal, the command prompts for the split, the sample type and its fields, and proposes answers. Otherwise
    it reads the answers from standard input, one per line. It never prompts with --yes or
    --non-interactive.

    Only tar headers are read. The files in .nv-meta appear all at once or not at all; after an interruption, the same
    command resumes. On a prepared dataset, only changed shards are scanned, and the split and dataset.yaml are kept
    unless flags replace them.

    On a cluster, any number of jobs each scan one --share, and a last one commits them with --merge.

    PATH may also be a folder of .jsonl or .parquet files, a .jsonl file, to index its lines, or a metadataset .yaml, to
    prepare its joins. Token files (.bin with .idx) and single .parquet files need no prepare.

    PATH may be a URL of an object store, such as s3://bucket/coco: the dataset is prepared there.

    Examples:
        Prepare a dataset, with prompts:
            energon prepare /data/coco
        Accept all proposals:
            energon prepare /data/coco --yes
        Use only the given flags, without prompts:
            energon prepare /data/coco --non-interactive --split-ratio 8,1,1 --sample-type CrudeWebdataset
        Map parts to the fields of a sample type:
            energon prepare /data/coco --sample-type Captioning --field-map '{"image": "jpg", "caption": "txt"}'
        Split by the names of the shards:
            energon prepare /data/coco --split-parts 'train:train_.*' --split-parts 'val:val_.*'
        Collect sizes and durations of images, audio and video:
            energon prepare /data/coco --yes --media-metadata-by-extension
        Keep .nv-meta outside of a read-only folder:
            energon prepare /data/coco --meta-folder ~/coco-meta
        Decompress .tar.gz shards, then prepare:
            energon prepare /data/coco --yes --decompress
        Scan share 3 of 64, as one of many jobs:
            energon prepare /data/coco --share 3/64
        Commit the shares when all are done:
            energon prepare /data/coco --yes --merge
        Scan on the workers of a Dask cluster:
            energon prepare /data/coco --yes --engine dask --address tcp://node1:8786
        Show the result without writing it:
            energon prepare /data/coco --yes --dry-run
        Index the lines of a JSONL file:
            energon prepare /data/texts.jsonl
        Prepare the joins of a metadataset:
            energon prepare /data/mix.yaml
    """
    from dataclasses import replace

    from loader.format import check_finished
    from loader.storage import is_url, open_storage, use_rust_here

    from .flags import PrepareFlags
    from .offer_import import offer_import
    from .other_paths import check_file_flags, check_record_file, prepare_joins, prepare_jsonl
    from .run import prepare_dataset, prepare_share

    # A folder of loose files is imported first, if the user agrees.
    settings = PrepareFlags.of(path, **flags)
    ref = settings.ref
    imported = offer_import(settings)
    if imported is not None and not settings.plan.media:
        return  # it is prepared
    # Find out what the path names.
    ref = check_ref(ref, takes_tar=False) if imported is None else replace(ref, path=imported)
    path = ref.path
    if is_url(path):
        use_rust_here()
    plan = replace(settings.plan, path=path)
    settings = replace(settings, ref=ref, plan=plan, yes=settings.yes or imported is not None)
    # Prepare the joins of a metadataset, or index a single file.
    if ref.kind.is_mix:
        prepare_joins(settings)
        return
    if ref.kind.is_file:
        check_file_flags(settings)
        (prepare_jsonl if ref.kind.format == "jsonl" else check_record_file)(settings)
        return
    # Prepare a folder of shards, or scan a share of it.
    if not is_url(path):
        check_finished(open_storage(path))
    share = settings.engine.share
    if share is None:
        prepare_dataset(settings)
    else:
        prepare_share(settings, share)
