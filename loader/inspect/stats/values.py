"""Values of one sample: sizes of pictures by their headers, lengths of texts, durations, JSON fields."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any, BinaryIO, cast

import msgspec

from ...accounting.kinds import is_compressed, kind_of_name, part_extension
from ...accounting.large_parts import LargePart, LargePartError, is_limited
from ...errors import StorageError
from ...format.index.dataset_index import PartLocation
from ...format.index.sample_bytes import read_sample
from ...format.media.extraction import BrokenMedia, FileRegion, extract_media
from ...format.media.kind import MediaFilter
from ...format.media.metadata import AVMetadata, ImageMetadata
from ...format.media.picture_traits import picture_traits
from ...storage import ReadableFile

Value = int | float | str
SampleValues = list[tuple[str, Value]]
"""Pairs of a name, such as ``jpg.width``, and a value."""

Tokenizer = Callable[[str], int]
"""Returns the number of tokens of a text."""

_BY_NAME = MediaFilter(strategy="EXTENSION")
_MAX_FIELDS = 200  # of one JSON part
_MAX_DEPTH = 4
_MAX_TEXT = 80  # characters of a text that is counted as a value
_LONGEST_TEXT = 64 << 20  # bytes


@lru_cache(maxsize=1000)
def _kind_of(name: str) -> str:
    """Return the kind of a part; ``"bytes"`` also for those of which only the size is shown."""
    kind = kind_of_name(name)
    if kind == "tree" and part_extension(name) not in ("json", "jsn"):
        return "bytes"
    return "bytes" if is_compressed(name) and kind not in ("text", "tree", "label") else kind


def part_values(
    file: ReadableFile, part: PartLocation, tokenizer: Tokenizer | None, max_json_bytes: int | None
) -> SampleValues:
    """Return the values of one part of a tar shard; of pictures, audio and video, only headers are read.

    Raises:
        LargePartError: It would be parsed, and is larger than the limit.
        ValueError: The part is not what its name says.
        ConfigError: PyAV is needed and not installed.
        StorageError: The shard cannot be read.
    """
    name, kind = part.name, _kind_of(part.name)
    if kind in ("text", "tree", "label"):
        if part.size_bytes > _LONGEST_TEXT and not is_limited(name):
            raise ValueError(f"it has more than {_LONGEST_TEXT >> 20} MiB")
        data = read_sample(file, [part], shard="", max_json_bytes=max_json_bytes)[name]
        return content_values(name, data, tokenizer)
    if kind not in ("image", "audio", "video"):
        return []
    region = FileRegion(file, part.offset, part.size_bytes)
    try:
        found = extract_media(region, f"key.{name}", _BY_NAME)
    except BrokenMedia as error:
        raise ValueError(str(error)) from error
    if isinstance(found, ImageMetadata):
        return _of_image(name, found) + _of_traits(name, region)
    return _of_av(name, found) if isinstance(found, AVMetadata) else []


def _of_image(name: str, found: ImageMetadata) -> SampleValues:
    return [
        (f"{name}.width", found.width),
        (f"{name}.height", found.height),
        (f"{name}.aspect", found.width / found.height if found.height else 0.0),
        (f"{name}.mode", found.mode),
        (f"{name}.format", found.format),
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


def _of_av(name: str, found: AVMetadata) -> SampleValues:
    values: SampleValues = []
    durations = [one for one in (found.video_duration, found.audio_duration) if one is not None]
    if durations:
        values.append((f"{name}.duration", max(durations)))
    for field, value in asdict(found).items():
        if value is not None and not field.endswith("_duration"):
            values.append((f"{name}.{field.removeprefix('video_')}", value))
    return values


def content_values(name: str, value: Any, tokenizer: Tokenizer | None) -> SampleValues:
    """Return the values of a text, a JSON document or a value of a table.

    Raises:
        LargePartError: It would be parsed, and is larger than the limit.
        ValueError: Bytes are not what their name says.
    """
    if isinstance(value, LargePart):
        raise LargePartError(value)
    if isinstance(value, bytes):
        kind = _kind_of(name)
        if kind not in ("text", "tree", "label"):
            return []
        if is_compressed(name):
            value = _decompressed(value)
        if kind == "label":
            return [(name, value.decode("utf-8").strip()[:_MAX_TEXT])]
        value = _parse_json(value) if kind == "tree" else value.decode("utf-8")
    values: SampleValues = []
    if isinstance(value, dict):
        for left, (path, field) in enumerate(_fields(name, value, 1)):
            if left == _MAX_FIELDS:
                break
            _add_value(values, path, field, tokenizer)
    else:
        _add_value(values, name, value, tokenizer)
    return values


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


def _fields(name: str, document: Mapping[Any, Any], depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        path = f"{name}.{str(key)[:_MAX_TEXT]}"
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            yield from _fields(path, value, depth + 1)
        else:
            yield path, value


def _add_value(values: SampleValues, path: str, value: Any, tokenizer: Tokenizer | None) -> None:
    if isinstance(value, str):
        if len(value) <= _MAX_TEXT:
            values.append((path, value))
        values.append((f"{path}.chars", len(value)))
        values.append((f"{path}.words", len(value.split())))
        if tokenizer is not None:
            values.append((f"{path}.tokens", tokenizer(value)))
    elif isinstance(value, bool):
        values.append((path, "true" if value else "false"))
    elif isinstance(value, int | float):
        values.append((path, value))
    elif isinstance(value, list | tuple | dict):
        values.append((f"{path}.length", len(value)))
    elif value is None:
        values.append((f"{path}.null", 1))
