"""Keep the columns of a dataset right when it is prepared again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ...errors import EnergonError
from ...storage import Storage
from ..index.layout import ShardEntry
from ..index.npy_column import NUMBERS, ColumnReader, create_column
from ..index.publish import STAGING
from .column import write_again
from .column_files import column_names, column_path, read_record, shards_digest

_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedColumns:
    """The columns or filters of a dataset for its next index.

    Attributes:
        renames: Pairs (staged file, final name).
        removals: Files of those that the next index cannot have.
        warnings: One for each of these.
    """

    renames: tuple[tuple[str, str], ...] = ()
    removals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __add__(self, other: CarriedColumns) -> CarriedColumns:
        return CarriedColumns(
            renames=self.renames + other.renames,
            removals=self.removals + other.removals,
            warnings=self.warnings + other.warnings,
        )


def carry_columns(
    storage: Storage, work: Storage, *, earlier: Sequence[ShardEntry], now: Sequence[ShardEntry]
) -> CarriedColumns:
    """Stage the values of all columns in the order of the next index; drop columns that lack values.

    Args:
        storage: The dataset.
        work: Its staging folder.
        earlier: Shards of the current index; empty if there is none.
        now: Shards of the next index.
    """
    names = column_names(storage)
    if not names or [*map(shard_version, earlier)] == [*map(shard_version, now)]:
        return CarriedColumns()
    rows = {shard_version(shard): range(shard.first_sample, shard.first_sample + shard.samples) for shard in earlier}
    changed = sum(shard_version(shard) not in rows for shard in now)
    renames: list[tuple[str, str]] = []
    removals: list[str] = []
    warnings: list[str] = []
    for name in names:
        if not earlier and _is_of(storage, name, now):
            continue  # written before the first prepare, by who wrote the shards
        reason = f"{changed:,} of {len(now):,} shards are new or changed" if changed else None
        try:
            if reason is None and read_record(storage, name).shards != shards_digest(earlier):
                reason = "it was written for other shards"
            if reason is None:
                _stage(storage, work, name, [rows[shard_version(shard)] for shard in now], shards_digest(now))
        except EnergonError as error:
            reason = error.message
        if reason is None:
            renames += [(f"{STAGING}/columns/{name}{end}", column_path(name, end)) for end in (".npy", ".json")]
        else:
            removals += [column_path(name, end) for end in (".json", ".npy")]
            warnings.append(f"column {name!r} was dropped: {reason}; {write_again(storage, name)}")
    return CarriedColumns(renames=tuple(renames), removals=tuple(removals), warnings=tuple(warnings))


def _is_of(storage: Storage, name: str, shards: Sequence[ShardEntry]) -> bool:
    try:
        return read_record(storage, name).shards == shards_digest(shards)
    except EnergonError:
        return False


def shard_version(shard: ShardEntry) -> tuple[str, int, int, int, str]:
    """Return a value that differs for a shard that was changed."""
    return shard.name, shard.samples, shard.size_bytes, shard.mtime_ns, shard.etag


def _stage(storage: Storage, work: Storage, name: str, rows: Sequence[range], digest: str) -> None:
    """Write the files of a column with some rows of the current one."""
    record = read_record(storage, name)
    with ColumnReader(storage, column_path(name, ".npy"), accepted=NUMBERS) as reader:
        dtype = reader[0:0].dtype.str
        with create_column(work, f"{STAGING}/columns/{name}.npy", dtype, durable=False) as column:
            for some in rows:
                for start in range(some.start, some.stop, _ROWS_AT_ONCE):
                    column.append(reader[start : min(start + _ROWS_AT_ONCE, some.stop)])
    record = msgspec.structs.replace(record, samples=sum(map(len, rows)), shards=digest)
    with work.create(f"{STAGING}/columns/{name}.json", durable=False) as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2))
