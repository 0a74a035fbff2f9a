"""Read the parts of one sample from its shard, and check when opening a shard that it is the indexed one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence

from ...errors import FormatError
from ...storage import ReadableFile, Storage
from ..tar.header import BLOCK, check_header, header_name, header_size
from ..tar.names import decode_name, printable
from .dataset_index import DatasetIndex, PartLocation
from .layout import ShardEntry

__all__ = ["open_fresh_shard", "read_sample"]

_MAX_GAP = 64 * 1024  # smaller gaps between parts are read over: a second read costs more


def read_sample(
    file: ReadableFile, locations: Sequence[PartLocation], *, shard: str, names: Collection[str] | None = None
) -> dict[str, bytes]:
    """Read the parts of a sample; neighbouring parts in one read.

    Args:
        file: The open shard.
        locations: Locations of the parts.
        shard: Path of the shard, for messages.
        names: Names of the parts to read; None for all.

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
                    hint="run energon prepare again on this dataset",
                )
            found[part] = content
    return {part.name: found[part] for part in wanted}


def _runs(parts: Sequence[PartLocation]) -> Iterator[list[PartLocation]]:
    """Split ascending parts into runs without large gaps."""
    run: list[PartLocation] = []
    end = 0
    for part in parts:
        if run and part.offset > end + _MAX_GAP:
            yield run
            run = []
        run.append(part)
        end = max(end, part.offset + part.size_bytes)
    if run:
        yield run


def _end(run: Sequence[PartLocation]) -> int:
    return max(part.offset + part.size_bytes for part in run)


_log = logging.getLogger(__name__)
_PREPARE_AGAIN = "run energon prepare again on this dataset"


def open_fresh_shard(storage: Storage, index: DatasetIndex, shard: ShardEntry) -> ReadableFile:
    """Open a shard and check that it is the indexed one.

    A copy of a file has another time of change, so another time alone is no fault: the first and the last header are
    then compared with the index. The first such shard of a dataset is logged as a warning, the others at debug level,
    because a copied dataset may have 50,000 of them.

    Raises:
        FormatError: The size has changed, or a header is not where the index has it.
        StorageError: The shard is missing or cannot be read.
    """
    path = storage.path(shard.name)
    now = storage.stat(shard.name)
    if now.size_bytes != shard.size_bytes:
        raise FormatError(
            f"the shard has changed since it was indexed: it had {shard.size_bytes} bytes, now {now.size_bytes}",
            shard=path,
            hint=_PREPARE_AGAIN,
        )
    file = storage.open(shard.name)
    if now.mtime_ns != shard.mtime_ns and shard.samples:
        try:
            samples = index.samples_of(shard)
            for sample, part in ((samples[0], 0), (samples[-1], -1)):
                _check_header_of(file, path, index.key(sample), index.parts(sample)[part], plain=shard.plain)
        except FormatError:
            file.close()
            raise
        _report_touched(index, shard.name, path)
    return file


_touched: dict[str, set[str]] = {}
"""The touched shards that this process has opened, by index; global, like the log."""


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
        raise FormatError(
            "the shard has changed since it was indexed: expected the header of "
            f"{expected!r}, {part.size_bytes} bytes; found {name!r}, {size} bytes",
            shard=path,
            offset=offset,
            hint=_PREPARE_AGAIN,
        )
