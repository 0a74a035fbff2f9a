"""The kinds of media files, and their metadata in the table ``media_metadata`` of ``index.sqlite``."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast, get_args
from weakref import finalize

import msgspec

from ...errors import ConfigError, FormatError, SampleError
from ...parts.kinds import AUDIO, COMMON_IMAGE, VIDEO, kind_of_bytes
from ...storage import Storage
from ..compat.sqlite_index import open_sqlite
from ..documents.dataset_files import is_prepared
from ..documents.messages import short_repr
from ..nv_meta import INDEX_SQLITE


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
    kind = kind_of_bytes(head)
    if kind.kind == "image":
        return "image" if kind.extension in COMMON_IMAGE else None
    return "av" if kind.kind in ("audio", "video") else None


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


MediaType = Literal["image", "av"]

Basis = Literal["counted", "decoded", "stated"]
"""What the length of a stream was taken from: its packets, its decoded frames or samples, or the file's header."""

_QUERY = """
SELECT entry_key, metadata_type, metadata_json, video_basis, audio_basis
FROM media_metadata LEFT JOIN media_basis USING (entry_key)
"""
_QUERY_WITHOUT_BASIS = "SELECT entry_key, metadata_type, metadata_json, NULL, NULL FROM media_metadata"

_ROWS_AT_ONCE = 1000


class MediaMetadataType(StrEnum):
    """Kinds of media with metadata."""

    AV = "av"
    IMAGE = "image"

    @classmethod
    def from_string(cls, value: str) -> MediaMetadataType:
        """Return the kind of a name.

        Raises:
            ValueError: There is no such kind.
        """
        return cls(value)


class MediaMetadataBase:
    """Metadata of an image, audio or video."""

    __slots__ = ()

    metadata_type: ClassVar[MediaMetadataType]

    def to_dict(self) -> dict[str, Any]:
        """Return the known values by name, as ``media_metadata`` stores them.

        >>> AVMetadata(audio_channels=2).with_bases(audio_basis="counted").to_dict()
        {'audio_channels': 2}
        """
        return {name: value for name, value in asdict(self).items() if value is not None}  # type: ignore[call-overload] # subclasses are dataclasses

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> Self:
        """Create metadata from its values by name.

        Raises:
            TypeError: A name is unknown, or a required one is missing.
        """
        return cls(**payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMetadata(MediaMetadataBase):
    """Metadata of an image, from its header.

    Attributes:
        width: Width of the stored pixels, before the rotation that Exif data may ask for.
        height: Height of the stored pixels, before that rotation.
        format: Pillow's name of the format, such as ``"JPEG"``.
        mode: Pillow's name of the pixel mode, such as ``"RGB"``.
    """

    metadata_type = MediaMetadataType.IMAGE

    width: int
    height: int
    format: str
    mode: str


@dataclass(frozen=True, kw_only=True)
class AVMetadata(MediaMetadataBase):
    """Metadata of audio or video. A value is None if it is not known or the file has no such stream.

    Attributes:
        video_duration: Duration of the first video stream in seconds.
        video_num_frames: Number of frames of the first video stream.
        video_fps: Average number of frames per second.
        video_width: Width in pixels.
        video_height: Height in pixels.
        audio_duration: Duration of the first audio stream in seconds.
        audio_channels: Number of channels of the first audio stream.
        audio_sample_rate: Number of samples per second.
        audio_num_samples: Number of samples per channel that decode: whole blocks of the codec, without the padding
            before the start.
        video_basis: What the duration and the number of frames were taken from; an attribute without a field.
        audio_basis: What the duration and the number of samples were taken from; an attribute without a field.
    """

    metadata_type = MediaMetadataType.AV

    video_duration: float | None = None
    video_num_frames: int | None = None
    video_fps: float | None = None
    video_width: int | None = None
    video_height: int | None = None
    audio_duration: float | None = None
    audio_channels: int | None = None
    audio_sample_rate: int | None = None
    audio_num_samples: int | None = None
    # No fields: code for megatron-energon compares, copies and lists the fields.
    video_basis: ClassVar[Basis | None] = None
    audio_basis: ClassVar[Basis | None] = None

    def with_bases(self, **bases: Basis | None) -> Self:
        """Return a copy whose ``video_basis`` or ``audio_basis`` is known; ``vars()`` has them after the fields."""
        made = replace(self)
        vars(made).update(bases)
        return made


MediaMetadata: TypeAlias = ImageMetadata | AVMetadata


def serialize_media_metadata(metadata: MediaMetadata) -> tuple[MediaMetadataType, str]:
    """Encode metadata as the type and the JSON of a table row. Unknown values are skipped.

    >>> serialize_media_metadata(ImageMetadata(width=4, height=3, format="PNG", mode="L"))
    (<MediaMetadataType.IMAGE: 'image'>, '{"width":4,"height":3,"format":"PNG","mode":"L"}')
    """
    return metadata.metadata_type, json.dumps(metadata.to_dict(), separators=(",", ":"))


def deserialize_media_metadata(metadata_type: str, metadata_json: str) -> MediaMetadata:
    """Decode the type and the JSON of a table row. Unknown fields are ignored.

    Raises:
        ValueError: The type is unknown, or the JSON does not fit the type.

    >>> deserialize_media_metadata("av", '{"audio_channels":2}').audio_channels
    2
    """
    kinds: dict[str, type[MediaMetadata]] = {"image": ImageMetadata, "av": AVMetadata}
    if metadata_type not in kinds:
        raise ValueError(f"expected a type of media metadata, 'image' or 'av', found {short_repr(metadata_type)}")
    try:
        metadata: MediaMetadata = msgspec.json.decode(metadata_json, type=kinds[metadata_type], strict=False)
    except (msgspec.MsgspecError, RecursionError) as error:
        expected = f"expected the metadata of type {metadata_type!r}"
        raise ValueError(f"{expected}, found {short_repr(metadata_json)}: {error}") from None
    return metadata


class MediaMetadataReader:
    """Look up media metadata of a dataset or of a folder of files.

    Threads and forked processes may share a reader, and a pickled copy opens the file again. A reader keeps reading the
    file that it opened at its first use, even if another prepare replaces the file.

    Args:
        storage: The dataset, or the folder of files.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._opened: _Opened | None = None

    def __reduce__(self) -> tuple[type[MediaMetadataReader], tuple[Storage]]:
        return type(self), (self._storage,)

    def get(self, entry_key: str) -> MediaMetadata:
        """Return the metadata of one part or file.

        Args:
            entry_key: ``"<key>.<part name>"`` in a dataset; a path relative to the folder in a folder of files.

        Raises:
            ConfigError: No media metadata was collected here; the hint has the command that does.
            SampleError: The table has no row of this entry.
            FormatError: ``index.sqlite`` is damaged.
        """
        try:
            rows = list(self._rows(" WHERE entry_key = ?", (entry_key,)))
        except UnicodeEncodeError:  # SQLite cannot store a name that is not UTF-8.
            rows = []
        if not rows:
            raise SampleError(
                f"there is no media metadata of {entry_key!r}: it does not exist, is not media, or was not selected",
                key=entry_key,
                at=self._path,
                hint=f"check the name, or collect metadata of more files: {media_prepare_command(self._storage)}",
            )
        return self._decode(*rows[0][1:])

    def __iter__(self) -> Iterator[tuple[str, MediaMetadata]]:
        """Yield all entries with their metadata, one at a time.

        Raises:
            ConfigError: No media metadata was collected here.
            FormatError: ``index.sqlite`` is damaged.
        """
        for entry_key, *fields in self._rows():
            yield entry_key, self._decode(*fields)

    def close(self) -> None:
        """Close the file. The next lookup opens it again."""
        opened, self._opened = self._opened, None
        if opened is not None and opened.process == os.getpid():
            opened.database.close()

    @property
    def _path(self) -> str:
        return self._storage.path(INDEX_SQLITE)

    def _rows(self, condition: str = "", values: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
        with self._errors():
            opened = self._open()
            with opened.lock:
                cursor = opened.database.execute(media_query(opened.database) + condition, values)
            while True:
                with opened.lock:
                    rows = cursor.fetchmany(_ROWS_AT_ONCE)
                if not rows:
                    return
                yield from rows

    def _open(self) -> _Opened:
        opened = self._opened
        if opened is None or opened.process != os.getpid():  # A connection must not cross a fork.
            if not self._storage.exists(INDEX_SQLITE):
                raise self._not_collected("there is no index.sqlite")
            opened = _Opened(open_sqlite(self._storage.local_path(INDEX_SQLITE), shared=True))
            if not has_media_tables(opened.database):
                opened.database.close()
                raise self._not_collected("index.sqlite has no table for it")
            self._opened = opened
        return opened

    def _decode(self, metadata_type: object, metadata_json: object, *bases: object) -> MediaMetadata:
        try:
            metadata = deserialize_media_metadata(str(metadata_type), str(metadata_json))
        except ValueError as error:
            raise self._damage(str(error)) from None
        if isinstance(metadata, ImageMetadata):
            return metadata
        video, audio = (cast("Basis", basis) if basis in get_args(Basis) else None for basis in bases)
        return metadata.with_bases(video_basis=video, audio_basis=audio)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._damage(f"index.sqlite cannot be read ({error})") from error

    def _not_collected(self, reason: str) -> ConfigError:
        return ConfigError(
            f"no media metadata was collected here: {reason}",
            file=self._path,
            hint=f"run: {media_prepare_command(self._storage)}",
        )

    def _damage(self, message: str) -> FormatError:
        hint = f"rewrite it: {media_prepare_command(self._storage)}"
        return FormatError(message, shard=self._path, hint=hint)


class _Opened:
    __slots__ = ("__weakref__", "database", "lock", "process")

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.lock = threading.Lock()
        self.process = os.getpid()
        finalize(self, database.close)  # Python 3.13 warns of connections that are dropped open, also in a cycle


def has_media_tables(database: sqlite3.Connection, table: str = "media_metadata") -> bool:
    """Return True if an ``index.sqlite`` has a table of media metadata."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return database.execute(query, (table,)).fetchone() is not None


def media_query(database: sqlite3.Connection) -> str:
    """Return the query of all entries: key, type, JSON, and the bases of video and audio if this library wrote them."""
    return _QUERY if has_media_tables(database, "media_basis") else _QUERY_WITHOUT_BASIS


def media_prepare_command(storage: Storage) -> str:
    """Return the command that collects the media metadata of a dataset or of a folder of files."""
    return f"energon {'prepare' if is_prepared(storage) else 'prepare-media'} --media-metadata-by-header {storage.url}"
