"""View the samples of one dataset: a folder of shards, a file of samples or a folder of media files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ..dataset.dataset import Dataset
from ..dataset.opening import dataset_at
from ..dataset.records import SingleFile
from ..dataset.split_parts import runs_of_part
from ..errors import ConfigError, EnergonError
from ..format.media.metadata import AVMetadata, MediaMetadata, MediaMetadataReader
from ..storage import Storage
from .fields import FieldView, describe_part
from .media_views import media_views
from .sample_view import PreviewRequest, SampleView, make_build, place_of, view_of_sample
from .selection import MixOrder, Selection
from .text import format_bytes, format_count


class SampleViews(NamedTuple):
    """The samples that a request selects.

    Attributes:
        total: Number of samples.
        view: Reads and describes the sample at a place, ``0 <= place < total``.
    """

    total: int
    view: Callable[[int], SampleView]


def open_folder_views(request: PreviewRequest) -> SampleViews:
    """View the samples of a prepared folder of shards, or of a file of samples, whose numbers are their keys.

    Raises:
        ConfigError: The split part or key does not exist.
        StorageError: The dataset is missing or not prepared.
    """
    dataset = dataset_at(request.ref)
    build = None if request.crude else make_build(dataset, request)
    selection = _select_samples(dataset, request)

    def view(place: int) -> SampleView:
        index = selection.position(place)
        title = place_text(selection, place, shuffled=request.seed is not None)
        if request.key is not None:  # the position in the dataset, since a key selects only one sample or a few
            index = selection[place]
            title = place_of(index, len(dataset.index))
            if len(selection) > 1:
                title += f", {place + 1} of {len(selection):,} with this key"
        sample = view_of_sample(
            dataset, selection[place], title=title, build=build, max_json_bytes=request.max_json_bytes
        )
        return replace(sample, index=index)

    return SampleViews(len(selection), view)


def place_text(selection: Selection | MixOrder, place: int, *, shuffled: bool) -> str:
    """Format the place of a sample as ``--index`` counts without ``--shuffle``, and its draw in a random order.

    >>> place_text(Selection([range(10)]), 3, shuffled=False)
    'sample 3 of 10'
    """
    text = place_of(selection.position(place), len(selection))
    return f"{text}, drawn as number {format_count(place)}" if shuffled else text


def _select_samples(dataset: Dataset, request: PreviewRequest) -> Selection:
    if request.key is not None:
        found = dataset.index.find(request.key)
        if not found and isinstance(dataset, SingleFile):
            there = f"keys are the numbers from 0 to {len(dataset) - 1}"
            raise ConfigError(f"no sample has the key {request.key!r}; {there}", at=request.ref.path)
        if not found:
            raise ConfigError(
                f"no sample has the key {request.key!r}",
                at=dataset.path,
                hint="give it as '<shard>/<key>', or as the key alone; energon preview shows some",
            )
        return Selection([range(number, number + 1) for number in found])
    if request.split_parts is None:
        return Selection([range(len(dataset.index))], seed=request.seed)
    ranges = [some for name in request.split_parts for some in runs_of_part(dataset, name)]
    return Selection(ranges, seed=request.seed)


def open_file_views(request: PreviewRequest) -> SampleViews:
    """View the files of a folder with media metadata.

    Raises:
        ConfigError: The key names none of the files, or no media metadata was collected.
        FormatError: ``index.sqlite`` is damaged.
    """
    storage = request.ref.storage()
    known = dict(sorted(MediaMetadataReader(storage)))
    names = list(known)
    key = request.key
    if key is not None and key not in known:
        raise ConfigError(
            f"no media metadata is known of the file {key!r}",
            at=storage.path(""),
            hint="give its path relative to the folder; energon preview shows some",
        )
    chosen = range(len(names)) if key is None else range(names.index(key), names.index(key) + 1)
    selection = Selection([chosen], seed=request.seed)

    def view(place: int) -> SampleView:
        name = names[selection[place]]
        number = selection[place]
        drawn = "" if request.seed is None else f", drawn as number {format_count(place)}"
        title = f"{name}   file {format_count(number)} of {format_count(len(names))}{drawn}"
        found = SampleView(title=title, fields=(), bare_key=name, index=number)
        try:
            return replace(found, fields=(_describe_file(storage, name, known[name]),))
        except EnergonError as error:
            return replace(found, fault=str(error))

    return SampleViews(len(selection), view)


def _describe_file(storage: Storage, name: str, metadata: MediaMetadata) -> FieldView:
    """Describe an image by its bytes, and audio or video by its metadata and a frame or its loudness."""
    shown = os.path.basename(name)
    if not isinstance(metadata, AVMetadata):
        return describe_part(shown, storage.read(name))
    views = media_views(metadata, lambda: storage.local_path(name).open("rb"))
    facts = ", ".join(filter(None, (views.facts, format_bytes(storage.stat(name).size_bytes))))
    return FieldView(name=shown, facts=facts, **views.shown)
