"""Values of one sample: sizes of pictures by their headers, lengths of texts, durations, JSON fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ...format.documents.part_kinds import part_kind
from ...format.media.extraction import BrokenMedia, FileRegion, extract_media
from ...format.media.kind import MediaFilter
from ...format.media.metadata import AVMetadata, ImageMetadata
from ...storage import ReadableFile

__all__ = ["SampleValues", "Tokenizer", "Value", "content_values", "part_values"]

Value = int | float | str
SampleValues = Iterator[tuple[str, Value]]
"""Pairs of a name, such as ``jpg.width``, and a value."""

Tokenizer = Callable[[str], int]
"""Returns the number of tokens of a text."""

_BY_NAME = MediaFilter(strategy="EXTENSION")
_MAX_FIELDS = 200  # of one JSON part
_MAX_DEPTH = 4
_MAX_TEXT = 80  # characters of a text that is counted as a value
_LONGEST_READ = 64 << 20  # bytes of a text or JSON part


def part_values(
    file: ReadableFile, name: str, offset: int, size_bytes: int, tokenizer: Tokenizer | None
) -> SampleValues:
    """Yield the values of one part of a tar shard; of pictures, audio and video, only headers are read.

    Raises:
        ValueError: The part is not what its name says.
        ConfigError: PyAV is needed and not installed.
        StorageError: The shard cannot be read.
    """
    kind = part_kind(name)
    if kind in ("image", "audio", "video"):
        try:
            found = extract_media(FileRegion(file, offset, size_bytes), f"key.{name}", _BY_NAME)
        except BrokenMedia as error:
            raise ValueError(str(error)) from error
        if isinstance(found, ImageMetadata):
            yield from _of_image(name, found)
        elif isinstance(found, AVMetadata):
            yield from _of_av(name, found)
    elif kind in ("text", "tree", "label") or name == "json":
        if size_bytes > _LONGEST_READ:
            raise ValueError(f"it has more than {_LONGEST_READ >> 20} MiB")
        yield from content_values(name, file.read_at(offset, size_bytes), tokenizer)


def _of_image(name: str, found: ImageMetadata) -> SampleValues:
    yield f"{name}.width", found.width
    yield f"{name}.height", found.height
    yield f"{name}.aspect", found.width / found.height if found.height else 0.0
    yield f"{name}.mode", found.mode
    yield f"{name}.format", found.format


def _of_av(name: str, found: AVMetadata) -> SampleValues:
    durations = [one for one in (found.video_duration, found.audio_duration) if one is not None]
    if durations:
        yield f"{name}.duration", max(durations)
    for field in ("video_width", "video_height", "video_fps", "audio_sample_rate", "audio_channels"):
        value = getattr(found, field)
        if value is not None:
            yield f"{name}.{field.removeprefix('video_')}", value


def content_values(name: str, value: Any, tokenizer: Tokenizer | None) -> SampleValues:
    """Yield the values of a text, a JSON document or a value of a table.

    Raises:
        ValueError: Bytes are not what their name says.
    """
    if isinstance(value, bytes):
        kind = part_kind(name)
        if kind == "label":
            yield name, value.decode("utf-8").strip()[:_MAX_TEXT]
            return
        value = _parse_json(value) if kind == "tree" else value.decode("utf-8")
    if isinstance(value, Mapping):
        left = _MAX_FIELDS
        for path, field in _fields(name, value, 1):
            yield from _of_value(path, field, tokenizer)
            left -= 1
            if not left:
                return
    else:
        yield from _of_value(name, value, tokenizer)


def _parse_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        try:
            return json.loads(data)  # it takes NaN and lone surrogates, unlike msgspec
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error


def _fields(name: str, document: Mapping[Any, Any], depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        path = f"{name}.{str(key)[:_MAX_TEXT]}"
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            yield from _fields(path, value, depth + 1)
        else:
            yield path, value


def _of_value(path: str, value: Any, tokenizer: Tokenizer | None) -> SampleValues:
    match value:
        case bool():
            yield path, str(value).lower()
        case int() | float():
            yield path, value
        case str():
            if len(value) <= _MAX_TEXT:
                yield path, value
            yield f"{path}.chars", len(value)
            yield f"{path}.words", len(value.split())
            if tokenizer is not None:
                yield f"{path}.tokens", tokenizer(value)
        case list() | tuple() | Mapping():
            yield f"{path}.length", len(value)
        case None:
            yield f"{path}.null", 1
