"""``energon preview``: show samples of a dataset, with their pictures, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from loader.errors import ConfigError, plural
from loader.inspect import SampleView

from ....command import energon_command
from ....console import StatusLine, is_terminal, output_console, print_json, show_note
from ....dataset_options import dataset_options
from ....dataset_paths import check_ref
from ....options import INDEX, flag_option, shared_options, shuffle_options
from ....progress import ProgressBar
from ....terminal.render import render_sample, terminal_space
from .walk import Walk

if TYPE_CHECKING:
    from loader.format import DatasetRef
    from loader.inspect import PreviewRequest, SampleViews


@energon_command("preview")
@click.argument("path")
@click.argument("keys", nargs=-1, metavar="[KEY]…")
@shared_options("limit", help="Print this many samples, and exit.  [default: 1 in a pipe]")
@click.option("--index", **INDEX, default=0, help="Start at this sample, counted from 0.")
@shared_options("split_parts")
@shuffle_options
@flag_option("--crude", help="Show raw parts, even if dataset.yaml names a sample type.")
@click.option("--images/--no-images", default=None, help="Draw pictures.  [default: on a terminal]")
@shared_options("json", help="Print a line of JSON for each sample.")
@shared_options("max_json_bytes", default="16MiB")
@dataset_options("dataset_config", "trust_code")
def preview(
    ref: DatasetRef,
    *,
    keys: tuple[str, ...],
    limit: int | None,
    index: int,
    split_parts: tuple[str, ...],
    shuffle_seed: int | None,
    images: bool | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show samples of the dataset at PATH as training gets them: fields, types, shapes, texts and pictures.

    On a terminal, Enter or → shows the next sample, ← the previous one, ? all keys, and q quits. Piped, or with -n,
    samples are printed. Samples without a dataset.yaml, and samples that cannot be built, are shown as raw parts.
    KEY chooses samples: <shard>/<key>, or the key alone.

    PATH may also be a .jsonl, .bin or .parquet file, a folder of files after prepare-media, or a metadataset .yaml.
    Tar files that are not prepared, a folder or a single one, are shown as raw parts; no more of them is scanned than
    needed. The datasets of a metadataset are shown one after another, or with --shuffle mixed by weight.

    PATH may be a URL of an object store or web server, such as s3://bucket/coco.

    Examples:
        Page through a dataset:
            energon preview /data/coco
        Print three samples of the validation part:
            energon preview /data/coco --split-parts val -n 3
        Show one sample by its key:
            energon preview /data/coco shard_000.tar/000017
        Show samples of a mix as training draws them:
            energon preview /data/mix.yaml --shuffle -n 5
        Show the first sample of a tar file:
            energon preview /data/raw/shard_000.tar
        Show the first sample of a dataset in an object store:
            energon preview s3://bucket/coco -n 1
        Print fields, types and shapes as JSON:
            energon preview /data/coco -n 10 --json
        Show the raw parts of random samples:
            energon preview /data/coco --shuffle --crude
    """
    from loader.engine import usable_cores
    from loader.inspect import PreviewRequest, open_views

    # Open the samples of all keys; tar files that are not prepared are scanned as far as needed.
    ref = check_ref(ref)
    if split_parts:
        _check_has_splits(ref)
    bar, status = ProgressBar("Scanning headers", unit="shards"), StatusLine()
    request = PreviewRequest(
        ref=ref,
        split_parts=split_parts or None,
        seed=shuffle_seed,
        on_decode=lambda: status.show("decoding the first sample…"),
        reach=index + (limit or 1),
        workers=usable_cores(),
        on_progress=bar.update,
        on_note=show_note,
        **options,
    )
    with bar, status:
        total, view = _joined([open_views(replace(request, key=key)) for key in keys or (None,)])
    # Choose the samples to print.
    if not total:
        raise _nothing_to_show(ref.path, split_parts)
    if index >= total:
        raise click.BadParameter(f"there are {plural(total, 'sample')}, counted from 0", param_hint="--index")
    shown = range(index, min(index + (limit or max(1, len(keys))), total))
    # Print them as JSON, page through them, or print them as text.
    if as_json:
        is_sound = _print_documents(view, shown)
        if not is_sound:
            raise click.exceptions.Exit(1)
    elif limit is None and output_console().is_terminal and is_terminal(sys.stdin):
        _page(request, keys, view, total, start=index, images=images)
    elif not _print_samples(view, shown, images=images):
        raise click.exceptions.Exit(1)


def _joined(views: Sequence[SampleViews]) -> SampleViews:
    from loader.inspect import SampleViews

    if len(views) == 1:
        return views[0]
    samples = [(views_of_key.view, index) for views_of_key in views for index in range(views_of_key.total)]

    def view(index: int) -> SampleView:
        view_of_key, place_of_key = samples[index]
        return view_of_key(place_of_key)

    return SampleViews(len(samples), view)


def _page(
    request: PreviewRequest,
    keys: Sequence[str],
    view: Callable[[int], SampleView],
    total: int,
    *,
    start: int,
    images: bool | None,
) -> None:
    from loader.inspect import open_views

    @cache
    def raw_views() -> Callable[[int], SampleView]:
        return _joined([open_views(replace(request, key=key, crude=True)) for key in keys or (None,)]).view

    def quick_view(index: int) -> SampleView:
        return raw_views()(index)

    Walk(output_console(), total, view, quick_view, start=start).run(images=images)


def _print_samples(view: Callable[[int], SampleView], places: Sequence[int], *, images: bool | None) -> bool:
    console = output_console()
    space = terminal_space(console, images=images)
    are_sound = True
    for position, index in enumerate(places):
        sample = view(index)
        are_sound &= sample.fault is None
        if position:
            console.print()
        for line in render_sample(sample, space):
            console.print(line, soft_wrap=not console.is_terminal)
    return are_sound


def _print_documents(view: Callable[[int], SampleView], places: Sequence[int]) -> bool:
    from loader.inspect import sample_document

    are_sound = True
    for index in places:
        sample = view(index)
        are_sound &= sample.fault is None
        print_json(sample_document(sample), in_one_line=True)
    return are_sound


def _check_has_splits(ref: DatasetRef) -> None:
    from loader.dataset import kind_at
    from loader.format import is_tar_file

    without = "a single file" if ref.kind.is_file else "a single tar file" if is_tar_file(ref.path) else ""
    if kind_at(ref) == "folders of media files":
        without = "a folder of files"
    if without:
        raise click.BadParameter(f"{without} has no split parts", param_hint="--split-parts")


def _nothing_to_show(path: str, split_parts: tuple[str, ...]) -> ConfigError:
    if not split_parts:
        return ConfigError("there are no samples to show", at=path)
    names = ", ".join(map(repr, split_parts))
    which = f"split part {names} is" if len(split_parts) == 1 else f"split parts {names} are"
    return ConfigError(
        f"the {which} empty", at=path, hint="choose another part (energon info shows their sizes), or split again"
    )
