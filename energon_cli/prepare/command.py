"""``energon prepare``: a folder of shards becomes a dataset."""

from __future__ import annotations

from typing import Any

import click

from ..command import energon_command
from ..dataset_path import check_path
from .media import media_filter_of, media_options

__all__ = ["prepare"]

_EXAMPLES = (
    ("Answer a few questions, then prepare", "energon prepare /data/coco"),
    ("Take every proposal as it is", "energon prepare /data/coco --yes"),
    (
        "Ask nothing",
        "energon prepare /data/coco --non-interactive --split-ratio 8,1,1 --sample-type CrudeWebdataset",
    ),
    (
        "Say where the fields of samples come from",
        """energon prepare /data/coco --sample-type Captioning --field-map '{"image": "jpg", "caption": "txt"}'""",
    ),
    (
        "Split by the shards' names",
        "energon prepare /data/coco --split-parts 'train:train_.*' --split-parts 'val:val_.*'",
    ),
    (
        "Also collect the sizes of images, and durations of audio and video",
        "energon prepare /data/coco --yes --media-metadata-by-extension",
    ),
    ("See what would be written", "energon prepare /data/coco --yes --dry-run"),
    ("Index the lines of a JSONL file", "energon prepare /data/texts.jsonl"),
    ("Prepare the joins of a metadataset", "energon prepare /data/mix.yaml"),
)


@energon_command("prepare", examples=_EXAMPLES, short_help="Make a folder of tar shards an energon dataset.")
@click.argument("path")
@click.option("--split-ratio", metavar="8,1,1", help="Deal shards to train, val and test in these shares.")
@click.option(
    "--split-parts",
    metavar="NAME:PATTERN",
    multiple=True,
    help="Shards of a split part: braces expand, then a regex from the start of the name; NAME:glob:… is a glob."
    " Repeatable; goes before --split-ratio.",
)
@click.option("--shuffle-tars", is_flag=True, help="Shuffle the shards before a ratio deals them, reproducibly.")
@click.option("--exclude", metavar="REGEX", help="Leave out shards whose name matches anywhere.")
@click.option("--sample-type", metavar="NAME", help="What the samples are: CaptioningSample, CrudeWebdataset, …")
@click.option("--field-map", metavar="JSON", help='Where its fields come from: {"image": "jpg", "caption": "txt"}.')
@click.option("--skip-dataset-yaml", is_flag=True, help="Write no dataset.yaml.")
@click.option("--dataset-yaml-name", metavar="NAME", default="dataset.yaml", show_default=True, help="Its name.")
@click.option("--non-interactive", is_flag=True, help="Ask nothing; flags say all.")
@click.option("--yes", is_flag=True, help="Ask nothing; take the proposal for whatever flags leave open.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option(
    "--force-overwrite",
    is_flag=True,
    help="Over a prepared dataset: scan every shard anew, and let flags replace the split and dataset.yaml.",
)
@click.option("--tar-index-only", is_flag=True, help="Only index the shards: no split, no dataset.yaml.")
@click.option("--fix-duplicates", is_flag=True, help="Make renamed copies of shards whose keys occur twice.")
@click.option(
    "--compat/--no-compat",
    default=None,
    help="Write .tar.idx and index.sqlite for other readers of the format: always (or fail), never;"
    " otherwise where they can express the dataset.",
)
@click.option("--num-workers", metavar="N", type=click.IntRange(min=0), help="Worker processes (one per core).")
@click.option("--tmp-path", metavar="DIR", help="Accepted for megatron-energon's sake; nothing is needed there.")
@click.option("--progress/--no-progress", default=True, help="Show a progress bar on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option(
    "--trust-code",
    is_flag=True,
    envvar="ENERGON_TRUST_CODE",
    help="Load pickled parts of the first sample, which may run code.",
)
@media_options
def prepare(path: str, **flags: Any) -> None:
    """Make the folder of tar shards at PATH a dataset: index it, split it, and write down what its samples are.

    On a terminal it asks what it cannot know, with proposals; otherwise the same questions are read as lines from
    standard input, unless --yes or --non-interactive. Only headers are read. Everything in .nv-meta appears at once
    or not at all, and an interrupted run goes on where it stopped. Over a prepared dataset only shards that changed are
    scanned, and the split and dataset.yaml are kept unless flags say otherwise.

    PATH may also be a .jsonl file, whose lines are then indexed, or a metadataset (.yaml), of whose joins the rows are
    then written beside it.
    """
    from loader.format.documents import is_jsonl, is_metadataset

    from .flags import PrepareFlags
    from .run import prepare_dataset, prepare_jsonl

    settings = PrepareFlags(path=path, media=media_filter_of(flags), **flags)
    check_path(path)
    if is_metadataset(path):
        from .metadataset import check_metadataset_flags, prepare_joins

        check_metadataset_flags(click.get_current_context())
        prepare_joins(path, progress=settings.progress, as_json=settings.as_json, dry_run=settings.dry_run)
    elif is_jsonl(path):
        prepare_jsonl(settings)
    else:
        prepare_dataset(settings)
