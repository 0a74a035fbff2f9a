"""Keep the filters of a dataset right when it is prepared again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...errors import EnergonError
from ...storage import ReadableFile, Storage
from ..columns.carry import CarriedColumns, shard_version
from ..index.layout import ShardEntry
from ..index.publish import STAGING
from .files import NUMBER, FilterFiles, filter_names


def carry_filters(
    storage: Storage, work: Storage, *, earlier: Sequence[ShardEntry], now: Sequence[ShardEntry]
) -> CarriedColumns:
    """Stage all filters for the next index: kept samples move with their shards; drop filters of changed shards.

    Args:
        storage: The dataset.
        work: Its staging folder.
        earlier: Shards of the current index; empty if there is none.
        now: Shards of the next index.
    """
    names = filter_names(storage)
    if not names or [*map(shard_version, earlier)] == [*map(shard_version, now)]:
        return CarriedColumns()
    known = {shard_version(shard): shard for shard in earlier}
    changed = sum(shard_version(shard) not in known for shard in now)
    renames: list[tuple[str, str]] = []
    removals: list[str] = []
    warnings: list[str] = []
    for name in names:
        files = FilterFiles.of_dataset(storage, name)
        if not earlier and _is_of(files, now):
            continue  # written before the first prepare, by who wrote the shards
        reason = f"{changed:,} of {len(now):,} shards are new or changed" if changed else None
        if reason is None:
            try:
                _stage(files, work, earlier=earlier, now=now)
            except EnergonError as error:
                reason = error.message
        if reason is None:
            staged = _staged(work, name).prefix
            renames += [(f"{staged}{end}", f"{files.prefix}{end}") for end in (".idx", ".json")]
        else:
            removals += [f"{files.prefix}{end}" for end in (".json", ".idx")]
            warnings.append(
                f"filter {name!r} was dropped: {reason}; build it again: energon exclude --to-filter {name}"
            )
        backups = (f"{files.prefix}{end}.bak" for end in (".json", ".idx"))
        removals += [backup for backup in backups if storage.exists(backup)]  # of other positions
    return CarriedColumns(renames=tuple(renames), removals=tuple(removals), warnings=tuple(warnings))


def _is_of(files: FilterFiles, shards: Sequence[ShardEntry]) -> bool:
    try:
        counts = files.read_counts()
    except EnergonError:
        return False
    return [*counts] == [shard.name for shard in shards] and all(
        counts[shard.name] <= shard.samples for shard in shards
    )


def _staged(work: Storage, name: str) -> FilterFiles:
    return FilterFiles(work, name, f"{STAGING}/filters/{name}")


def _stage(files: FilterFiles, work: Storage, *, earlier: Sequence[ShardEntry], now: Sequence[ShardEntry]) -> None:
    """Write the files of a filter with the kept samples in the order of the next index.

    Raises:
        FormatError: The filter is damaged, or of other shards.
    """
    counts = files.read_counts()
    if [*counts] != [shard.name for shard in earlier]:
        raise files.damaged("it was built for other shards")
    rows: dict[str, npt.NDArray[np.int64]] = {}
    with files.storage.open(f"{files.prefix}.idx") as file:
        if file.size_bytes != sum(counts.values()) * NUMBER.itemsize:
            raise files.damaged("its files are of different filters")
        start = 0
        for shard in earlier:
            rows[shard.name] = _numbers(file, start, counts[shard.name]) - shard.first_sample
            start += counts[shard.name]
    _staged(work, files.name).write(
        {shard.name: len(rows[shard.name]) for shard in now},
        (rows[shard.name] + shard.first_sample for shard in now),
    )


def _numbers(file: ReadableFile, start: int, count: int) -> npt.NDArray[np.int64]:
    size = NUMBER.itemsize
    return np.frombuffer(file.read_at(start * size, count * size), NUMBER).astype(np.int64)
