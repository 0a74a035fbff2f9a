"""Open a shard, and notice that it has changed since it was indexed."""

from __future__ import annotations

from ...errors import FormatError
from ...escaped_log import get_logger
from ...storage import ReadableFile, Storage
from ..nv_meta import outdated
from ..tar.header import BLOCK
from ..tar.names import decode_name, printable
from .checked_parts import parse_header
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
    file = storage.open(shard.name, shard.info)
    if file.size_bytes != shard.size_bytes:
        file.close()
        message = f"the shard has changed since it was indexed: it had {shard.size_bytes} bytes, now {file.size_bytes}"
        raise outdated(message, path)
    if shard.samples and shard.was_touched(file.info):
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
    found, size = parse_header(file.read_at(offset, BLOCK), path, offset)
    name, expected = decode_name(found), f"{key}.{part.name}"
    # In shards that are not plain, a PAX or GNU header may have renamed the member.
    if plain and (name, size) != (expected, part.size_bytes):
        raise outdated(
            "the shard has changed since it was indexed: expected the header of "
            f"{expected!r}, {part.size_bytes} bytes; found {name!r}, {size} bytes",
            path,
            offset,
        )
