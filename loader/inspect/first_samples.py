"""A quick look at a folder of shards, so that questions can be asked before everything is scanned."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.errors import EnergonError
from loader.format.documents.part_kinds import part_extension
from loader.format.tar.names import decode_name, split_member_name
from loader.format.tar.scan import TarScan
from loader.storage import Storage

__all__ = ["Look", "look_at_samples"]

_MAX_SAMPLES = 500
_MAX_SHARDS_TRIED = 3  # a damaged first shard must not hide what the others hold
_MAX_PART_BYTES = 256 * 1024 * 1024  # of the one sample that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the first samples are like.

    Args:
        samples: How many were looked at.
        part_counts: In how many of them each part name occurs, in order of first occurrence.
        key: The first sample's key, ``<shard>/<key>``.
        parts: The first sample's parts.
        json_example: The decoded ``json`` part of the first sample that has a readable one.
        fault: Why there was nothing to look at.
    """

    samples: int = 0
    part_counts: Mapping[str, int] = field(default_factory=dict)
    key: str = ""
    parts: Mapping[str, bytes] = field(default_factory=dict)
    json_example: Mapping[str, Any] | None = None
    fault: str | None = None

    @property
    def part_names(self) -> list[str]:
        """Part names, the most frequent first."""
        return sorted(self.part_counts, key=lambda name: -self.part_counts[name])


def look_at_samples(storage: Storage, shards: Sequence[str]) -> Look:
    """Look at the first samples of the first shard that can be read.

    A shard that cannot be read is no error here: the scan that follows reports every one of them, with its place.
    """
    fault: str | None = None
    for shard in shards[:_MAX_SHARDS_TRIED]:
        try:
            look = _look_at_shard(storage, shard)
        except EnergonError as error:
            fault = fault or error.message
            continue
        if look.samples:
            return look
    return Look(fault=fault)


def _look_at_shard(storage: Storage, shard: str) -> Look:
    with storage.open(shard) as file:
        samples: dict[str, dict[str, tuple[int, int]]] = {}  # key → part name → offset and size
        batch = next(iter(TarScan(file, storage.path(shard))))
        rows = zip(batch.names.tolist(), batch.content_offset.tolist(), batch.size_bytes.tolist(), strict=True)
        for name, offset, size_bytes in rows:
            split = split_member_name(decode_name(name))
            if split is None:
                continue
            key, part_name = split
            if key not in samples and len(samples) == _MAX_SAMPLES:
                break
            samples.setdefault(key, {})[part_name] = (offset, size_bytes)
        if not samples:
            return Look()
        first_key, first_parts = next(iter(samples.items()))
        counts = Counter(part_name for parts in samples.values() for part_name in parts)
        return Look(
            samples=len(samples),
            part_counts=dict(counts),
            key=f"{shard}/{first_key}",
            parts={
                part_name: file.read_at(offset, size_bytes)
                for part_name, (offset, size_bytes) in first_parts.items()
                if size_bytes <= _MAX_PART_BYTES
            },
            json_example=_json_example(file.read_at, samples),
        )


def _json_example(read_at: Any, samples: Mapping[str, Mapping[str, tuple[int, int]]]) -> Mapping[str, Any] | None:
    for parts in list(samples.values())[:10]:
        for part_name, (offset, size_bytes) in parts.items():
            if part_extension(part_name) != "json" or part_name.endswith(".gz") or size_bytes > _MAX_PART_BYTES:
                continue
            try:
                document = json.loads(read_at(offset, size_bytes))
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict):
                return document
    return None
