"""What ``energon info`` says about media metadata, and about a folder of files that has nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from statistics import median_low
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from loader.storage import Storage

__all__ = ["is_media_folder", "media_facts", "media_folder_facts", "media_lines", "show_media_folder"]

_MOST_ENTRIES = 100_000  # that are summed up; reading more would take longer than one waits for a summary


def is_media_folder(storage: Storage) -> bool:
    """Tell whether a folder is no dataset, and has media metadata of its files."""
    from loader.format import nv_meta

    if storage.exists(nv_meta.INFO_JSON) or storage.exists(nv_meta.INFO_YAML):
        return False
    return storage.exists(nv_meta.INDEX_SQLITE)


def media_folder_facts(storage: Storage) -> dict[str, Any]:
    """Collect everything about such a folder.

    Raises:
        StorageError: Its ``index.sqlite`` holds no media metadata.
    """
    from loader.errors import StorageError

    facts = media_facts(storage)
    if facts is None:
        raise StorageError(
            "this folder is no prepared dataset, and has no media metadata",
            path=storage.path(""),
            hint=f"run: energon prepare {storage.url}",
        )
    return {"path": storage.path(""), "type": "files", "media_metadata": facts}


def media_facts(storage: Storage) -> dict[str, Any] | None:
    """Sum up the media metadata of a dataset or a folder of files; None where there is none to rely on.

    Raises:
        FormatError: It is damaged.
    """
    from loader.format.media.metadata import AVMetadata, ImageMetadata, MediaMetadataReader
    from loader.format.media.tables import read_media_filter

    media_filter = read_media_filter(storage)
    if media_filter is None:
        return None
    with closing(MediaMetadataReader(storage)) as reader:
        entries = iter(reader)
        found = [metadata for _, metadata in islice(entries, _MOST_ENTRIES)]
        complete = next(entries, None) is None
    images = [metadata for metadata in found if isinstance(metadata, ImageMetadata)]
    av = [metadata for metadata in found if isinstance(metadata, AVMetadata)]
    videos = [metadata for metadata in av if metadata.video_width is not None]
    sounds = [metadata for metadata in av if metadata.audio_channels is not None]
    return {
        "strategy": media_filter.strategy,
        "patterns": list(media_filter.patterns),
        "entries": len(found),
        "complete": complete,  # False: these are the first ones by name
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
        },
        "sounds": {
            "count": len(sounds),
            "sample_rates": dict(Counter(str(sound.audio_sample_rate) for sound in sounds).most_common()),
            "seconds": sum(sound.audio_duration or 0.0 for sound in sounds),
        },
    }


def _spread(values: Sequence[int | None]) -> dict[str, int] | None:
    known = [value for value in values if value is not None]
    return {"min": min(known), "median": median_low(known), "max": max(known)} if known else None


def media_lines(facts: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Say it in one line for each kind, as label and text."""
    from ..console import plural

    if facts is None:
        return []
    lines = []
    images, videos, sounds = facts["images"], facts["videos"], facts["sounds"]
    if images["count"]:
        formats = ", ".join(f"{name} {count:,}" for name, count in images["formats"].items())
        lines.append(("images", f"{plural(images['count'], 'image')} ({formats}), {_size_text(images)}"))
    if videos["count"]:
        text = f"{plural(videos['count'], 'video')}, {_size_text(videos)}, {_duration_text(videos['seconds'])}"
        lines.append(("video", text))
    if sounds["count"]:
        rates = ", ".join(f"{rate} Hz" for rate in sounds["sample_rates"])
        lines.append(("audio", f"{plural(sounds['count'], 'track')} ({rates}), {_duration_text(sounds['seconds'])}"))
    if not facts["complete"]:
        lines = [(label, f"of the first {facts['entries']:,} media files: {text}") for label, text in lines]
    return lines or [("media", "no image, audio or video was found")]


def _size_text(facts: dict[str, Any]) -> str:
    width, height = facts["width"], facts["height"]
    if width is None or height is None:
        return "sizes unknown"
    if (width["min"], height["min"]) == (width["max"], height["max"]):
        return f"all {width['min']}×{height['min']}"
    return " × ".join(f"{side['min']}–{side['max']} (median {side['median']})" for side in (width, height))


def _duration_text(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def show_media_folder(console: Console, facts: dict[str, Any]) -> None:
    """Show what is known of a folder of files."""
    from rich.text import Text

    from ..console import escape_controls

    media = facts["media_metadata"]
    console.print(Text(escape_controls(facts["path"]), style="bold"), soft_wrap=True)
    more = "" if media["complete"] else "more than "
    console.print(f"a folder of files, with media metadata of {more}{media['entries']:,}")
    for label, value in media_lines(media):
        console.print(Text.assemble((f"{label:<12}", "cyan"), escape_controls(value)), soft_wrap=True)
