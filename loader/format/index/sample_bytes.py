"""Is a shard still the file that was indexed? Asked when it is first opened, never for all shards at the start."""

from __future__ import annotations

import logging

from ..errors import FormatError
from ..storage import ReadableFile, Storage
from .dataset_index import DatasetIndex, PartLocation
from .index_layout import ShardEntry
from .member_name import decode_name, printable
from .tar_header import BLOCK, check_header, header_name, header_size

__all__ = ["open_fresh_shard"]

_log = logging.getLogger(__name__)
_PREPARE_AGAIN = "run energon prepare again on this dataset"


def open_fresh_shard(storage: Storage, index: DatasetIndex, shard: ShardEntry) -> ReadableFile:
    """Open a shard for reading by the index.

    Every copy of a file changes its time, so another time alone is no fault: the first and the last header are then
    compared with the index. A warning says so for the first such shard of a dataset, and debug-level lines count the
    others: a copied dataset may have 50,000 of them.

    Raises:
        FormatError: The size is not what it was, or a header is not where the index has it.
        StorageError: The shard is missing or cannot be read.
    """
    path = storage.path(shard.name)
    now = storage.stat(shard.name)
    if now.size_bytes != shard.size_bytes:
        raise FormatError(
            f"the shard has changed since it was indexed: it had {shard.size_bytes} bytes, now {now.size_bytes}",
            shard=path,
            do=_PREPARE_AGAIN,
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
"""The touched shards that this process has opened, by index: the log is the process's, too."""


def _report_touched(index: DatasetIndex, name: str, path: str) -> None:
    shards = _touched.setdefault(index.path, set())
    if name in shards:
        return  # it had been closed, to keep fewer open
    shards.add(name)
    found = f"{printable(path)} was touched or copied since it was indexed; its first and last headers are as indexed"
    if len(shards) == 1:
        _log.warning("%s (more such shards of this dataset are logged at debug level)", found)
    else:
        _log.debug("%s; %d shards of this dataset so far", found, len(shards))


def _check_header_of(file: ReadableFile, path: str, key: str, part: PartLocation, *, plain: bool) -> None:
    offset = part.offset - BLOCK
    header = file.read_at(offset, BLOCK)
    check_header(header, shard=path, offset=offset)
    name, expected = decode_name(header_name(header)), f"{key}.{part.name}"
    # A PAX or GNU header may have given the member another name than its own header says.
    size = header_size(header, shard=path, offset=offset)
    if plain and (name, size) != (expected, part.size_bytes):
        raise FormatError(
            "the shard has changed since it was indexed: expected the header of "
            f"{expected!r}, {part.size_bytes} bytes; found {name!r}, {size} bytes",
            shard=path,
            offset=offset,
            do=_PREPARE_AGAIN,
        )
