"""Describe one sample: its parts, where their bytes lie, and the sample as the field map makes it."""

from __future__ import annotations

import json
from typing import Any

from ...errors import EnergonError
from ..sample_json import sample_document
from ..sample_view import PreviewRequest
from ..views import open_views
from .dataset import BrowsedDataset
from .part_types import is_picture, media_type
from .tensors import MAX_TENSOR_BYTES, is_tensor

__all__ = ["mapped_document", "sample_page"]

_MAX_TEXT_BYTES = 200_000
_MAX_HEX_BYTES = 512


def sample_page(dataset: BrowsedDataset, number: int) -> dict[str, Any]:
    """Return a JSON document of a sample: key, shard, neighbours, and each part with its kind and place.

    Texts are cut at 200,000 bytes, and other bytes at 512; pictures, media and arrays are named only.

    Raises:
        EnergonError: The shard is missing or damaged, or has changed.
    """
    row = dataset.row(number)
    neighbours = [dataset.row(other) for other in (number - 1, number + 1) if 0 <= other < len(dataset)]
    return {
        "dataset": dataset.name,
        "number": number,
        "shard": row.shard,
        "key": row.key,
        "path": dataset.folder.storage.path(row.shard),
        "excluded": row.excluded,
        "neighbours": [{"number": one.number, "shard": one.shard, "key": one.key} for one in neighbours],
        "parts": [_part(dataset, number, *place) for place in dataset.parts(number)],
    }


def _part(dataset: BrowsedDataset, number: int, name: str, size_bytes: int, offset: int | None) -> dict[str, Any]:
    document: dict[str, Any] = {"name": name, "size_bytes": size_bytes, "offset": offset, "type": media_type(name)}
    kind = document["type"].partition("/")[0]
    if is_tensor(name) and size_bytes <= MAX_TENSOR_BYTES:
        return {**document, "kind": "tensor"}
    if is_picture(name):
        return {**document, "kind": "picture"}
    if kind in ("audio", "video"):
        return {**document, "kind": kind}
    if kind == "text":
        text = dataset.read(number, name, 0, _MAX_TEXT_BYTES).decode("utf-8", "replace")
        document |= {"kind": "text", "text": text, "cut": size_bytes > _MAX_TEXT_BYTES}
        if name.rpartition(".")[2].lower() == "json" and not document["cut"]:
            try:
                document |= {"kind": "json", "value": json.loads(text, parse_constant=str)}
            except (ValueError, RecursionError) as error:
                document["fault"] = f"this is no JSON: {error}"
        return document
    return {**document, "kind": "hex", "hex": dataset.read(number, name, 0, _MAX_HEX_BYTES).hex(" ")}


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
        return sample_document(views.view(views.total - 1))
    except EnergonError as error:
        return {"fields": [], "fault": str(error), "note": None}
