"""Search a dataset by the beginning of keys, or by a text in its captions and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...arrays import IntArray
from ...errors import EnergonError
from ...format.tar.names import encode_name
from .dataset import BrowsedDataset
from .part_types import media_type

__all__ = ["SearchBatch", "SearchRequest", "search_samples"]

_KEYS_AT_ONCE = 1 << 16
_TEXTS_AT_ONCE = 200
_MAX_TEXT_BYTES = 1 << 20  # of a part that is searched


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search.

    Attributes:
        text: The beginning of a key, or a text of any case.
        in_texts: Search texts and JSON instead of keys.
        ranges: Only these samples.
        limit: The search ends after so many samples are found.
    """

    text: str
    in_texts: bool = False
    ranges: Sequence[range]
    limit: int = 1000


class SearchBatch(NamedTuple):
    """A step of a search: the numbers of samples found in it, and how many samples were searched so far."""

    found: list[int]
    searched: int


def search_samples(dataset: BrowsedDataset, request: SearchRequest) -> Iterator[SearchBatch]:
    """Yield the samples that match, batch by batch, so that a search can be shown and stopped while it runs.

    Samples that cannot be read do not match.
    """
    searched, left = 0, request.limit
    step = _TEXTS_AT_ONCE if request.in_texts else _KEYS_AT_ONCE
    for some in request.ranges:
        for start in range(some.start, some.stop, step):
            batch = range(start, min(start + step, some.stop))
            found = _texts(dataset, batch, request.text) if request.in_texts else _keys(dataset, batch, request.text)
            searched += len(batch)
            found = found[:left]
            left -= len(found)
            yield SearchBatch(found, searched)
            if not left:
                return


def _keys(dataset: BrowsedDataset, batch: range, text: str) -> list[int]:
    if dataset.folder.records is not None:
        return [number for number in batch if dataset.folder.index.key(number).startswith(text)]
    index, prefix = dataset.folder.tar_index, np.frombuffer(encode_name(text), np.uint8)
    ends = np.asarray(index.key_ends[batch.start : batch.stop]).astype(np.int64)
    first = int(index.key_ends[batch.start - 1]) if batch.start else 0
    starts: IntArray = np.concatenate([[first], ends[:-1]])
    long_enough = np.flatnonzero(ends - starts >= len(prefix))
    places = starts[long_enough][:, None] + np.arange(len(prefix))
    matches = (index.key_bytes[places] == prefix).all(axis=1)
    found: list[int] = (long_enough[matches] + batch.start).tolist()
    return found


def _texts(dataset: BrowsedDataset, batch: range, text: str) -> list[int]:
    wanted = text.casefold()
    return [number for number in batch if _has_text(dataset, number, wanted)]


def _has_text(dataset: BrowsedDataset, number: int, wanted: str) -> bool:
    try:
        return any(
            wanted in dataset.read(number, part.name, 0, _MAX_TEXT_BYTES).decode("utf-8", "replace").casefold()
            for part in dataset.parts(number)
            if media_type(part.name).startswith("text/")
        )
    except EnergonError:
        return False
