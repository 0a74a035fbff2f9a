"""Media metadata and filters by the names and types that code written for megatron-energon has for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum, StrEnum
from pathlib import Path
from typing import Self

from ..errors import ConfigError, StorageError
from ..format.documents.load_request import is_metadataset
from ..format.media.extraction import may_be_media
from ..format.media.kind import MediaFilter, parse_patterns
from ..format.media.metadata import (
    AVMetadata,
    ImageMetadata,
    MediaMetadata,
    decode_media_metadata,
    encode_media_metadata,
)
from ..format.nv_meta import INDEX_SQLITE, INFO_JSON, INFO_YAML
from ..format.prepare.media_folder import prepare_media_folder
from ..storage import open_storage

__all__ = [
    "EnergonDatasetType",
    "MediaFilterConfig",
    "MediaFilterStrategy",
    "MediaMetadataType",
    "deserialize_media_metadata",
    "get_dataset_type",
    "prepare_filesystem_dataset",
    "serialize_media_metadata",
]


class MediaMetadataType(StrEnum):
    """What media metadata is of."""

    AV = "av"
    IMAGE = "image"


class MediaFilterStrategy(StrEnum):
    """How media is told from other files; see :class:`~loader.format.media.kind.MediaFilter`."""

    EXTENSION = "EXTENSION"
    HEADER = "HEADER"
    GLOB = "GLOB"


class MediaFilterConfig(MediaFilter):
    """What to look into for media metadata.

    Args:
        strategy: How media is told from other files.
        patterns: Those of ``GLOB``; none otherwise.

    >>> MediaFilterConfig(MediaFilterStrategy.GLOB, ["*.jpg"]).should_consider_media("a/0001.jpg")
    True
    """

    __slots__ = ()

    def __init__(self, strategy: MediaFilterStrategy, patterns: Sequence[str] = ()) -> None:
        super().__init__(strategy=MediaFilterStrategy(strategy).value, patterns=tuple(patterns))

    @classmethod
    def parse(cls, glob: str | None, header: bool, extension: bool) -> Self:
        """Make it of the three flags of ``energon prepare``.

        Args:
            glob: Patterns with commas between them.
            header: Files that start as media do.
            extension: Names that end as media do.

        Raises:
            ConfigError: Not exactly one of them is given.
        """
        given = [glob is not None, header, extension]
        if sum(given) != 1:
            raise ConfigError(f"expected one of glob, header and extension, found {sum(given)}")
        if glob is not None:
            return cls(MediaFilterStrategy.GLOB, parse_patterns(glob))
        return cls(MediaFilterStrategy.HEADER if header else MediaFilterStrategy.EXTENSION)

    def should_consider_all(self) -> bool:
        """Tell whether files of all names are looked into."""
        return self.strategy == "HEADER"

    def should_consider_media(self, name: str) -> bool:
        """Tell whether a file of this name may be media."""
        return may_be_media(name, self.plain())

    def plain(self) -> MediaFilter:
        """Give it as the rest of the library has it."""
        return MediaFilter(strategy=self.strategy, patterns=self.patterns)


def serialize_media_metadata(metadata: MediaMetadata) -> tuple[MediaMetadataType, str]:
    """Give the type and the JSON that ``index.sqlite`` holds; what is not known is left out.

    >>> serialize_media_metadata(ImageMetadata(width=4, height=3, format="PNG", mode="L"))[0].value
    'image'
    """
    kind, text = encode_media_metadata(metadata)
    return MediaMetadataType(kind), text


def deserialize_media_metadata(
    metadata_type: str | MediaMetadataType, metadata_json: str
) -> ImageMetadata | AVMetadata:
    """Undo :func:`serialize_media_metadata`; fields that it does not know are ignored.

    Raises:
        ValueError: The type is unknown, or the JSON is not what the type needs.
    """
    return decode_media_metadata(str(metadata_type), metadata_json)


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
        media_filter: Which files to look into.
        progress: Accepted for code written for megatron-energon; nothing is printed.
        workers: The most processes that read.
        index_sqlite_tmp_path: Accepted likewise.

    Returns:
        Of how many files there is metadata.

    Raises:
        ConfigError: The folder is a dataset, or a package is missing.
        StorageError: No media was found, another run is at work here, or the disk is full.
    """
    wanted = MediaFilter(strategy=media_filter.strategy, patterns=media_filter.patterns)
    workers = max(1, min(workers, os.cpu_count() or 1))
    return prepare_media_folder(open_storage(root_path), wanted, workers=workers).collected


class EnergonDatasetType(Enum):
    """The kinds of datasets."""

    METADATASET = "metadataset"
    WEBDATASET = "webdataset"
    JSONL = "jsonl"
    FILESYSTEM = "filesystem"
    INVALID = "invalid"


def get_dataset_type(path: str | os.PathLike[str]) -> EnergonDatasetType:
    """Tell of which kind a dataset is, without opening it.

    Returns:
        ``FILESYSTEM`` for a folder that ``energon prepare-media`` was run on; ``INVALID`` where there is no prepared
        dataset.

    >>> get_dataset_type("/no/such/folder").value
    'invalid'
    """
    text = os.fspath(path)
    folder, name = os.path.split(text.rstrip("/"))
    try:
        if is_metadataset(text) or text.endswith(".jsonl"):
            if not open_storage(folder or ".").exists(name):
                return EnergonDatasetType.INVALID
            return EnergonDatasetType.METADATASET if is_metadataset(text) else EnergonDatasetType.JSONL
        exists = open_storage(text).exists
        if exists(INFO_JSON) or exists(INFO_YAML):
            return EnergonDatasetType.WEBDATASET
        return EnergonDatasetType.FILESYSTEM if exists(INDEX_SQLITE) else EnergonDatasetType.INVALID
    except StorageError:  # the URL of another machine
        return EnergonDatasetType.INVALID
