"""The files of a folder that ``prepare-media`` looked at, as what ``preview`` goes through."""

from __future__ import annotations

import os

from loader.errors import ConfigError, EnergonError
from loader.format.media_metadata import AVMetadata, MediaMetadata, MediaMetadataReader
from loader.format.nv_meta import INDEX_SQLITE, INFO_JSON, INFO_YAML
from loader.storage import Storage, open_storage

from .console import format_bytes, format_count, plural
from .preview_fields import FieldView, describe_part
from .preview_render import SampleView
from .preview_source import Selection
from .preview_views import View

__all__ = ["is_folder_of_files", "views_of_files"]


def is_folder_of_files(path: str) -> bool:
    """Tell whether a folder holds files that media metadata is known of, and is no dataset of shards."""
    storage = open_storage(path)
    return storage.exists(INDEX_SQLITE) and not any(map(storage.exists, (INFO_JSON, INFO_YAML)))


def views_of_files(path: str, *, key: str | None, seed: int | None) -> tuple[int, View]:
    """Give how many files there are to show, and what gives the view of each.

    Raises:
        ConfigError: There is no such file among them, or no media metadata was collected.
        FormatError: ``index.sqlite`` is damaged.
    """
    storage = open_storage(path)
    known = dict(sorted(MediaMetadataReader(storage)))
    names = list(known)
    if key is not None and key not in known:
        raise ConfigError(
            f"no media metadata is known of the file {key!r}",
            at=storage.path(""),
            do="give its path relative to the folder; energon preview shows some",
        )
    chosen = range(len(names)) if key is None else range(names.index(key), names.index(key) + 1)
    selection = Selection([chosen], seed=seed)

    def view(place: int) -> SampleView:
        name = names[selection[place]]
        number = place if key is None else selection[place]
        title = f"{name}   file {format_count(number)} of {format_count(len(names))}"
        try:
            return SampleView(title=title, fields=(_describe(storage, name, known[name]),))
        except EnergonError as error:
            return SampleView(title=title, fields=(), fault=str(error))

    return len(selection), view


def _describe(storage: Storage, name: str, metadata: MediaMetadata) -> FieldView:
    """Describe a file: an image by its bytes, audio and video by what is known of them."""
    shown = os.path.basename(name)
    if not isinstance(metadata, AVMetadata):
        return describe_part(shown, storage.read(name))
    facts = [*_video_facts(metadata), *_audio_facts(metadata), format_bytes(storage.stat(name).size_bytes)]
    return FieldView(name=shown, facts=", ".join(facts))


def _video_facts(metadata: AVMetadata) -> list[str]:
    facts = []
    if metadata.video_width is not None and metadata.video_height is not None:
        facts.append(f"video {metadata.video_width}×{metadata.video_height}")
    if metadata.video_num_frames is not None:
        facts.append(plural(metadata.video_num_frames, "frame"))
    if metadata.video_fps is not None:
        facts.append(f"{metadata.video_fps:.4g} a second")
    if metadata.video_duration is not None:
        facts.append(f"{metadata.video_duration:.2f} s")
    return facts


def _audio_facts(metadata: AVMetadata) -> list[str]:
    facts = []
    if metadata.audio_sample_rate is not None:
        facts.append(f"audio {metadata.audio_sample_rate:,} Hz")
    if metadata.audio_channels is not None:
        facts.append(plural(metadata.audio_channels, "channel"))
    if metadata.audio_duration is not None:
        facts.append(f"{metadata.audio_duration:.2f} s")
    return facts
