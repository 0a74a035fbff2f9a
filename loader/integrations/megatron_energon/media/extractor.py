"""What media metadata is collected of, as code for megatron-energon says it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from loader.errors import ConfigError
from loader.format.media_filter import MediaFilter, MediaStrategy, parse_patterns

__all__ = ["MediaFilterConfig", "MediaFilterStrategy"]


class MediaFilterStrategy(StrEnum):
    """How media are told from other parts and files."""

    EXTENSION = "EXTENSION"
    HEADER = "HEADER"
    GLOB = "GLOB"


class MediaFilterConfig(MediaFilter):
    """A media filter whose arguments may be given by position.

    >>> from megatron.energon.media.extractor import MediaFilterConfig, MediaFilterStrategy
    >>> MediaFilterConfig(MediaFilterStrategy.GLOB, ["*.jpg"]).matches("0001.jpg")
    True
    """

    def __init__(self, strategy: MediaFilterStrategy | MediaStrategy, patterns: Iterable[str] = ()) -> None:
        super().__init__(strategy=MediaFilterStrategy(strategy).value, patterns=tuple(patterns))

    @classmethod
    def parse(cls, glob: str | None, header: bool, extension: bool) -> Self:
        """Make a filter of what the flags of ``energon prepare`` say.

        Raises:
            ConfigError: Not one of the three is given.
        """
        given = [glob is not None, header, extension].count(True)
        if given != 1:
            raise ConfigError(f"expected one of glob, header and extension, found {given}")
        if glob is not None:
            return cls("GLOB", parse_patterns(glob))
        return cls("HEADER" if header else "EXTENSION")
