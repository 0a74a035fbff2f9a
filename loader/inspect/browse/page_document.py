"""Describe one sample: its parts, where their bytes lie, and the sample as the field map makes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...dataset.dataset import PartPlace
from ...errors import EnergonError, plural
from ...format.columns.column_files import open_column
from ...format.dataset_ref import DatasetRef
from ...parts.picture_traits import turn_note
from ...storage import LocalStorage
from ..fields import FieldView
from ..sample_view import PreviewRequest, SampleView
from ..views import open_views
from .dataset import BrowsedDataset, is_picture, media_type
from .thumbnails import MAX_PART_BYTES

_FIELD_KEYS = ("name", "type", "shape", "dtype", "range", "size_bytes", "media", "facts", "text", "fault")
_EXTENSIONS = ("npy", "npz", "pth", "pt")
_MAX_PARTS = 200  # and fields, and columns
_MAX_ELEMENTS = 4  # of a vector in a column
_MAX_CHARACTERS = 1000  # of a text in a column
_MAX_TEXT_BYTES = 200_000  # of one part
_MAX_TEXTS_BYTES = 4_000_000  # of all parts
_MAX_EXACT_DIGITS = 15  # of an integer in JavaScript
_MAX_HEX_BYTES = 512  # of a part that is not a text
_MAX_HEAD_BYTES = 256 * 1024  # of a picture, to find its orientation


def sample_page(dataset: BrowsedDataset, sample: int) -> dict[str, Any]:
    """Return a JSON document of a sample: key, shard, neighbours, and each part with its kind and place.

    Texts are cut at 200,000 bytes, and other bytes at 512; pictures, media and arrays are named only. At most 200 parts
    are described, and ``more`` counts the others. Vectors of columns are cut after four elements.
    """
    row = dataset.row(sample)
    parts = dataset.parts(sample)
    neighbours = [dataset.row(other) for other in (sample - 1, sample + 1) if 0 <= other < len(dataset)]
    return {
        "dataset": dataset.name,
        "number": sample,
        "version": dataset.version,
        "shard": row.shard,
        "key": row.key,
        "path": dataset.folder.storage.path(row.shard),
        "excluded": row.excluded,
        "neighbours": [
            {"number": neighbour.number, "shard": neighbour.shard, "key": neighbour.key} for neighbour in neighbours
        ],
        "parts": list(_describe_parts(dataset, sample, parts[:_MAX_PARTS])),
        "more": max(0, len(parts) - _MAX_PARTS),
        "columns": list(_describe_columns(dataset, sample)),
    }


def _describe_columns(dataset: BrowsedDataset, sample: int) -> Iterator[dict[str, Any]]:
    """Yield the value of each column as a short text; none of remote datasets, whose columns would be copied whole."""
    folder = dataset.folder
    for name in folder.documents.column_names()[:_MAX_PARTS] if isinstance(folder.storage, LocalStorage) else ():
        try:
            value = open_column(folder.storage, folder.index, name).value(sample)
            yield {"name": name, "text": None if value is None else _short_text(value), "fault": None}
        except EnergonError as error:
            yield {"name": name, "text": None, "fault": error.message}


def _short_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        more = " …" if len(value) > _MAX_ELEMENTS else ""
        elements = [
            f"{element:.4g}" if isinstance(element, float) else str(element)
            for element in value[:_MAX_ELEMENTS].tolist()
        ]
        return f"{' '.join(elements)}{more} ({len(value)} {value.dtype})"
    text = str(value)
    # Lone surrogates cannot be sent.
    return f"{text[:_MAX_CHARACTERS]}{'…' if len(text) > _MAX_CHARACTERS else ''}".encode("utf-8", "replace").decode()


def _describe_parts(dataset: BrowsedDataset, sample: int, parts: Sequence[PartPlace]) -> Iterator[dict[str, Any]]:
    left = _MAX_TEXTS_BYTES
    for location in parts:
        size_bytes, kind = min(location.size_bytes, _MAX_TEXT_BYTES, left), _kind(location)
        document = {**location._asdict(), "type": media_type(location.name), "kind": kind}
        if kind == "text":
            document |= _text(location, dataset.read(sample, location, 0, size_bytes))
            left -= size_bytes
        elif kind == "picture":
            document["note"] = turn_note(dataset.read(sample, location, 0, min(location.size_bytes, _MAX_HEAD_BYTES)))
        elif kind == "hex":
            document["hex"] = dataset.read(sample, location, 0, _MAX_HEX_BYTES).hex(" ")
        yield document


def _kind(location: PartPlace) -> str:
    if is_tensor(location.name) and location.size_bytes <= MAX_PART_BYTES:
        return "tensor"
    if is_picture(location.name):
        return "picture"
    kind = media_type(location.name).partition("/")[0]
    return kind if kind in ("audio", "video", "text") else "hex"


def _text(location: PartPlace, data: bytes) -> dict[str, Any]:
    text = data.decode("utf-8", "replace")
    document = {"text": text, "cut": len(data) < location.size_bytes}
    if location.name.rpartition(".")[2].lower() == "json" and not document["cut"]:
        try:
            value = json.loads(text, parse_constant=str, parse_int=_integer, parse_float=_number)
            json.dumps(value)
            document |= {"kind": "json", "value": value}
        except (ValueError, RecursionError) as error:
            document["fault"] = f"this is not JSON: {error}"
    return document


def _integer(digits: str) -> int | str:
    """Return a number, or the digits of one that JavaScript would round."""
    return int(digits) if len(digits) <= _MAX_EXACT_DIGITS else digits


def _number(digits: str) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else digits  # JSON has no infinity


def mapped_document(ref: DatasetRef, key: str) -> dict[str, Any]:
    """Return the sample as the field map makes it, like ``energon preview --json``; a fault if it cannot be made.

    Args:
        key: ``<shard>/<key>``.
    """
    try:
        views = open_views(PreviewRequest(ref=ref, key=key))
        document = sample_document(views.view(views.total - 1))
    except EnergonError as error:
        return {"fields": [], "fault": str(error), "note": None}
    fields = document["fields"]
    if len(fields) > _MAX_PARTS:
        note = f"{plural(len(fields) - _MAX_PARTS, 'more field is', 'more fields are')} not shown"
        document |= {"fields": fields[:_MAX_PARTS], "note": "; ".join(filter(None, (document["note"], note)))}
    return document


def is_tensor(part: str) -> bool:
    """Return True if a part has a name for arrays or tensors.

    >>> is_tensor("tokens.npy"), is_tensor("npy.txt")
    (True, False)
    """
    return part.rpartition(".")[2].lower() in _EXTENSIONS


def sample_document(sample: SampleView) -> dict[str, Any]:
    """Return what ``energon preview --json`` prints about a sample; unknown values are None.

    >>> sample_document(SampleView(title="", fields=(), bare_key="0001", shard="s.tar", index=1))["key"]
    '0001'
    """
    return {
        "key": sample.bare_key,
        "shard": sample.shard,
        "index": sample.index,
        "origin": sample.origin,
        "excluded": sample.excluded,
        "fields": [_field_document(field) for field in sample.fields],
        "note": sample.note,
        "fault": sample.fault,
    }


def _field_document(field: FieldView) -> dict[str, Any]:
    document = {name: getattr(field, name) for name in _FIELD_KEYS}
    if field.shape is not None:
        document["shape"] = list(field.shape)
    if field.range is not None:  # JSON has no NaN and no infinity
        document["range"] = [end if math.isfinite(end) else None for end in field.range]
    return document
