"""``energon preview``: show samples of a dataset, with their pictures, in the terminal."""

from __future__ import annotations

import sys

import click

from loader.errors import ConfigError

from ..command import energon_command
from ..dataset_path import check_path, given_name

__all__ = ["preview"]

_EXAMPLES = (
    ("Page through a dataset", "energon preview /data/coco"),
    ("Print three samples of the validation part", "energon preview /data/coco --split-parts val -n 3"),
    ("Show one sample by its key", "energon preview /data/coco --key shard_000.tar/000017"),
    ("Show samples of a mix as training draws them", "energon preview /data/mix.yaml --shuffle -n 5"),
    ("Show the raw parts of random samples", "energon preview /data/coco --shuffle --crude"),
)


@energon_command("preview", examples=_EXAMPLES, short_help="Show samples, with their pictures, in the terminal.")
@click.argument("path")
@click.option(
    "-n",
    "count",
    metavar="N",
    type=click.IntRange(min=1),
    help="Print this many samples and exit (default if piped: 1).",
)
@click.option(
    "--index", metavar="I", type=click.IntRange(min=0), default=0, help="Start at this sample, counted from 0."
)
@click.option("--key", metavar="KEY", help="Show the sample with this key: '<shard>/<key>', or the key alone.")
@click.option("--split-parts", metavar="A,B", help="Only samples of these split parts, or splits of a metadataset.")
@click.option("--shuffle/--no-shuffle", default=False, help="Show the samples in random order.")
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Seed of the random order.")
@click.option("--crude", is_flag=True, help="Show raw parts, even if dataset.yaml names a sample type.")
@click.option("--images/--no-images", default=None, help="Draw pictures (default: on a terminal).")
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
def preview(
    path: str,
    *,
    count: int | None,
    index: int,
    key: str | None,
    split_parts: str | None,
    shuffle: bool,
    seed: int,
    crude: bool,
    images: bool | None,
    dataset_config: str,
    split_config: str,
    trust_code: bool,
) -> None:
    """Show samples of the dataset at PATH as training gets them: fields, types, shapes, texts and pictures.

    On a terminal, Enter or → shows the next sample, ← the previous one, and q quits. Piped, or with -n, samples are
    printed. Samples without a dataset.yaml, and samples that cannot be built, are shown as raw parts.

    PATH may also be a .jsonl, .bin or .parquet file, a folder of files after prepare-media, or a metadataset .yaml.
    The datasets of a metadataset are shown one after another, or with --shuffle mixed by weight.
    """
    from loader.inspect import PreviewRequest, open_views

    from ..console import is_terminal, output_console, show_progress
    from .render import render_sample, terminal_space

    path = check_path(path)
    if split_parts is not None:
        _check_has_splits(path)
    request = PreviewRequest(
        path=path,
        split_parts=None if split_parts is None else tuple(name.strip() for name in split_parts.split(",")),
        key=key,
        seed=seed if shuffle else None,
        crude=crude,
        trust_code=trust_code,
        dataset_config=given_name("dataset_config", dataset_config),
        split_config=given_name("split_config", split_config),
        on_decode=lambda: show_progress("decoding the first sample…"),
    )
    total, view = open_views(request)
    if not total:
        raise _nothing_to_show(path, split_parts)
    if index >= total:
        raise click.BadParameter(f"there are {total:,} samples, counted from 0", param_hint="--index")
    console = output_console()
    space = terminal_space(console, images=images)
    if console.is_terminal and is_terminal(sys.stdin) and count is None:
        from .pager import page_through

        page_through(console, total, lambda place: render_sample(view(place), space), start=index)
        return
    faults = 0
    for number, place in enumerate(range(index, min(index + (count or 1), total))):
        sample = view(place)
        faults += sample.fault is not None
        if number:
            console.print()
        for line in render_sample(sample, space):
            console.print(line, soft_wrap=not console.is_terminal)
    if faults:
        raise click.exceptions.Exit(1)


def _check_has_splits(path: str) -> None:
    from loader.format.documents import is_metadataset, is_record_file
    from loader.format.media import is_media_folder
    from loader.storage import open_storage

    if is_metadataset(path):
        return
    if is_record_file(path):
        raise click.BadParameter("a single file has no split parts", param_hint="--split-parts")
    if is_media_folder(open_storage(path)):
        raise click.BadParameter("a folder of files has no split parts", param_hint="--split-parts")


def _nothing_to_show(path: str, split_parts: str | None) -> ConfigError:
    if split_parts is None:
        return ConfigError("there are no samples to show", at=path)
    names = [name.strip() for name in split_parts.split(",")]
    which = f"split part {names[0]!r} is" if len(names) == 1 else f"split parts {', '.join(map(repr, names))} are"
    return ConfigError(
        f"the {which} empty", at=path, hint="choose another part (energon info shows their sizes), or split again"
    )
