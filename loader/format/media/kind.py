"""Distinguish images, audio and video from other files, by name or by first bytes."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from ...accounting.kinds import AUDIO, COMMON_IMAGE, VIDEO, kind_of_bytes
from .metadata import MediaType


def media_type_of_name(name: str) -> MediaType | None:
    """Return the media type of a file name, by the text after the last dot in any case, or None.

    >>> media_type_of_name("clips/a.MP4")
    'av'
    """
    stem, dot, extension = name.rpartition(".")
    extension = extension.lower()
    if not dot or not stem:
        return None
    return "image" if extension in COMMON_IMAGE else "av" if extension in AUDIO | VIDEO else None


def media_type_of_header(head: bytes) -> MediaType | None:
    """Return the media type of a file by its first :data:`HEADER_BYTES` bytes, or None.

    >>> media_type_of_header(b"GIF89a")
    'image'
    """
    found = kind_of_bytes(head)
    if found.kind == "image":
        return "image" if found.extension in COMMON_IMAGE else None
    return "av" if found.kind in ("audio", "video") else None


MediaStrategy = Literal["EXTENSION", "GLOB", "HEADER"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFilter:
    """Selects the parts or files to collect metadata of.

    Attributes:
        strategy: ``"EXTENSION"`` selects names with an extension of media, ``"HEADER"`` files with a header of media,
            and ``"GLOB"`` names that match a pattern.
        patterns: Patterns of ``"GLOB"``; empty for the other strategies.
        exact: Decode audio and video to their ends to count frames and samples.
    """

    strategy: MediaStrategy
    patterns: tuple[str, ...] = ()
    exact: bool = False

    @property
    def flag(self) -> str:
        """The flag of ``energon prepare`` for this strategy."""
        return f"--media-metadata-by-{self.strategy.lower()}"

    @property
    def pattern_text(self) -> str:
        """The patterns as the table ``media_filters`` stores them."""
        return ",".join(self.patterns)

    def matches(self, entry_key: str) -> bool:
        """Return True if a name matches one of the patterns, in any case; ``*`` also matches ``/``.

        >>> MediaFilter(strategy="GLOB", patterns=("*.jpg",)).matches("folder/0001.JPG")
        True
        """
        name = entry_key.lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.patterns)


def parse_patterns(text: str) -> tuple[str, ...]:
    """Split patterns at commas, and strip blanks around them.

    >>> parse_patterns("*.jpg, *.png")
    ('*.jpg', '*.png')
    """
    return tuple(pattern.strip() for pattern in text.split(",") if pattern.strip())
