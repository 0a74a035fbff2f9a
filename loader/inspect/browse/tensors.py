"""Describe the arrays of a part for the page of its sample."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..fields import describe_value
from .thumbnails import MAX_PART_BYTES, PartAddress, read_part

_MAX_ARRAYS = 20  # of one file
_MAX_NUMBERS = 1_000_000  # that a histogram counts
_BARS = 24  # of a histogram


def describe_tensors(address: PartAddress) -> list[dict[str, Any]]:
    """Read a part, and return a JSON document for each of its arrays, with a histogram, or with the fault.

    Pickled objects are refused. Of a large array, a million numbers are counted.

    Raises:
        KeyError: The sample has no such part.
    """
    data = read_part(address)
    try:
        return [_document(inner, value) for inner, value in _arrays(address.part, data)]
    except Exception as error:  # noqa: BLE001 - damaged files raise many kinds
        first = (str(error) or type(error).__name__).splitlines()[0]
        return [{"name": "", "facts": "", "fault": f"no arrays can be read: {first[:300]}"}]


def _arrays(name: str, data: bytes) -> Iterator[tuple[str, Any]]:
    extension = name.rpartition(".")[2].lower()
    if extension == "npy":
        yield "", np.load(io.BytesIO(data), allow_pickle=False)
    elif extension == "npz":
        with zipfile.ZipFile(io.BytesIO(data)) as members:
            sizes = {member.filename: member.file_size for member in members.infolist()}
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            for inner in arrays.files[:_MAX_ARRAYS]:
                if max(sizes.get(inner, 0), sizes.get(f"{inner}.npy", 0)) > MAX_PART_BYTES:
                    raise ValueError(f"array {inner!r} has more than {MAX_PART_BYTES >> 20} MiB")
                yield inner, arrays[inner]
    else:
        import torch  # only for its own files

        value = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        items = value.items() if isinstance(value, dict) else [("", value)]
        yield from ((str(inner), member) for inner, member in list(items)[:_MAX_ARRAYS])


def _document(name: str, value: Any) -> dict[str, Any]:
    view = describe_value(name, value)
    document: dict[str, Any] = {"name": name, "facts": view.facts}
    if not hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        return document
    document["shape"] = list(view.shape or ())
    if hasattr(value, "numpy"):
        value = (value.float() if value.is_floating_point() else value).numpy()  # numpy has no bfloat16
    if value.dtype.kind not in "biuf" or not value.size:
        return document
    flat = value.reshape(-1)
    some = flat[:: -(-len(flat) // _MAX_NUMBERS)].astype(np.float64)
    known = some[np.isfinite(some)]
    document |= {"counted": len(some), "not_finite": len(some) - len(known)}
    if len(known):
        bars = min(_BARS, max(1, len(np.unique(known[:10_000]))))
        counts, edges = np.histogram(known, bins=bars)
        document["mean"] = float(known.mean())
        document["bars"] = [
            {"low": low, "high": high, "count": count}
            for low, high, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
        ]
    return document
