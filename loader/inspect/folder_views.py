"""View the samples of a dataset: a folder of shards, a file of samples, media files, or a tar that is not prepared."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ..dataset.dataset import Dataset
from ..dataset.opening import dataset_at
from ..dataset.records import SingleFile
from ..dataset.selection import Selection
from ..dataset.unprepared.tar_index import TarFolder, UnpreparedDataset, find_tars, scan_first_samples, scan_tars
from ..errors import ConfigError, EnergonError, plural
from ..format.documents import quoted
from ..format.media.metadata import AVMetadata, MediaMetadata, MediaMetadataReader
from ..storage import Storage
from .fields import FieldView, describe_part
from .media_views import media_views
from .sample_view import PreviewRequest, SampleView, Viewer, place_of
from .shown_order import MixOrder, ShownOrder
from .text import format_bytes


class SampleViews(NamedTuple):
    """The samples that a request selects.

    Attributes:
        total: Number of samples.
        view: Reads and describes the sample at a place, ``0 <= place < total``.
    """

    total: int
    view: Callable[[int], SampleView]


def open_folder_views(request: PreviewRequest) -> SampleViews:
    """View the samples of a prepared folder of shards, or of a file of samples, whose numbers are their keys."""
    dataset = dataset_at(request.ref)
    viewer = Viewer(dataset, request)
    if request.key is not None:
        order = _with_key(dataset, request.key, at=dataset.path)
    elif request.split_parts is None:
        order = ShownOrder([range(len(dataset.index))], seed=request.seed)
    else:
        ranges = [some for name in request.split_parts for some in Selection(dataset, name).runs()]
        order = ShownOrder(ranges, seed=request.seed)
    return _views(viewer, order, request)


def _views(
    viewer: Viewer, order: ShownOrder, request: PreviewRequest, *, suffix: str = "", in_shard: bool = False
) -> SampleViews:
    dataset = viewer.dataset

    def view(position: int) -> SampleView:
        sample_number = order[position]
        index: int | None = order.position(position)
        title = place_text(order, position, shuffled=request.seed is not None) + suffix
        if request.key is not None:  # the position in the dataset, since a key selects only one sample or a few
            index, title = sample_number, place_of(sample_number, len(dataset.index))
            if in_shard:
                shard = dataset.index.shard_of(sample_number)
                index, title = None, f"{place_of(sample_number - shard.first_sample, shard.samples)} of its shard"
            if len(order) > 1:
                title += f", {position + 1} of {len(order):,} with this key"
        return replace(viewer.view(sample_number, title), index=index)

    return SampleViews(len(order), view)


def place_text(order: ShownOrder | MixOrder, position: int, *, shuffled: bool) -> str:
    """Format the place of a sample as ``--index`` counts without ``--shuffle``, and its draw in a random order.

    >>> place_text(ShownOrder([range(10)]), 3, shuffled=False)
    'sample 3 of 10'
    """
    text = place_of(order.position(position), len(order))
    return f"{text}, drawn as number {position:,}" if shuffled else text


def _with_key(dataset: Dataset, key: str, *, at: str) -> ShownOrder:
    numbers = dataset.find(key)
    if numbers:
        return ShownOrder([range(start, start + 1) for start in numbers])
    hint = "give it as '<shard>/<key>', or as the key alone; energon preview shows some"
    if isinstance(dataset, SingleFile):
        hint = f"keys are the numbers from 0 to {len(dataset) - 1}"
    raise ConfigError(f"no sample has the key {key!r}", at=at, hint=hint)


def open_file_views(request: PreviewRequest) -> SampleViews:
    """View the files of a folder with media metadata."""
    # Choose the files.
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
    order = ShownOrder([chosen], seed=request.seed)

    # Describe a file when it is viewed.
    def view(position: int) -> SampleView:
        name = names[order[position]]
        file_index = order[position]
        drawn = "" if request.seed is None else f", drawn as number {position:,}"
        title = f"{name}   file {file_index:,} of {len(names):,}{drawn}"
        described = SampleView(title=title, fields=(), bare_key=name, index=file_index)
        try:
            return replace(described, fields=(_describe_file(storage, name, known[name]),))
        except EnergonError as error:
            return replace(described, fault=str(error))

    return SampleViews(len(order), view)


def _describe_file(storage: Storage, name: str, metadata: MediaMetadata) -> FieldView:
    """Describe an image by its bytes, and audio or video by its metadata and a frame or its loudness."""
    shown = os.path.basename(name)
    if not isinstance(metadata, AVMetadata):
        return describe_part(shown, storage.read(name))
    facts, views = media_views(metadata, lambda: storage.local_path(name).open("rb"))
    facts = ", ".join(filter(None, (facts, format_bytes(storage.stat(name).size_bytes))))
    return FieldView(name=shown, facts=facts, **views)


_MIN_SCANNED = 1000  # samples that a preview finds, so that a user can page through some
_MAX_DAMAGED = 3  # shards in a note


def open_tar_views(request: PreviewRequest) -> SampleViews:
    """View the samples of tar shards as raw parts.

    The headers of the first samples are scanned; of all shards to shuffle, or to find a key without its shard.
    """
    tars = find_tars(request.ref.path)
    if request.split_parts or request.ref.dataset_config or request.ref.split_config:
        raise ConfigError(
            f"{tars.not_prepared.message}, and so no split parts or other files of one",
            at=tars.not_prepared.at,
            hint=tars.not_prepared.hint,
        )
    # Scan as little as the request needs.
    shards, key = tars.shards, request.key
    if key is not None:  # if it names its shard, no other one is scanned
        shards = tuple(shard for shard in tars.shards if key.startswith(f"{shard.name}/")) or tars.shards
    if key is None and request.seed is None:
        scan = scan_first_samples(tars, max(request.reach, _MIN_SCANNED))
    else:
        scan = scan_tars(replace(tars, shards=shards), workers=request.workers, on_progress=request.on_progress)
    _note(request, tars, scan)
    # View what was scanned.
    every = ShownOrder([range(len(scan.index))], seed=request.seed)
    order = every if key is None else _with_key(scan, key, at=tars.path)
    suffix = "" if scan.complete else " scanned"
    return _views(Viewer(scan, request), order, request, suffix=suffix, in_shard=len(shards) < len(tars.shards))


def scan_note(tars: TarFolder, scan: UnpreparedDataset) -> str:
    """Return how much of tar shards was scanned: ``not prepared; scanned 3 shards``, and how to prepare a folder."""
    # Damaged shards were scanned, too.
    shards = len(scan.index.shards) + len(scan.damaged)
    extent = plural(shards, "shard")
    if shards < len(tars.shards):
        extent = f"{shards:,} of {plural(len(tars.shards), 'shard')}"
    if not scan.complete:
        extent = f"the first {plural(len(scan.index), 'sample')}, in {extent}"
    note = f"not prepared; scanned {extent}"
    return note if tars.is_file else f"{note}; to prepare: energon prepare {quoted(tars.path)}"


def _note(request: PreviewRequest, tars: TarFolder, scan: UnpreparedDataset) -> None:
    if request.on_note is None:
        return
    request.on_note(scan_note(tars, scan))
    for error in scan.damaged[:_MAX_DAMAGED]:
        request.on_note(f"this shard is skipped: {one_line(error)}")
    if len(scan.damaged) > _MAX_DAMAGED:
        request.on_note(f"skipped: {plural(len(scan.damaged) - _MAX_DAMAGED, 'more shard')}; energon lint lists all")


def one_line(error: EnergonError) -> str:
    """Format an error without its hint, after its place."""
    return f"{error.at}: {error.message}" if error.at else error.message
