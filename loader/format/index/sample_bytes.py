"""Read the parts of one sample from its shard."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter

from ...escaped_log import get_logger
from ...parts.large_parts import HEAD_BYTES, LargePart, is_too_large, limit_parts
from ...storage import ReadableFile
from ..nv_meta import outdated
from .dataset_index import PartLocation

_log = get_logger(__name__)


_MAX_GAP = 64 * 1024  # smaller gaps between parts are read over: a second read costs more
_MAX_SHARED_BYTES = 16 << 20  # of a read of several parts, whose bytes are in memory twice while they are cut out of it


def read_sample(
    file: ReadableFile,
    locations: Sequence[PartLocation],
    *,
    shard: str,
    names: Collection[str] | None = None,
    max_json_bytes: int | None = None,
) -> dict[str, bytes]:
    """Read the parts of a sample; neighbouring parts in one read.

    Args:
        names: Names of the parts to read; None for all.
        max_json_bytes: Of larger JSON parts only the first bytes are read, as a
            :class:`~loader.parts.large_parts.LargePart`; None reads all parts whole.

    Returns:
        Part name → bytes, in the order of ``locations``.
    """
    wanted = [part for part in locations if names is None or part.name in names]
    if max_json_bytes is None:
        return _read_whole(file, wanted, shard)
    large = {
        part.name: LargePart(
            part.size_bytes, max_json_bytes, file.read_at(part.offset, min(part.size_bytes, HEAD_BYTES))
        )
        for part in wanted
        if is_too_large(part.name, part.size_bytes, max_json_bytes)
    }
    whole = _read_whole(file, [part for part in wanted if part.name not in large], shard)
    return limit_parts({part.name: large.get(part.name) or whole[part.name] for part in wanted}, max_json_bytes)


def _read_whole(file: ReadableFile, wanted: Sequence[PartLocation], shard: str) -> dict[str, bytes]:
    contents: dict[PartLocation, bytes] = {}
    for run in _runs(sorted(wanted, key=attrgetter("offset"))):
        start, end = run[0].offset, max(part.offset + part.size_bytes for part in run)
        data = file.read_at(start, end - start)
        for part in run:
            content = data[part.offset - start : part.offset - start + part.size_bytes]
            if len(content) != part.size_bytes:
                raise outdated(
                    f"part {part.name!r} has {part.size_bytes} bytes in the index, "
                    f"the shard ends after {len(content)} of them",
                    shard,
                    part.offset,
                )
            contents[part] = content
    return {part.name: contents[part] for part in wanted}


def _runs(parts: Sequence[PartLocation]) -> Iterator[list[PartLocation]]:
    """Split ascending parts into runs without large gaps and large parts."""
    run: list[PartLocation] = []
    end = 0
    for part in parts:
        if run and (part.offset > end + _MAX_GAP or end + part.size_bytes - run[0].offset > _MAX_SHARED_BYTES):
            yield run
            run = []
        run.append(part)
        end = max(end, part.offset + part.size_bytes)
    if run:
        yield run
