"""The bytes of one sample's parts, read from its shard in as few reads as pay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..errors import FormatError
from ..storage import ReadableFile
from .dataset_index import PartLocation

__all__ = ["read_sample"]

_GAP = 64 * 1024  # read over gaps between parts up to this size: one read costs more


def read_sample(
    file: ReadableFile, locations: Sequence[PartLocation], *, shard: str, names: Collection[str] | None = None
) -> dict[str, bytes]:
    """Read the parts of a sample, those near each other in one piece.

    Args:
        file: The open shard.
        locations: Where the parts lie.
        shard: What messages call the shard.
        names: Which parts to read; None reads all.

    Returns:
        Part name → bytes, in the order of ``locations``.

    Raises:
        FormatError: The shard ends within a part.
    """
    wanted = [part for part in locations if names is None or part.name in names]
    found: dict[PartLocation, bytes] = {}
    for run in _runs(sorted(wanted, key=lambda part: part.offset)):
        start, end = run[0].offset, _end(run)
        data = file.read_at(start, end - start)
        for part in run:
            content = data[part.offset - start : part.offset - start + part.size_bytes]
            if len(content) != part.size_bytes:
                raise FormatError(
                    f"part {part.name!r} has {part.size_bytes} bytes in the index, "
                    f"the shard ends after {len(content)} of them",
                    shard=shard,
                    offset=part.offset,
                    do="run energon prepare again on this dataset",
                )
            found[part] = content
    return {part.name: found[part] for part in wanted}


def _runs(parts: Sequence[PartLocation]) -> Iterator[list[PartLocation]]:
    """Give runs of parts, ascending, with no large gap within a run."""
    run: list[PartLocation] = []
    end = 0
    for part in parts:
        if run and part.offset > end + _GAP:
            yield run
            run = []
        run.append(part)
        end = max(end, part.offset + part.size_bytes)
    if run:
        yield run


def _end(run: Sequence[PartLocation]) -> int:
    return max(part.offset + part.size_bytes for part in run)
