"""Which parts or files are looked into for media metadata: the table ``media_filters`` of ``index.sqlite``."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

__all__ = ["MediaFilter", "MediaStrategy", "parse_patterns"]

MediaStrategy = Literal["EXTENSION", "GLOB", "HEADER"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFilter:
    """What to look into.

    Attributes:
        strategy: ``"EXTENSION"``: names that end as media do. ``"HEADER"``: files that start as media do.
            ``"GLOB"``: names that match a pattern.
        patterns: Those of ``"GLOB"``; none otherwise.
    """

    strategy: MediaStrategy
    patterns: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The flag of ``energon prepare`` that asks for it."""
        return f"--media-metadata-by-{self.strategy.lower()}"

    @property
    def pattern_text(self) -> str:
        """The patterns as the table holds them."""
        return ",".join(self.patterns)

    def matches(self, entry_key: str) -> bool:
        """Tell whether a name matches one of the patterns; ``*`` also stands for ``/``, and case does not count.

        >>> MediaFilter(strategy="GLOB", patterns=("*.jpg",)).matches("folder/0001.JPG")
        True
        """
        name = entry_key.lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.patterns)


def parse_patterns(text: str) -> tuple[str, ...]:
    """Split patterns at commas; blanks around them do not count.

    >>> parse_patterns("*.jpg, *.png")
    ('*.jpg', '*.png')
    """
    return tuple(pattern.strip() for pattern in text.split(",") if pattern.strip())
