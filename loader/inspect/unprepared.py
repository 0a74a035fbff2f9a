"""View samples of tar shards that are not prepared: a folder of them, or one tar file."""

from __future__ import annotations

from dataclasses import replace

from ..dataset.unprepared.scan import UnpreparedDataset, scan_first_samples, scan_tars
from ..dataset.unprepared.tar_folder import TarFolder, find_tars
from ..errors import ConfigError, EnergonError
from ..format.documents import quoted
from .folder_views import SampleViews, place_text
from .sample_view import PreviewRequest, SampleView, place_of, view_of_sample
from .selection import Selection
from .text import plural

_MIN_SCANNED = 1000  # samples that a preview finds, so that a user can page through some
_MAX_DAMAGED = 3  # shards in a note


def open_tar_views(request: PreviewRequest) -> SampleViews:
    """View the samples of tar shards as raw parts.

    The headers of the first samples are scanned; of all shards to shuffle, or to find a key without its shard.

    Raises:
        ConfigError: The key does not exist, or something is requested that only a prepared dataset has.
        FormatError: No shard can be scanned.
        StorageError: The path holds no tar files.
    """
    tars = find_tars(request.ref.path)
    if request.split_parts or request.ref.dataset_config or request.ref.split_config:
        raise ConfigError(
            f"{tars.not_prepared.message}, and so no split parts or other files of one",
            at=tars.not_prepared.at,
            hint=tars.not_prepared.hint,
        )
    if request.key is not None:
        return _find_key(tars, request, request.key)
    if request.seed is None:
        scan = scan_first_samples(tars, max(request.reach, _MIN_SCANNED))
    else:
        scan = scan_tars(tars, workers=request.workers, on_progress=request.on_progress)
    _note(request, tars, scan)
    selection = Selection([range(len(scan.index))], seed=request.seed)
    suffix = "" if scan.complete else " scanned"

    def view(place: int) -> SampleView:
        title = place_text(selection, place, shuffled=request.seed is not None) + suffix
        sample = view_of_sample(scan, selection[place], title=title, build=None, max_json_bytes=request.max_json_bytes)
        return replace(sample, index=selection.position(place))

    return SampleViews(len(selection), view)


def _find_key(tars: TarFolder, request: PreviewRequest, key: str) -> SampleViews:
    """View the samples with a key; if the key names its shard, no other shard is scanned."""
    named = tuple(shard for shard in tars.shards if key.startswith(f"{shard.name}/"))
    is_part = bool(named) and len(named) < len(tars.shards)
    scan = scan_tars(
        replace(tars, shards=named or tars.shards), workers=request.workers, on_progress=request.on_progress
    )
    _note(request, tars, scan)
    found = scan.index.find(key)
    if not found:
        raise ConfigError(
            f"no sample has the key {key!r}",
            at=tars.path,
            hint="give it as '<shard>/<key>', or as the key alone; energon preview shows some",
        )

    def view(place: int) -> SampleView:
        shard = scan.index.shard_of(found[place])
        title = place_of(found[place], len(scan.index))
        if is_part:
            title = f"{place_of(found[place] - shard.first_sample, shard.samples)} of its shard"
        if len(found) > 1:
            title += f", {place + 1} of {len(found):,} with this key"
        sample = view_of_sample(scan, found[place], title=title, build=None, max_json_bytes=request.max_json_bytes)
        return replace(sample, index=None if is_part else found[place])

    return SampleViews(len(found), view)


def scan_note(tars: TarFolder, scan: UnpreparedDataset) -> str:
    """Return how much of tar shards was scanned: ``not prepared; scanned 3 shards``, and how to prepare a folder."""
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
        request.on_note(f"{len(scan.damaged) - _MAX_DAMAGED:,} more shards are skipped; energon lint lists them")


def one_line(error: EnergonError) -> str:
    """Format an error without its hint, after its place."""
    return f"{error.at}: {error.message}" if error.at else error.message
