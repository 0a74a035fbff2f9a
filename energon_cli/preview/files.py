"""The files of a folder that ``prepare-media`` looked at, as what ``preview`` goes through."""

from __future__ import annotations

import os

from loader.errors import ConfigError, EnergonError
from loader.format.media.metadata import AVMetadata, MediaMetadata, MediaMetadataReader
from loader.format.nv_meta import INDEX_SQLITE, INFO_JSON, INFO_YAML
from loader.storage import Storage, open_storage

from ..console import format_bytes, format_count
from .fields import FieldView, describe_part
from .media import media_facts
from .render import SampleView
from .source import Selection
from .views import View

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
            hint="give its path relative to the folder; energon preview shows some",
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
    facts = (media_facts(metadata), format_bytes(storage.stat(name).size_bytes))
    return FieldView(name=shown, facts=", ".join(filter(None, facts)))
