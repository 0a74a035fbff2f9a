"""Values of one sample: sizes of pictures by their headers, lengths of texts, durations, JSON fields."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, BinaryIO, cast

import msgspec

from ...errors import StorageError
from ...format.documents.value_name import ValueName
from ...format.index.dataset_index import PartLocation
from ...format.index.sample_bytes import read_sample
from ...format.media.extraction import BrokenMedia, FileRegion, extract_media
from ...format.media.metadata import AVMetadata, ImageMetadata, MediaFilter
from ...parts.kinds import is_compressed, kind_of_name, part_extension
from ...parts.large_parts import LargePart, LargePartError, is_limited, is_too_large
from ...parts.picture_traits import picture_traits
from ...storage import ReadableFile

Value = int | float | str | date
SampleValues = list[tuple[str, Value]]
"""Pairs of a name, as :mod:`...format.documents.value_name` prints it, and a value."""

Tokenizer = Callable[[str], int]
"""Returns the number of tokens of a text."""

_BY_NAME = MediaFilter(strategy="EXTENSION")
_MAX_FIELDS = 200  # of one JSON part
_MAX_DEPTH = 4  # levels of a JSON document
_MAX_TEXT = 80  # characters of a text that is counted as a value
_MAX_NAMED_TEXT = 1000  # of one that is named
_LONGEST_TEXT = 64 << 20  # bytes


@lru_cache(maxsize=1000)
def _kind_of(name: str) -> str:
    """Return the kind of a part; ``"bytes"`` also for parts whose size alone is shown."""
    kind = kind_of_name(name)
    if kind == "tree" and part_extension(name) not in ("json", "jsn"):
        return "bytes"
    return "bytes" if is_compressed(name) and kind not in ("text", "tree", "label") else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRequest:
    """The values to read from parts."""

    shows_all: bool = True  # all values, but those inside of lists, or more than four levels deep
    # Values by name, also inside of lists: part → their names.
    kept: Mapping[str, Sequence[ValueName]] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None


PartValues = tuple[SampleValues, SampleValues]
"""All values of a part, and those that are kept, among others."""


def part_values(
    file: ReadableFile, part: PartLocation, request: ValueRequest, max_json_bytes: int | None
) -> PartValues:
    """Return the values of one part of a tar shard; of pictures, audio and video, only headers are read.

    Raises:
        LargePartError: It would be parsed, and is larger than the limit.
        ValueError: The part is not what its name says.
    """
    # Read texts and documents whole, if they are not too large.
    name, kind = part.name, _kind_of(part.name)
    if kind in ("text", "tree", "label"):
        if part.size_bytes > _LONGEST_TEXT and not is_limited(name):
            raise ValueError(f"it has more than {_LONGEST_TEXT >> 20} MiB")
        if is_compressed(name) or is_too_large(name, part.size_bytes, max_json_bytes or sys.maxsize):
            data = read_sample(file, [part], shard="", max_json_bytes=max_json_bytes)[name]
        else:
            data = file.read_at(part.offset, part.size_bytes)
        return content_values(name, data, request)
    if kind not in ("image", "audio", "video"):
        return [], []
    # Read only the header of media.
    shown = size_name(name).removesuffix(".bytes")
    region = FileRegion(file, part.offset, part.size_bytes)
    try:
        metadata = extract_media(region, f"key.{name}", _BY_NAME)
    except BrokenMedia as error:
        raise ValueError(str(error)) from error
    values: SampleValues = []
    if isinstance(metadata, ImageMetadata):
        values = _of_image(shown, metadata) + _of_traits(shown, region)
    elif isinstance(metadata, AVMetadata):
        values = _of_av(shown, metadata)
    return values, values


def _of_image(name: str, metadata: ImageMetadata) -> SampleValues:
    return [
        (f"{name}.width", metadata.width),
        (f"{name}.height", metadata.height),
        (f"{name}.aspect", metadata.width / metadata.height if metadata.height else 0.0),
        (f"{name}.mode", metadata.mode),
        (f"{name}.format", metadata.format),
    ]


def _of_traits(name: str, region: FileRegion) -> SampleValues:
    region.seek(0)
    try:
        traits = picture_traits(cast("BinaryIO", region))
    except StorageError:
        raise
    except Exception as error:  # of any type: its size is known, but a later frame or tag is damaged
        raise ValueError(f"its frames cannot be counted ({type(error).__name__}: {error})") from error
    return [
        (f"{name}.frames", traits.frames),
        (f"{name}.orientation", traits.orientation),
        (f"{name}.bits", traits.bits),
        (f"{name}.alpha", "true" if traits.alpha else "false"),
    ]


def _of_av(name: str, metadata: AVMetadata) -> SampleValues:
    values: SampleValues = []
    # A file has one duration: its longest track.
    durations = [duration for duration in (metadata.video_duration, metadata.audio_duration) if duration is not None]
    if durations:
        values.append((f"{name}.duration", max(durations)))
    for key, value in vars(metadata).items():
        if value is not None and not key.endswith("_duration"):
            values.append((f"{name}.{key.removeprefix('video_')}", value))
    return values


def content_values(name: str, value: Any, request: ValueRequest) -> PartValues:
    """Return the values of a text, a JSON document or a value of a table.

    Raises:
        LargePartError: It would be parsed, and is larger than the limit.
        ValueError: Bytes are not what their name says.
    """
    if isinstance(value, LargePart):
        raise LargePartError(value)
    # Bytes of tar shards and JSONL files are decoded first; rows have values.
    if isinstance(value, bytes):
        kind = _kind_of(name)
        if kind not in ("text", "tree", "label"):
            return [], []
        if is_compressed(name):
            value = _decompressed(value)
        if kind == "label":
            values: SampleValues = [(_content_names(name)[0], value.decode("utf-8").strip()[:_MAX_TEXT])]
            return values, values
        value = _parse_json(value) if kind == "tree" else value.decode("utf-8-sig")
    values = []
    kept: SampleValues = []
    # All values, for the statistics.
    if request.shows_all:
        fields = islice(_fields((), value), _MAX_FIELDS) if isinstance(value, dict) else [((), value)]
        for path, inner in fields:
            _add_values(values, _content_names(name, path), inner, request.tokenizer)
    # Named values, also inside of lists.
    for wanted in request.kept.get(name, ()):
        with suppress(LookupError):
            inner = wanted.value(value)
            if wanted.path or not isinstance(inner, dict):  # a document is no value, but what is inside it
                _add_values(kept, _content_names(name, wanted.path), inner, request.tokenizer, _MAX_NAMED_TEXT)
    return values, kept


def _decompressed(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it is not compressed by gzip: {error}") from error


def _parse_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        try:
            return json.loads(data)  # it takes NaN and lone surrogates, unlike msgspec
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error


def _fields(path: tuple[str, ...], document: Mapping[Any, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    is_deepest = len(path) == _MAX_DEPTH - 1
    for key, value in document.items():
        inner = (*path, str(key)[:_MAX_TEXT])
        if is_deepest or not isinstance(value, dict):
            yield inner, value
        else:
            yield from _fields(inner, value)


def _add_values(
    values: SampleValues, names: Sequence[str], value: Any, tokenizer: Tokenizer | None, longest: int = _MAX_TEXT
) -> None:
    # Long texts have too many values to count, so only their lengths are kept.
    if isinstance(value, str):
        if len(value) <= longest:
            values.append((names[0], value))
        values.append((names[1], len(value)))
        values.append((names[2], len(value.split())))
        if tokenizer is not None:
            values.append((names[3], tokenizer(value)))
    elif isinstance(value, bool):
        values.append((names[0], "true" if value else "false"))
    elif isinstance(value, int | float):
        values.append((names[0], value))
    elif isinstance(value, date):  # of a table
        is_aware = isinstance(value, datetime) and value.tzinfo is not None
        values.append((names[0], value.astimezone(UTC).replace(tzinfo=None) if is_aware else value))  # type: ignore[attr-defined]
    elif isinstance(value, list | tuple | dict):
        values.append((names[4], len(value)))
    elif value is None:
        values.append((names[5], 1))


@lru_cache(maxsize=10_000)
def _content_names(part: str, path: tuple[str | int, ...] = ()) -> Sequence[str]:
    """Return the names of a value and of what is measured of it; they recur in each sample."""
    return [str(ValueName(part, path, trait)) for trait in ("", "chars", "words", "tokens", "length", "null")]


@lru_cache(maxsize=10_000)
def size_name(part: str) -> str:
    """Return the name of the size of a part."""
    return str(ValueName(part, (), "bytes"))
