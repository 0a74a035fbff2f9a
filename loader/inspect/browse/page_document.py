"""Describe one sample: its parts, where their bytes lie, and the sample as the field map makes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import EnergonError
from ...format.media.picture_traits import turn_note
from ..sample_json import sample_document
from ..sample_view import PreviewRequest
from ..views import open_views
from .dataset import BrowsedDataset, PartPlace
from .part_types import is_picture, media_type
from .tensors import is_tensor
from .workers import MAX_PART_BYTES

_MAX_PARTS = 200  # and fields
_MAX_TEXT_BYTES = 200_000
_MAX_TEXTS_BYTES = 4_000_000  # of all parts
_MAX_EXACT_DIGITS = 15  # of an integer in JavaScript
_MAX_HEX_BYTES = 512
_MAX_HEAD_BYTES = 256 * 1024  # of a picture, to find its orientation


def sample_page(dataset: BrowsedDataset, number: int) -> dict[str, Any]:
    """Return a JSON document of a sample: key, shard, neighbours, and each part with its kind and place.

    Texts are cut at 200,000 bytes, and other bytes at 512; pictures, media and arrays are named only. At most 200 parts
    are described, and ``more`` counts the others.

    Raises:
        EnergonError: The shard is missing or damaged, or has changed.
    """
    row = dataset.row(number)
    parts = dataset.parts(number)
    neighbours = [dataset.row(other) for other in (number - 1, number + 1) if 0 <= other < len(dataset)]
    return {
        "dataset": dataset.name,
        "number": number,
        "version": dataset.version,
        "shard": row.shard,
        "key": row.key,
        "path": dataset.folder.storage.path(row.shard),
        "excluded": row.excluded,
        "neighbours": [{"number": one.number, "shard": one.shard, "key": one.key} for one in neighbours],
        "parts": list(_describe_parts(dataset, number, parts[:_MAX_PARTS])),
        "more": max(0, len(parts) - _MAX_PARTS),
    }


def _describe_parts(dataset: BrowsedDataset, number: int, parts: Sequence[PartPlace]) -> Iterator[dict[str, Any]]:
    left = _MAX_TEXTS_BYTES
    for place in parts:
        size_bytes, kind = min(place.size_bytes, _MAX_TEXT_BYTES, left), _kind(place)
        document = {**place._asdict(), "type": media_type(place.name), "kind": kind}
        if kind == "text":
            document |= _text(place, dataset.read(number, place, 0, size_bytes))
            left -= size_bytes
        elif kind == "picture":
            document["note"] = turn_note(dataset.read(number, place, 0, min(place.size_bytes, _MAX_HEAD_BYTES)))
        elif kind == "hex":
            document["hex"] = dataset.read(number, place, 0, _MAX_HEX_BYTES).hex(" ")
        yield document


def _kind(place: PartPlace) -> str:
    if is_tensor(place.name) and place.size_bytes <= MAX_PART_BYTES:
        return "tensor"
    if is_picture(place.name):
        return "picture"
    kind = media_type(place.name).partition("/")[0]
    return kind if kind in ("audio", "video", "text") else "hex"


def _text(place: PartPlace, data: bytes) -> dict[str, Any]:
    text = data.decode("utf-8", "replace")
    document = {"text": text, "cut": len(data) < place.size_bytes}
    if place.name.rpartition(".")[2].lower() == "json" and not document["cut"]:
        try:
            value = json.loads(text, parse_constant=str, parse_int=_integer, parse_float=_number)
            json.dumps(value)
            document |= {"kind": "json", "value": value}
        except (ValueError, RecursionError) as error:
            document["fault"] = f"this is no JSON: {error}"
    return document


def _integer(digits: str) -> int | str:
    """Return a number, or the digits of one that JavaScript would round."""
    return int(digits) if len(digits) <= _MAX_EXACT_DIGITS else digits


def _number(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits  # JSON has no infinity


def mapped_document(path: str, key: str, split_config: str | None, meta_folder: str | None) -> dict[str, Any]:
    """Return the sample as the field map makes it, like ``energon preview --json``; a fault if it cannot be made.

    Args:
        path: The dataset.
        key: ``<shard>/<key>``.
        split_config: Name of the split file; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.
    """
    request = PreviewRequest(path=path, key=key, split_config=split_config, meta_folder=meta_folder)
    try:
        views = open_views(request)
        document = sample_document(views.view(views.total - 1))
    except EnergonError as error:
        return {"fields": [], "fault": str(error), "note": None}
    fields = document["fields"]
    if len(fields) > _MAX_PARTS:
        note = f"{len(fields) - _MAX_PARTS:,} more fields are not shown"
        document |= {"fields": fields[:_MAX_PARTS], "note": "; ".join(filter(None, (document["note"], note)))}
    return document
