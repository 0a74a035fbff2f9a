"""Read the parts of one sample from its shard, after a check that the shard has not changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ...accounting.large_parts import HEAD_BYTES, LargePart, is_too_large, limit_parts
from ...errors import FormatError
from ...escaped_log import get_logger
from ...storage import ReadableFile, Storage
from ..nv_meta import outdated
from ..tar.header import BLOCK, check_header, header_name, header_size
from ..tar.names import decode_name, printable
from .dataset_index import DatasetIndex, PartLocation
from .layout import ShardEntry

_log = get_logger(__name__)


def open_fresh_shard(storage: Storage, index: DatasetIndex, shard: ShardEntry) -> ReadableFile:
    """Open a shard and check that it is the indexed one.

    A copy of a file has another time of change, so another time alone is no fault: the first and the last header are
    then compared with the index. The first such shard of a dataset is logged as a warning, the others at debug level,
    because a copied dataset may have 50,000 of them.
    """
    path = storage.path(shard.name)
    now = storage.current(shard.info)
    if now.size_bytes != shard.size_bytes:
        message = f"the shard has changed since it was indexed: it had {shard.size_bytes} bytes, now {now.size_bytes}"
        raise outdated(message, path)
    file = storage.open(shard.name, now)
    if shard.samples and shard.was_touched(now):
        try:
            samples = index.samples_of(shard)
            for sample, part in ((samples[0], 0), (samples[-1], -1)):
                _check_header_of(file, path, index.key(sample), index.parts(sample)[part], plain=shard.plain)
        except FormatError:
            file.close()
            raise
        _report_touched(index, shard.name, path)
    return file


_touched: dict[str, set[str]] = {}  # the touched shards that this process has opened, by index; global, like the log


def _report_touched(index: DatasetIndex, name: str, path: str) -> None:
    shards = _touched.setdefault(index.path, set())
    if name in shards:
        return  # reported when it was opened before
    shards.add(name)
    message = f"{printable(path)} was touched or copied since it was indexed; its first and last headers are as indexed"
    if len(shards) == 1:
        _log.warning("%s (more such shards of this dataset are logged at debug level)", message)
    else:
        _log.debug("%s; %d shards of this dataset so far", message, len(shards))


def _check_header_of(file: ReadableFile, path: str, key: str, part: PartLocation, *, plain: bool) -> None:
    offset = part.offset - BLOCK
    header = file.read_at(offset, BLOCK)
    check_header(header, shard=path, offset=offset)
    name, expected = decode_name(header_name(header)), f"{key}.{part.name}"
    # In shards that are not plain, a PAX or GNU header may have renamed the member.
    size = header_size(header, shard=path, offset=offset)
    if plain and (name, size) != (expected, part.size_bytes):
        raise outdated(
            "the shard has changed since it was indexed: expected the header of "
            f"{expected!r}, {part.size_bytes} bytes; found {name!r}, {size} bytes",
            path,
            offset,
        )


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
            :class:`~loader.accounting.large_parts.LargePart`; None reads all parts whole.

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
    for run in _runs(sorted(wanted, key=lambda part: part.offset)):
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
