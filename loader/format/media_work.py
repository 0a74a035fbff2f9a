"""Media metadata of many parts or files: read in worker processes, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from .file_region import FileRegion
from .media_extraction import BrokenMedia, extract_media
from .media_filter import MediaFilter
from .media_metadata import encode_media_metadata
from .media_tables import MediaRow, MediaTables
from .worker_pool import run_in_workers

__all__ = ["MediaChunk", "MediaProgress", "MediaReport", "MediaRows", "fill_media_tables"]

_NAMED = 3  # of the broken ones, in messages


@dataclass(slots=True)
class MediaRows:
    """What was found in one chunk, or in all.

    Attributes:
        rows: Of ``media_metadata``.
        broken: How many parts or files should be media and cannot be read.
        reasons: What is wrong with the first few of them.
    """

    rows: list[MediaRow]
    broken: int
    reasons: list[str]

    def extract(self, region: FileRegion, entry_key: str, media_filter: MediaFilter) -> None:
        """Read one part or file, and keep its row, if it is media."""
        try:
            metadata = extract_media(region, entry_key, media_filter)
        except BrokenMedia as broken:
            self.note_broken(entry_key, str(broken))
            return
        if metadata is not None:
            self.rows.append((entry_key, *encode_media_metadata(metadata)))

    def note_broken(self, entry_key: str, reason: str) -> None:
        """Count one part or file that cannot be read."""
        self.broken += 1
        if len(self.reasons) < _NAMED:
            self.reasons.append(f"{entry_key}: {reason}")


class MediaChunk(Protocol):
    """Some parts or files that a worker reads at a time."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def entries(self) -> int:
        """How many there are in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaReport:
    """What a collection of media metadata came to.

    Attributes:
        media_filter: What was looked into.
        entries: How many parts or files there are metadata of.
        collected: How many of them were read now; the others had not changed.
        broken: How many should be media and cannot be read.
        warnings: About those, and others that were left out.
    """

    media_filter: MediaFilter
    entries: int
    collected: int
    broken: int
    warnings: tuple[str, ...]


MediaProgress = Callable[[int, int], None]
"""Called with how many parts or files were looked at, and how many there are."""


def fill_media_tables(
    tables: MediaTables,
    read_chunk: Callable[[Any], MediaRows],
    chunks: Sequence[MediaChunk],
    *,
    workers: int,
    on_progress: MediaProgress | None = None,
) -> tuple[int, int, tuple[str, ...]]:
    """Read chunks in worker processes, and add what is found to the tables.

    Args:
        tables: Open.
        read_chunk: Picklable; it runs in the workers.
        chunks: All that is to be read.
        workers: Processes; with one, all runs in this process.
        on_progress: Called after each chunk.

    Returns:
        How many rows were added, how many parts or files are broken, and warnings about those.
    """
    total, done, added, broken = sum(chunk.entries for chunk in chunks), 0, 0, 0
    reasons: dict[int, list[str]] = {}
    with closing(run_in_workers(read_chunk, chunks, workers=workers)) as results:
        for number, found in results:
            tables.add(found.rows)
            added += len(found.rows)
            broken += found.broken
            if found.reasons:
                reasons[number] = found.reasons
                if len(reasons) > _NAMED:  # name the first ones, whichever worker came first
                    del reasons[max(reasons)]
            done += chunks[number].entries
            if on_progress:
                on_progress(done, total)
    first = [reason for number in sorted(reasons) for reason in reasons[number]][:_NAMED]
    return added, broken, (_broken_warning(broken, first),) if broken else ()


def _broken_warning(broken: int, first: Sequence[str]) -> str:
    more = "; …" if broken > len(first) else ""
    files = "1 media file" if broken == 1 else f"{broken:,} media files"
    return f"{files} cannot be read, and have no metadata: {'; '.join(first)}{more}"
