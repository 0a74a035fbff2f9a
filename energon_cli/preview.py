"""``energon preview``: samples of a dataset, with their pictures, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from loader.errors import ConfigError

from .command import energon_command
from .dataset_path import check_path, is_jsonl, open_parent

if TYPE_CHECKING:
    from loader.format.dataset_folder import DatasetFolder

    from .preview_render import SampleView
    from .preview_source import Build

__all__ = ["preview"]

_EXAMPLES = (
    ("Page through a dataset", "energon preview /data/coco"),
    ("Print three samples of the validation part", "energon preview /data/coco --split-parts val -n 3"),
    ("Show one sample by its key", "energon preview /data/coco --key shard_000.tar/000017"),
    ("Look at random samples as they lie in the shards", "energon preview /data/coco --shuffle --crude"),
)


@energon_command("preview", examples=_EXAMPLES, short_help="Show samples, with their pictures, in the terminal.")
@click.argument("path")
@click.option(
    "-n", "count", metavar="N", type=click.IntRange(min=1), help="Print this many samples and end (piped: 1)."
)
@click.option(
    "--index", metavar="I", type=click.IntRange(min=0), default=0, help="Start at this sample, counted from 0."
)
@click.option("--key", metavar="KEY", help="Show the sample of this key: '<shard>/<key>', or the key alone.")
@click.option("--split-parts", metavar="A,B", help="Only samples of these split parts.")
@click.option("--shuffle/--no-shuffle", default=False, help="Go through the samples in random order.")
@click.option("--seed", metavar="N", type=int, default=0, show_default=True, help="Another seed, another random order.")
@click.option("--crude", is_flag=True, help="Show the raw parts, whatever dataset.yaml makes of them.")
@click.option("--images/--no-images", default=None, help="Draw pictures (on a terminal, unless told otherwise).")
@click.option(
    "--dataset-config", metavar="NAME", default="dataset.yaml", show_default=True, help="Its name in .nv-meta."
)
@click.option("--split-config", metavar="NAME", default="split.yaml", show_default=True, help="Its name in .nv-meta.")
@click.option(
    "--trust-code", is_flag=True, envvar="ENERGON_TRUST_CODE", help="Run Python files that the dataset brings along."
)
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
    """Show samples of the dataset at PATH as training will get them: fields, types, shapes, texts and pictures.

    On a terminal, Enter or → shows the next sample, ← the one before, q ends. Piped, or with -n, samples are printed.
    A dataset without a dataset.yaml, and a sample that cannot be made, are shown as raw parts.
    """
    from .console import is_terminal, output_console
    from .preview_render import render_sample, terminal_space

    check_path(path)
    seed_of_order = seed if shuffle else None
    if is_jsonl(path):
        if split_parts is not None:
            raise click.BadParameter("a JSONL file has no split parts", param_hint="--split-parts")
        total, view = _views_of_lines(path, key=key, seed=seed_of_order)
    else:
        from loader.format.dataset_folder import DatasetFolder

        dataset = DatasetFolder(path, split_config=split_config, dataset_config=dataset_config)
        parts = None if split_parts is None else [name.strip() for name in split_parts.split(",")]
        build = None if crude else _builder(dataset, trust_code=trust_code)
        total, view = _views_of_folder(dataset, build, split_parts=parts, key=key, seed=seed_of_order)
    if not total:
        raise _nothing_to_show(path, split_parts)
    if index >= total:
        raise click.BadParameter(f"there are {total:,} samples, counted from 0", param_hint="--index")
    console = output_console()
    space = terminal_space(console, images=images)
    if console.is_terminal and is_terminal(sys.stdin) and count is None:
        from .preview_pager import page_through

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


def _nothing_to_show(path: str, split_parts: str | None) -> ConfigError:
    if split_parts is None:
        return ConfigError("there are no samples to show", at=path)
    names = [name.strip() for name in split_parts.split(",")]
    which = f"split part {names[0]!r} is" if len(names) == 1 else f"split parts {', '.join(map(repr, names))} are"
    return ConfigError(
        f"the {which} empty", at=path, do="choose another part (energon info shows their sizes), or split anew"
    )


_View = Callable[[int], "SampleView"]


def _views_of_folder(
    dataset: DatasetFolder, build: Build | None, *, split_parts: Sequence[str] | None, key: str | None, seed: int | None
) -> tuple[int, _View]:
    """Give how many samples there are to show, and what gives the view of each."""
    from .preview_source import place_of, select_samples, view_of_sample

    selection = select_samples(dataset, split_parts=split_parts, key=key, seed=seed)

    def view(place: int) -> SampleView:
        title = place_of(place, len(selection))
        if key is not None:  # there is nothing else to page through; the place is that in the dataset
            title = place_of(selection[place], len(dataset.index))
            if len(selection) > 1:
                title += f", {place + 1} of {len(selection):,} with this key"
        return view_of_sample(dataset, selection[place], title=title, build=build)

    return len(selection), view


def _views_of_lines(path: str, *, key: str | None, seed: int | None) -> tuple[int, _View]:
    """Do the same for a JSONL file: each line is a sample with the part json, and its number is its key."""
    from loader.format.jsonl import JsonlReader

    from .preview_render import SampleView
    from .preview_source import Selection, describe_parts, place_of

    storage, name = open_parent(path)
    reader = JsonlReader(storage, name)
    if key is None:
        selection = Selection([range(len(reader))], seed=seed)
    elif key.isdecimal() and int(key) < len(reader):
        selection = Selection([range(int(key), int(key) + 1)])
    else:
        raise ConfigError(f"no sample has the key {key!r}; keys are the numbers from 0 to {len(reader) - 1}", at=path)

    def view(place: int) -> SampleView:
        line = reader.read_line(selection[place])
        number = place_of(place, len(selection)) if key is None else place_of(selection[place], len(reader))
        title = f"{name}/{selection[place]}   {number}"
        return SampleView(title=title, fields=describe_parts({"json": line}))

    return len(selection), view


def _builder(dataset: DatasetFolder, *, trust_code: bool) -> Build | None:
    """Give what makes samples as ``dataset.yaml`` says; None where samples stay parts."""
    config = dataset.config
    if config is None or config.crude:
        return None
    from .console import show_progress

    show_progress("decoding the first sample…")
    from loader.errors import TrustError
    from loader.format.nv_meta import FOLDER
    from loader.samples.decoder import SampleDecoder
    from loader.samples.sample_builder import SampleBuilder

    try:
        builder = SampleBuilder(
            config, meta_folder=dataset.storage.local_path(FOLDER), decoder=SampleDecoder(), trust_code=trust_code
        )
    except TrustError as error:
        refused = error

        def refuse(_parts: Mapping[str, bytes], _key: str) -> Any:
            raise refused

        return refuse

    def build(parts: Mapping[str, bytes], key: str) -> Any:
        if config.field_map is not None:
            return builder.build(parts, key=key)  # decodes what it needs, and knows what else is there
        wanted = {name: data for name, data in parts.items() if builder.part_filter(name)}
        return builder.build(wanted, key=key)

    return build
