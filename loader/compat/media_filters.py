"""Media filters and media metadata under the names of megatron-energon. The library has its own types for these."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO, Self, cast

from ..errors import ConfigError
from ..format.media.extraction import BrokenMedia, FileRegion, extract_media, may_be_media
from ..format.media.metadata import MediaFilter, MediaMetadata, parse_patterns
from ..prepare.media_folder import prepare_media_folder
from ..storage import ReadableFile, open_parent, open_storage


def _region_of(data: bytes) -> FileRegion:
    file = SimpleNamespace(read_at=lambda offset, size_bytes: data[offset : offset + size_bytes])
    return FileRegion(cast("ReadableFile", file), 0, len(data))  # a region only calls read_at


class MediaFilterStrategy(StrEnum):
    """Ways to recognise media files; see :class:`~loader.format.media.metadata.MediaFilter`."""

    EXTENSION = "EXTENSION"
    HEADER = "HEADER"
    GLOB = "GLOB"


class MediaFilterConfig(MediaFilter):
    """Filter of the files whose media metadata is collected.

    Args:
        strategy: The way to recognise media files.
        patterns: The patterns of ``GLOB``; empty otherwise.

    >>> MediaFilterConfig(MediaFilterStrategy.GLOB, ["*.jpg"]).should_consider_media("a/0001.jpg")
    True
    """

    __slots__ = ()

    def __init__(self, strategy: MediaFilterStrategy, patterns: Sequence[str] = ()) -> None:
        super().__init__(strategy=MediaFilterStrategy(strategy).value, patterns=tuple(patterns))

    @classmethod
    def parse(cls, glob: str | None, header: bool, extension: bool) -> Self:
        """Build the filter from the three flags of ``energon prepare``.

        Args:
            glob: Comma-separated patterns.
            header: Recognise media by the first bytes of a file.
            extension: Recognise media by file extension.

        Raises:
            ConfigError: None of them, or more than one, is given.
        """
        given = [glob is not None, header, extension]
        if sum(given) != 1:
            raise ConfigError(f"expected one of glob, header and extension, found {sum(given)}")
        if glob is not None:
            return cls(MediaFilterStrategy.GLOB, parse_patterns(glob))
        return cls(MediaFilterStrategy.HEADER if header else MediaFilterStrategy.EXTENSION)

    def should_consider_all(self) -> bool:
        """Return True if files are read whatever their names."""
        return self.strategy == "HEADER"

    def should_consider_media(self, name: str) -> bool:
        """Return True if a file of this name may be media."""
        return may_be_media(name, self.plain())

    def extract_metadata(
        self, source: bytes | BinaryIO | str | os.PathLike[str], filename: str | None = None
    ) -> MediaMetadata | None:
        """Read the metadata of a file that the filter selects.

        Args:
            source: Its bytes, an open file that can seek, or a path.
            filename: Its name; needed unless ``source`` is a path.

        Returns:
            The metadata; None if the filter does not select the file, or it cannot be read as media.

        Raises:
            ConfigError: ``filename`` is missing, or a package that reads the media is not installed.
            StorageError: The file cannot be read.
        """
        if isinstance(source, str | os.PathLike):
            storage, name = open_parent(source)
            source, filename = storage.read(name), filename or name
        elif not isinstance(source, bytes):
            source.seek(0)
            source = source.read()
        if filename is None:
            raise ConfigError("expected the name of the file", hint="pass filename=")
        if not self.should_consider_media(filename):
            return None
        try:
            return extract_media(_region_of(source), filename, self.plain())
        except BrokenMedia:
            return None

    def plain(self) -> MediaFilter:
        """Return the library's own filter with the same settings."""
        return MediaFilter(strategy=self.strategy, patterns=self.patterns)


def prepare_filesystem_dataset(
    root_path: str | os.PathLike[str],
    media_filter: MediaFilter,
    *,
    progress: bool = False,  # noqa: ARG001 - the library prints nothing
    workers: int = 16,
    index_sqlite_tmp_path: str | Path | None = None,  # noqa: ARG001 - nothing is written in place
) -> int:
    """Collect the media metadata of a folder's files, as ``energon prepare-media`` does.

    Args:
        root_path: The folder.
        media_filter: The files to read.
        progress: Accepted for code written for megatron-energon; nothing is printed.
        workers: Maximum number of reading processes; limited to the number of CPUs.
        index_sqlite_tmp_path: Accepted for code written for megatron-energon; ignored.

    Returns:
        The number of files with metadata.

    Raises:
        ConfigError: The folder is a dataset, or a package is missing.
        StorageError: No media was found, another run is preparing this folder, or the disk is full.
    """
    plain_filter = MediaFilter(strategy=media_filter.strategy, patterns=media_filter.patterns)
    workers = max(1, min(workers, os.cpu_count() or 1))
    return prepare_media_folder(open_storage(root_path), plain_filter, workers=workers).collected
