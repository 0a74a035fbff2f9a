"""What is known of images, audio and video without decoding them: the table ``media_metadata`` of ``index.sqlite``."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from ..errors import ConfigError, FormatError, SampleError
from ..storage import Storage
from .nv_meta import INDEX_SQLITE, INFO_JSON, INFO_YAML
from .shown_value import shown
from .sqlite_file import open_sqlite

__all__ = [
    "AVMetadata",
    "ImageMetadata",
    "MediaMetadata",
    "MediaMetadataBase",
    "MediaMetadataReader",
    "MediaType",
    "decode_media_metadata",
    "encode_media_metadata",
    "has_media_tables",
    "media_prepare_command",
]

MediaType = Literal["image", "av"]

_ROWS_AT_ONCE = 1000


class MediaMetadataBase:
    """What is known of an image, audio or video."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageMetadata(MediaMetadataBase):
    """What the header of an image says.

    Attributes:
        width: Of the stored pixels, before a turn that Exif data may ask for.
        height: The same.
        format: Pillow's name of the format, such as ``"JPEG"``.
        mode: Pillow's name of the pixels' kind, such as ``"RGB"``.
    """

    width: int
    height: int
    format: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AVMetadata(MediaMetadataBase):
    """What audio or video is; None where it is not known, or the file has no such stream.

    Attributes:
        video_duration: In seconds.
        video_num_frames: How many frames the first video stream has.
        video_fps: Frames a second, on average.
        video_width: In pixels.
        video_height: In pixels.
        audio_duration: In seconds.
        audio_channels: How many channels the first audio stream has.
        audio_sample_rate: Samples a second.
        audio_num_samples: Per channel.
    """

    video_duration: float | None = None
    video_num_frames: int | None = None
    video_fps: float | None = None
    video_width: int | None = None
    video_height: int | None = None
    audio_duration: float | None = None
    audio_channels: int | None = None
    audio_sample_rate: int | None = None
    audio_num_samples: int | None = None


MediaMetadata: TypeAlias = ImageMetadata | AVMetadata


def encode_media_metadata(metadata: MediaMetadata) -> tuple[MediaType, str]:
    """Give the type and the JSON that the table holds; what is not known is left out.

    >>> encode_media_metadata(ImageMetadata(width=4, height=3, format="PNG", mode="L"))
    ('image', '{"width":4,"height":3,"format":"PNG","mode":"L"}')
    """
    known = {name: value for name, value in asdict(metadata).items() if value is not None}
    metadata_type: MediaType = "image" if isinstance(metadata, ImageMetadata) else "av"
    return metadata_type, json.dumps(known, separators=(",", ":"))


def decode_media_metadata(metadata_type: str, metadata_json: str) -> MediaMetadata:
    """Undo :func:`encode_media_metadata`; fields that it does not know are ignored.

    Raises:
        ValueError: The type is unknown, or the JSON is not what the type needs.

    >>> decode_media_metadata("av", '{"audio_channels":2}').audio_channels
    2
    """
    kinds: dict[str, type[MediaMetadata]] = {"image": ImageMetadata, "av": AVMetadata}
    if metadata_type not in kinds:
        raise ValueError(f"expected a type of media metadata, 'image' or 'av', found {shown(metadata_type)}")
    try:
        metadata: MediaMetadata = msgspec.json.decode(metadata_json, type=kinds[metadata_type], strict=False)
    except (msgspec.MsgspecError, RecursionError) as error:
        expected = f"expected the metadata of type {metadata_type!r}"
        raise ValueError(f"{expected}, found {shown(metadata_json)}: {error}") from None
    return metadata


class MediaMetadataReader:
    """Looks media metadata up, in a dataset or in a folder of files.

    Threads may share it, forked processes too, and a pickled copy opens the file anew. It goes on reading the file that
    was there when it was first used, also when another prepare replaces it.

    Args:
        storage: The dataset, or the folder.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._opened: _Opened | None = None

    def __reduce__(self) -> tuple[type[MediaMetadataReader], tuple[Storage]]:
        return type(self), (self._storage,)

    def get(self, entry_key: str) -> MediaMetadata:
        """Give what is known of one part or file.

        Args:
            entry_key: ``"<key>.<part name>"`` in a dataset; a path relative to the folder in a folder of files.

        Raises:
            ConfigError: No media metadata was collected here; the message names the command that does.
            SampleError: Nothing is known of this entry.
            FormatError: The file is damaged.
        """
        query = "SELECT metadata_type, metadata_json FROM media_metadata WHERE entry_key = ?"
        try:
            rows = list(self._rows(query, (entry_key,)))
        except UnicodeEncodeError:  # a name that is not UTF-8, which SQLite cannot hold
            rows = []
        if not rows:
            raise SampleError(
                f"there is no media metadata of {entry_key!r}: it is not there, no media, or was not asked for",
                key=entry_key,
                at=self._path,
                do=f"check the name, or collect the metadata of more: {media_prepare_command(self._storage)}",
            )
        return self._decode(*rows[0])

    def __iter__(self) -> Iterator[tuple[str, MediaMetadata]]:
        """Yield all entries with their metadata, one at a time.

        Raises:
            ConfigError: No media metadata was collected here.
            FormatError: The file is damaged.
        """
        for entry_key, *fields in self._rows("SELECT entry_key, metadata_type, metadata_json FROM media_metadata"):
            yield entry_key, self._decode(*fields)

    def close(self) -> None:
        """Close the file; the next look-up opens it again."""
        opened, self._opened = self._opened, None
        if opened is not None and opened.process == os.getpid():
            opened.database.close()

    @property
    def _path(self) -> str:
        return self._storage.path(INDEX_SQLITE)

    def _rows(self, query: str, values: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
        with self._errors():
            opened = self._open()
            with opened.lock:
                cursor = opened.database.execute(query, values)
            while True:
                with opened.lock:
                    rows = cursor.fetchmany(_ROWS_AT_ONCE)
                if not rows:
                    return
                yield from rows

    def _open(self) -> _Opened:
        opened = self._opened
        if opened is None or opened.process != os.getpid():  # a connection must not cross a fork
            if not self._storage.exists(INDEX_SQLITE):
                raise self._not_collected("there is no index.sqlite")
            opened = _Opened(open_sqlite(self._storage.local_path(INDEX_SQLITE), shared=True))
            if not has_media_tables(opened.database):
                opened.database.close()
                raise self._not_collected("its index.sqlite has no table of it")
            self._opened = opened
        return opened

    def _decode(self, metadata_type: object, metadata_json: object) -> MediaMetadata:
        try:
            return decode_media_metadata(str(metadata_type), str(metadata_json))
        except ValueError as error:
            raise self._damage(str(error)) from None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._damage(f"index.sqlite cannot be read ({error})") from error

    def _not_collected(self, why: str) -> ConfigError:
        return ConfigError(
            f"no media metadata was collected here: {why}",
            file=self._path,
            do=f"run: {media_prepare_command(self._storage)}",
        )

    def _damage(self, found: str) -> FormatError:
        do = f"write it anew: {media_prepare_command(self._storage)}"
        return FormatError(found, shard=self._path, do=do)


class _Opened:
    """A connection, and the process and the lock that it belongs to."""

    __slots__ = ("database", "lock", "process")

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.lock = threading.Lock()
        self.process = os.getpid()


def has_media_tables(database: sqlite3.Connection) -> bool:
    """Tell whether an ``index.sqlite`` has a table of media metadata."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'media_metadata'"
    return database.execute(query).fetchone() is not None


def media_prepare_command(storage: Storage) -> str:
    """Give the command that collects the media metadata of a dataset or of a folder of files."""
    is_dataset = storage.exists(INFO_JSON) or storage.exists(INFO_YAML)
    return f"energon {'prepare' if is_dataset else 'prepare-media'} --media-metadata-by-header {storage.url}"
