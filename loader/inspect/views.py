"""The samples that ``preview`` goes through: how many there are, and what gives the view of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from loader.errors import ConfigError, EnergonError

from ..dataset_path import is_jsonl, is_metadataset, open_parent
from .render import SampleView
from .source import Build, Selection, describe_parts, place_of, select_samples, view_of_sample

if TYPE_CHECKING:
    from loader.format.dataset_folder import DatasetFolder
    from loader.format.jsonl.index import JsonlReader

__all__ = ["PreviewFlags", "View", "line_number", "view_of_line", "views_of", "views_of_folder", "views_of_lines"]

View = Callable[[int], SampleView]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewFlags:
    """Which samples to show, and how.

    Attributes:
        path: What to look at.
        split_parts: Only these split parts, or splits of a metadataset.
        key: Only the samples of this key.
        seed: Shuffles; None keeps the order.
        crude: Show raw parts.
        trust_code: Code that comes with the data may run.
        dataset_config: The dataset file, where the user names one.
        split_config: The split file, where the user names one.
    """

    path: str
    split_parts: tuple[str, ...] | None
    key: str | None
    seed: int | None
    crude: bool
    trust_code: bool
    dataset_config: str | None
    split_config: str | None


def views_of(flags: PreviewFlags) -> tuple[int, View]:
    """Give how many samples there are to show, and what gives the view of each.

    Raises:
        BadParameter: There are no split parts to choose from.
        ConfigError: There is no such split part or key.
        StorageError: There is nothing, or nothing prepared.
    """
    from loader.format.nv_meta import DATASET_YAML, SPLIT_YAML

    if is_metadataset(flags.path):
        from .mix import views_of_mix

        return views_of_mix(flags)
    if is_jsonl(flags.path):
        _refuse_split_parts(flags, "a JSONL file")
        return views_of_lines(flags.path, key=flags.key, seed=flags.seed)
    from .files import is_folder_of_files, views_of_files

    if is_folder_of_files(flags.path):
        _refuse_split_parts(flags, "a folder of files")
        return views_of_files(flags.path, key=flags.key, seed=flags.seed)
    from loader.format.dataset_folder import DatasetFolder

    from .build import make_build

    dataset = DatasetFolder(
        flags.path,
        split_config=flags.split_config or SPLIT_YAML,
        dataset_config=flags.dataset_config or DATASET_YAML,
    )
    build = None if flags.crude else make_build(dataset, trust_code=flags.trust_code)
    return views_of_folder(dataset, build, split_parts=flags.split_parts, key=flags.key, seed=flags.seed)


def _refuse_split_parts(flags: PreviewFlags, what: str) -> None:
    if flags.split_parts is not None:
        raise click.BadParameter(f"{what} has no split parts", param_hint="--split-parts")


def views_of_folder(
    dataset: DatasetFolder, build: Build | None, *, split_parts: Sequence[str] | None, key: str | None, seed: int | None
) -> tuple[int, View]:
    """Give how many samples there are to show, and what gives the view of each."""
    selection = select_samples(dataset, split_parts=split_parts, key=key, seed=seed)

    def view(place: int) -> SampleView:
        title = place_of(place, len(selection))
        if key is not None:  # there is nothing else to page through; the place is that in the dataset
            title = place_of(selection[place], len(dataset.index))
            if len(selection) > 1:
                title += f", {place + 1} of {len(selection):,} with this key"
        return view_of_sample(dataset, selection[place], title=title, build=build)

    return len(selection), view


def views_of_lines(path: str, *, key: str | None, seed: int | None) -> tuple[int, View]:
    """Do the same for a JSONL file: each line is a sample with the part json, and its number is its key."""
    from loader.format.jsonl.index import JsonlReader

    storage, name = open_parent(path)
    reader = JsonlReader(storage, name)
    if key is None:
        selection = Selection([range(len(reader))], seed=seed)
    else:
        found = line_number(key, name, len(reader))
        if found is None:
            there = f"keys are the numbers from 0 to {len(reader) - 1}"
            raise ConfigError(f"no sample has the key {key!r}; {there}", at=path)
        selection = Selection([range(found, found + 1)])

    def view(place: int) -> SampleView:
        number = selection[place]
        title = place_of(place, len(selection)) if key is None else place_of(number, len(reader))
        return view_of_line(reader, number, f"{name}/{number}   {title}")

    return len(selection), view


def line_number(key: str, name: str, lines: int) -> int | None:
    """Give the line that a key means, ``"3"`` or ``"texts.jsonl/3"``; None where there is no such line.

    >>> line_number("3", "texts.jsonl", 4), line_number("texts.jsonl/0", "texts.jsonl", 4)
    (3, 0)
    """
    number = key.removeprefix(f"{name}/")
    if not number.isdecimal() or len(number) > len(str(lines)):
        return None
    return int(number) if str(int(number)) == number and int(number) < lines else None


def view_of_line(reader: JsonlReader, number: int, title: str) -> SampleView:
    """Read one line of a JSONL file and describe it."""
    try:
        line = reader.read_line(number)
    except EnergonError as error:
        return SampleView(title=title, fields=(), fault=str(error))
    return SampleView(title=title, fields=describe_parts({"json": line}))
