"""Read what requests ask for, and make answers of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from loader.inspect.browse import BrowsedDataset

# Longer numbers may not fit into 64 bits.
MAX_DIGITS = 18
"""Digits of the largest number in a request; Python does not read thousands of them."""

_MAX_BODY_BYTES = 4 << 20
MAX_RANGE_BYTES = 8 << 20
"""Size of the answer to a request for a range of bytes."""


def integer(request: Request, name: str, default: int) -> int:
    """Return a number of the query string; at least 0."""
    text = request.query_params.get(name) or str(default)
    if not (text.isascii() and text.isdigit()) or len(text) > MAX_DIGITS:
        raise HTTPException(400, f"expected {name} to be a number")
    return int(text)


def etag(dataset: BrowsedDataset, sample: int, part: str, pixels: int) -> str:
    """Return a name of the bytes of a part, or of the bytes of its thumbnail."""
    return f'"{hashlib.sha256(repr((dataset.version, sample, part, pixels)).encode()).hexdigest()[:32]}"'


def byte_range(header: str | None, size: int) -> tuple[int, int, bool]:
    """Return start and stop of a request for one range of bytes, and True if it asks for one.

    >>> byte_range("bytes=2-5", 10), byte_range("bytes=-3", 10), byte_range(None, 10)
    ((2, 6, True), (7, 10, True), (0, 10, False))
    """
    if header is None or not header.startswith("bytes=") or "," in header:
        return 0, size, False
    first, _, last = header.removeprefix("bytes=").strip().partition("-")
    if not all(
        not digits or (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS) for digits in (first, last)
    ):
        return 0, size, False
    if not first:
        start, stop = max(0, size - int(last or 0)), size
    else:
        start, stop = int(first), min(size, int(last) + 1 if last else size)
    if start >= stop:
        raise HTTPException(416, "no bytes in this range", headers={"Content-Range": f"bytes */{size}"})
    return start, min(stop, start + MAX_RANGE_BYTES), True


async def selection_of(request: Request) -> tuple[list[str], str]:
    """Return the keys of a selection, ``<shard>/<key>``, and the tag; an empty text without one."""
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > _MAX_BODY_BYTES:
        raise HTTPException(413, "the list of keys is too long")
    try:
        body = json.loads(await request.body())
        keys, tag = body["keys"], body.get("tag", "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HTTPException(400, "expected a JSON object with keys") from error
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in [*keys, tag]):
        raise HTTPException(400, "expected a list of keys")
    return keys, tag


def row_document(dataset: BrowsedDataset, sample: int, place: int) -> dict[str, Any]:
    """Return a sample as the grid shows it; ``place`` is its dataset's in the catalogue."""
    row = dataset.row(sample)
    return {
        "d": place,
        "n": sample,
        "v": dataset.version,
        "shard": row.shard,
        "key": row.key,
        "picture": row.picture,
        "excluded": row.excluded,
    }


def json_answer(value: Any, status: Literal[200, 404, 422] = 200, headers: dict[str, str] | None = None) -> Response:
    """Return JSON in ASCII: keys that are not UTF-8 contain lone surrogates."""
    return Response(json.dumps(value), status, headers, media_type="application/json")


async def answer_error(_request: Request, error: Exception) -> Response:
    """Answer with an error of the data."""
    return json_answer({"fault": str(error)}, 422)


async def answer_missing(_request: Request, error: Exception) -> Response:
    """Answer that a sample has no such part."""
    return json_answer({"fault": f"there is no part {error}"}, 404)
