"""Facts about a folder of media, and about one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from statistics import median_low
from typing import Any

from ..errors import StorageError
from ..format.documents import command_for_folder
from ..format.media.metadata import AVMetadata, ImageMetadata, MediaMetadataReader
from ..format.media.tables import read_media_filter
from ..storage import Storage

_MAX_ENTRIES = 100_000  # media files to summarise: more would take seconds


def media_folder_facts(storage: Storage) -> dict[str, Any]:
    """Return the facts about a folder of media files.

    Raises:
        StorageError: Its ``index.sqlite`` contains no media metadata.
    """
    facts = media_facts(storage)
    if facts is None:
        raise StorageError(
            "this folder is not a prepared dataset, and has no media metadata",
            path=storage.path(""),
            hint=command_for_folder(storage.url),
        )
    return {"path": storage.path(""), "type": "files", "media_metadata": facts}


def media_facts(storage: Storage) -> dict[str, Any] | None:
    """Return a summary of the media metadata of a dataset or a folder of files; None without media metadata.

    Raises:
        FormatError: ``index.sqlite`` is damaged.
    """
    # Read the metadata of the first files.
    media_filter = read_media_filter(storage)
    if media_filter is None:
        return None
    with closing(MediaMetadataReader(storage)) as reader:
        entries = iter(reader)
        first_entries = [metadata for _, metadata in islice(entries, _MAX_ENTRIES)]
        complete = next(entries, None) is None
    # Summarize each kind of media.
    images = [metadata for metadata in first_entries if isinstance(metadata, ImageMetadata)]
    av = [metadata for metadata in first_entries if isinstance(metadata, AVMetadata)]
    videos = [metadata for metadata in av if metadata.video_width is not None]
    sounds = [metadata for metadata in av if metadata.audio_channels is not None]
    return {
        "strategy": media_filter.strategy,
        "patterns": list(media_filter.patterns),
        "exact": media_filter.exact,
        "entries": len(first_entries),
        "complete": complete,  # False: only the first entries by name
        "images": {
            "count": len(images),
            "formats": dict(Counter(image.format for image in images).most_common()),
            "width": _spread([image.width for image in images]),
            "height": _spread([image.height for image in images]),
        },
        "videos": {
            "count": len(videos),
            "width": _spread([video.video_width for video in videos]),
            "height": _spread([video.video_height for video in videos]),
            "seconds": sum(video.video_duration or 0.0 for video in videos),
            "basis": dict(Counter(video.video_basis or "unknown" for video in videos).most_common()),
        },
        "sounds": {
            "count": len(sounds),
            "sample_rates": dict(Counter(str(sound.audio_sample_rate) for sound in sounds).most_common()),
            "seconds": sum(sound.audio_duration or 0.0 for sound in sounds),
            "basis": dict(Counter(sound.audio_basis or "unknown" for sound in sounds).most_common()),
        },
    }


def _spread(values: Sequence[int | None]) -> dict[str, int] | None:
    known = [value for value in values if value is not None]
    return {"min": min(known), "median": median_low(known), "max": max(known)} if known else None
