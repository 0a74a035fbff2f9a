"""What ``index/<uuid>/layout.json`` says: the shards as they were when indexed, and the part names."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated

import msgspec

from ..errors import FormatError
from .shard_name import check_shard_names

__all__ = [
    "COLUMNS",
    "LAYOUT_VERSION",
    "Layout",
    "PartStats",
    "ShardEntry",
    "decode_layout",
    "encode_layout",
    "layout_warnings",
]

LAYOUT_VERSION = 1

_Count = Annotated[int, msgspec.Meta(ge=0)]

_WARNINGS_SHOWN = 10
_MANY_PARTS = 50  # more parts a sample than this are probably not meant

COLUMNS = {
    # Per sample: where its parts' rows end, where its key ends.
    "part_ends": "<u8",
    "key_ends": "<u8",
    "key_bytes": "<u1",
    # Per part, those of one sample behind each other.
    "part_name": "<u4",  # number in Layout.part_names
    "part_offset": "<u4",  # of the contents, in blocks of 512 bytes
    "part_size": "<u8",  # bytes
    # The table that finds keys: ascending hashes, and the sample of each.
    "key_hash": "<u8",
    "key_sample": "<u8",
}
"""Columns of the index and their types."""


class ShardEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A shard as it was when indexed."""

    name: str
    size_bytes: _Count
    mtime_ns: int
    samples: _Count
    first_sample: _Count
    end_offset: _Count  # of the archive: where its empty blocks start
    plain: bool  # each sample starts with the header of its first part: no PAX or GNU headers, no scattered parts
    scattered: int = 0  # samples whose parts are not neighbours
    misread: int = 0  # hidden members of folders, of which other tools make samples
    warnings: tuple[str, ...] = ()


class PartStats(msgspec.Struct, frozen=True, kw_only=True):
    """How often a part name occurs in the dataset, and how large its parts are."""

    name: str
    parts: _Count
    total_bytes: _Count
    median_bytes: _Count  # over evenly spaced parts where there are very many


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about an index that are no columns."""

    version: int
    samples: _Count
    parts: _Count
    shards: tuple[ShardEntry, ...]
    part_stats: tuple[PartStats, ...]
    duplicate_keys: _Count  # samples whose key an earlier sample has
    prepared_by: str
    prepared_at: str

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(stats.name for stats in self.part_stats)


def encode_layout(layout: Layout) -> bytes:
    """Write a layout as JSON."""
    # The standard library's encoder escapes names that are no UTF-8; msgspec's refuses them.
    return json.dumps(msgspec.to_builtins(layout), indent=1).encode("ascii")


def decode_layout(data: bytes, *, file: str) -> Layout:
    """Read a layout.

    Raises:
        FormatError: It is no layout, or one of another version.
    """
    try:
        with suppress(msgspec.DecodeError, RecursionError):  # what is wrong is said below, where all names are read
            layout = msgspec.json.decode(data, type=Layout)
            if layout.version == LAYOUT_VERSION:
                _check_shards(layout)
                return layout
        values = json.loads(data)
        version = values.get("version") if isinstance(values, dict) else None
        if version == LAYOUT_VERSION:
            layout = msgspec.convert(values, Layout)
            _check_shards(layout)
            return layout
        found = f"expected an index layout of version {LAYOUT_VERSION}, found {str(version)[:40]!r}"
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        found = f"not an index layout: {error}"
    raise FormatError(found, shard=file, do="run energon prepare again on this dataset")


def _check_shards(layout: Layout) -> None:
    check_shard_names(shard.name for shard in layout.shards)
    first = 0
    for shard in layout.shards:
        if shard.first_sample != first:
            raise ValueError(f"expected {shard.name} to start at sample {first}, found {shard.first_sample}")
        first += shard.samples
    if first != layout.samples:
        raise ValueError(f"expected {layout.samples} samples, found {first} in the shards")


def layout_warnings(layout: Layout) -> list[str]:
    """Say what is odd about a dataset but harmless, or probably not meant."""
    warnings = []
    empty = [shard.name for shard in layout.shards if not shard.samples]
    if empty:
        warnings.append(f"{len(empty)} shards hold no samples, first {empty[0]}")
    noted = [(shard.name, warning) for shard in layout.shards for warning in shard.warnings]
    warnings += [f"{name}: {warning}" for name, warning in noted[:_WARNINGS_SHOWN]]
    if len(noted) > _WARNINGS_SHOWN:
        warnings.append(f"and {len(noted) - _WARNINGS_SHOWN} more such warnings (energon lint lists all)")
    scattered = sum(shard.scattered for shard in layout.shards)
    if scattered:
        warnings.append(
            f"the parts of {scattered} samples are not neighbours in their shard: reading them takes longer"
        )
    if layout.duplicate_keys:
        warnings.append(
            f"{layout.duplicate_keys} samples repeat the key of a sample in another shard: "
            "look-up by bare key finds several (energon prepare --fix-duplicates renames them)"
        )
    if layout.parts > _MANY_PARTS * layout.samples:
        warnings.append(
            f"there are {layout.parts // layout.samples} parts a sample: do the file names have a dot too many? "
            "The key ends at the first dot"
        )
    return warnings
