"""``energon preview``: show samples of a dataset, with their pictures, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import click

from loader.errors import ConfigError

from ..command import dataset_files_options, energon_command, max_json_option, trust_code_option
from ..dataset_path import check_path, given_name

if TYPE_CHECKING:
    from loader.inspect import PreviewRequest, SampleView

_EXAMPLES = (
    ("Page through a dataset", "energon preview /data/coco"),
    ("Print three samples of the validation part", "energon preview /data/coco --split-parts val -n 3"),
    ("Show one sample by its key", "energon preview /data/coco --key shard_000.tar/000017"),
    ("Show samples of a mix as training draws them", "energon preview /data/mix.yaml --shuffle -n 5"),
    ("Show the first sample of a tar file", "energon preview /data/raw/shard_000.tar"),
    ("Show the first sample of a dataset in an object store", "energon preview s3://bucket/coco -n 1"),
    ("Print fields, types and shapes as JSON", "energon preview /data/coco -n 10 --json"),
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
@click.option("--json", "as_json", is_flag=True, help="Print each sample as one line of JSON.")
@max_json_option("16MiB")
@dataset_files_options
@trust_code_option
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
    as_json: bool,
    max_json_bytes: int,
    dataset_config: str,
    split_config: str,
    meta_folder: str | None,
    trust_code: bool,
) -> None:
    """Show samples of the dataset at PATH as training gets them: fields, types, shapes, texts and pictures.

    On a terminal, Enter or → shows the next sample, ← the previous one, ? all keys, and q quits. Piped, or with -n,
    samples are printed. Samples without a dataset.yaml, and samples that cannot be built, are shown as raw parts.

    PATH may also be a .jsonl, .bin or .parquet file, a folder of files after prepare-media, or a metadataset .yaml.
    Tar files that are not prepared, a folder or a single one, are shown as raw parts; no more of them is scanned than
    needed. The datasets of a metadataset are shown one after another, or with --shuffle mixed by weight.

    PATH may be a URL of an object store or web server, such as s3://bucket/coco.
    """
    from loader.format import usable_cores
    from loader.inspect import PreviewRequest, open_views

    from ..console import StatusLine, is_terminal, output_console, show_note
    from ..progress import ProgressBar

    path = check_path(path, takes_tar=True, meta_folder=meta_folder)
    if split_parts is not None:
        _check_has_splits(path, meta_folder)
    bar, status = ProgressBar("Scanning headers", unit="shards"), StatusLine()
    request = PreviewRequest(
        path=path,
        split_parts=None if split_parts is None else tuple(name.strip() for name in split_parts.split(",")),
        key=key,
        seed=seed if shuffle else None,
        crude=crude,
        trust_code=trust_code,
        dataset_config=given_name("dataset_config", dataset_config),
        split_config=given_name("split_config", split_config),
        meta_folder=meta_folder,
        on_decode=lambda: status.show("decoding the first sample…"),
        reach=index + (count or 1),
        workers=usable_cores(),
        on_progress=bar.update,
        on_note=show_note,
        max_json_bytes=max_json_bytes,
    )
    with bar, status:
        total, view = open_views(request)
    if not total:
        raise _nothing_to_show(path, split_parts)
    if index >= total:
        raise click.BadParameter(f"there are {total:,} samples, counted from 0", param_hint="--index")
    if as_json:
        is_sound = _print_documents(view, range(index, min(index + (count or 1), total)))
        if not is_sound:
            raise click.exceptions.Exit(1)
    elif count is None and output_console().is_terminal and is_terminal(sys.stdin):
        _page(request, view, total, start=index, images=images)
    elif not _print_samples(view, range(index, min(index + (count or 1), total)), images=images):
        raise click.exceptions.Exit(1)


def _page(
    request: PreviewRequest, view: Callable[[int], SampleView], total: int, *, start: int, images: bool | None
) -> None:
    """Show samples one by one, as keys are pressed."""
    from loader.inspect import open_views

    from ..console import output_console
    from .pager import page_through

    @cache
    def raw_views() -> Callable[[int], SampleView]:
        return open_views(replace(request, crude=True)).view

    def quick_view(place: int) -> SampleView:
        return raw_views()(place)

    page_through(output_console(), total, view, quick_view, start=start, images=images)


def _print_samples(view: Callable[[int], SampleView], places: Sequence[int], *, images: bool | None) -> bool:
    """Print samples; return True if all of them can be built."""
    from ..console import output_console
    from .render import render_sample, terminal_space

    console = output_console()
    space = terminal_space(console, images=images)
    are_sound = True
    for number, place in enumerate(places):
        sample = view(place)
        are_sound &= sample.fault is None
        if number:
            console.print()
        for line in render_sample(sample, space):
            console.print(line, soft_wrap=not console.is_terminal)
    return are_sound


def _print_documents(view: Callable[[int], SampleView], places: Sequence[int]) -> bool:
    """Print a line of JSON for each sample; return True if all of them can be built."""
    from loader.inspect import sample_document

    from ..console import print_json

    are_sound = True
    for place in places:
        sample = view(place)
        are_sound &= sample.fault is None
        print_json(sample_document(sample), in_one_line=True)
    return are_sound


def _check_has_splits(path: str, meta_folder: str | None) -> None:
    from loader.format import open_dataset_storage
    from loader.format.documents import is_metadataset, is_record_file, is_tar_file
    from loader.format.media import is_media_folder

    if is_metadataset(path):
        return
    if is_tar_file(path):
        raise click.BadParameter("a single tar file has no split parts", param_hint="--split-parts")
    if is_record_file(path):
        raise click.BadParameter("a single file has no split parts", param_hint="--split-parts")
    if is_media_folder(open_dataset_storage(path, meta_folder)):
        raise click.BadParameter("a folder of files has no split parts", param_hint="--split-parts")


def _nothing_to_show(path: str, split_parts: str | None) -> ConfigError:
    if split_parts is None:
        return ConfigError("there are no samples to show", at=path)
    names = [name.strip() for name in split_parts.split(",")]
    which = f"split part {names[0]!r} is" if len(names) == 1 else f"split parts {', '.join(map(repr, names))} are"
    return ConfigError(
        f"the {which} empty", at=path, hint="choose another part (energon info shows their sizes), or split again"
    )
