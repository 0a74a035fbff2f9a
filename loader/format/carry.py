"""Carry the columns and filters of datasets to one that has their samples in another order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ..arrays import IntArray
from ..errors import ConfigError, EnergonError, plural
from ..storage import Storage
from .columns.column import Column
from .columns.column_files import Block, read_column, staged_files, write_column_files
from .columns.column_record import DATA_EXTENSIONS, column_names, read_record, shards_digest, write_again
from .filters.rows import FilteredShard, FilterFiles, FilterRows, filter_names
from .index.layout import ShardEntry
from .index.publish import STAGING
from .nv_meta import COLUMNS_FOLDER, FOLDER

_SAMPLES_AT_ONCE = 1 << 20
_BYTES_AT_ONCE = 1 << 26  # of vectors, or of texts

# Write the files of a column or filter, whose names without the extensions it takes.
Write = Callable[[Storage, str], None]


@dataclass(frozen=True, slots=True, eq=False)
class OldDataset:
    """A dataset whose samples a new one has."""

    path: str  # for messages
    storage: Storage
    shards: Sequence[ShardEntry]  # the shards of its index


@dataclass(frozen=True, slots=True, eq=False)
class NewOrder:
    """The samples of old datasets in the order of a new one."""

    datasets: Sequence[OldDataset]
    # position of an old dataset, and numbers of its samples: run after run, the samples of the new one
    runs: Sequence[tuple[int, range | IntArray]]
    shards: Sequence[ShardEntry]  # the shards of the new dataset

    @property
    def samples(self) -> int:
        return sum(shard.samples for shard in self.shards)

    def blocks(self, count: int = _SAMPLES_AT_ONCE) -> Iterator[tuple[int, IntArray]]:
        """Yield the runs in pieces of at most ``count`` samples, which take little memory."""
        for dataset, samples in self.runs:
            for start in range(0, len(samples), count):
                piece = samples[start : start + count]
                yield (
                    dataset,
                    np.arange(piece.start, piece.stop) if isinstance(piece, range) else np.asarray(piece, np.int64),
                )


@dataclass(frozen=True, slots=True, eq=False)
class CarriedKind:
    """Columns, or filters."""

    word: str  # what one of them is called
    names: Callable[[Storage], list[str]]  # lists those of a dataset
    prefix: str  # begin of the names of their files
    extensions: tuple[str, ...]  # of the files of values, the first of which each has; next to them is a ``.json`` file
    read: Callable[[NewOrder, str], Write]  # reads one of all old datasets
    # whether the one of a dataset was written for some shards
    is_of: Callable[[Storage, str, Sequence[ShardEntry]], bool]
    again: Callable[[Storage, str], str]  # the line that writes one again


@dataclass(frozen=True, slots=True, eq=False)
class CarriedValues:
    """A column or filter of the new dataset."""

    kind: CarriedKind
    name: str
    write: Write | str  # writes its files; or the reason why it cannot be carried

    @property
    def stem(self) -> str:
        """Names of its files in a dataset, without their extensions."""
        return f"{self.kind.prefix}{self.name}"

    @property
    def warning(self) -> str:
        return f"{self.kind.word} {self.name!r} was dropped: {self.write}"


def carried_values(order: NewOrder) -> Iterator[CarriedValues]:
    """Yield the columns, then the filters, that an old dataset has; those that all have can be written."""
    for kind in (COLUMNS, FILTERS):
        names = [kind.names(dataset.storage) for dataset in order.datasets]
        for name in sorted({name for some in names for name in some}):
            lacking = [old.path for old, some in zip(order.datasets, names, strict=True) if name not in some]
            try:
                write: Write | str = f"{lacking[0]} has no such {kind.word}" if lacking else kind.read(order, name)
            except EnergonError as error:
                write = error.message.replace(f"the record of {kind.word} {name!r}", "its record")
                write = write.replace(f"{kind.word} {name!r}", "it", 1)  # the warning begins with the name
            yield CarriedValues(kind, name, write)


@dataclass(slots=True)
class Carried:
    """The columns and filters that a new dataset takes over."""

    columns: list[str] = field(default_factory=list)  # names of the columns
    filters: list[str] = field(default_factory=list)  # names of the filters
    warnings: list[str] = field(default_factory=list)  # one for each column and filter that could not be carried

    def write(self, order: NewOrder, storage: Storage, *, without_filters: Collection[str] = ()) -> None:
        """Write what all old datasets have to the new one, without some of the filters."""
        for values in carried_values(order):
            if values.kind is FILTERS and values.name in without_filters:
                continue
            if isinstance(values.write, str):
                self.warnings.append(values.warning)
            else:
                values.write(storage, values.stem)
                (self.columns if values.kind is COLUMNS else self.filters).append(values.name)


def _new_column(order: NewOrder, name: str) -> Write:
    columns = [read_column(dataset.storage, dataset.shards, name) for dataset in order.datasets]
    _check_alike(columns, order.datasets)
    for column in columns:
        column.check(reads_values=False)
    # Texts get positions in the list of all texts.
    texts = tuple(dict.fromkeys(text for column in columns for text in column.record.categories))
    # The joined column must hold the values of all datasets, and the codes of all texts.
    dtype = np.result_type(*(column.values.dtype for column in columns))
    if texts and len(columns) > 1:
        dtype = np.result_type(dtype, np.min_scalar_type(len(texts)))
    record = msgspec.structs.replace(
        columns[0].record,
        samples=order.samples,
        shards=shards_digest(order.shards),
        categories=texts,
        has_mask=any(column.record.has_mask for column in columns),
    )

    def blocks() -> Iterator[Block]:
        for dataset, samples in _pieces(order, columns):
            valid = columns[dataset].valid if record.has_mask else None
            known = np.ones(len(samples), np.bool_) if valid is None else valid[samples].view(np.uint8) != 0
            yield columns[dataset].stored(samples, texts), known

    return lambda storage, stem: write_column_files(storage, stem, record, dtype, blocks())


def _pieces(order: NewOrder, columns: Sequence[Column]) -> Iterator[tuple[int, IntArray]]:
    """Yield pieces of the runs whose values take little memory."""
    for dataset, samples in order.blocks(columns[0].rows_at_once):
        block = np.cumsum(columns[dataset].stored_bytes(samples)) // _BYTES_AT_ONCE
        for piece in np.split(samples, np.flatnonzero(np.diff(block)) + 1):
            yield dataset, piece


def _check_alike(columns: Sequence[Column], datasets: Sequence[OldDataset]) -> None:
    """Raise a ``ConfigError`` with the reason why the values of columns cannot be one column."""
    first = columns[0].traits
    for column, dataset in zip(columns, datasets, strict=True):
        for what, value in column.traits.items():
            if value != first.get(what):
                expected = first.get(what)
                raise ConfigError(
                    f"{what} differs: {expected!r} in {datasets[0].path}, {value!r} in {dataset.path}", at=dataset.path
                )


def _new_filter(order: NewOrder, name: str) -> Write:
    filters = [_open_filter(dataset, name) for dataset in order.datasets]
    names = [shard.name for shard in order.shards]
    stops = np.cumsum([shard.samples for shard in order.shards])

    def write(storage: Storage, stem: str) -> None:
        counts = dict.fromkeys(names, 0)

        def blocks() -> Iterator[IntArray]:
            start = 0
            for dataset, samples in order.blocks():
                kept = np.flatnonzero(filters[dataset].keeps(samples)) + start
                shards, numbers = np.unique(stops.searchsorted(kept, side="right"), return_counts=True)
                for shard, count in zip(shards.tolist(), numbers.tolist(), strict=True):
                    counts[names[shard]] += count
                start += len(samples)
                yield kept

        FilterFiles(storage, name, stem).write(counts, blocks())  # the counts are written after the blocks

    return write


def _open_filter(dataset: OldDataset, name: str) -> FilterRows:
    files = FilterFiles.of_dataset(dataset.storage, name)
    # The order of the shards is that of .info.json, which the index may not have.
    shards = {shard.name: FilteredShard(shard.name, shard.samples, shard.first_sample) for shard in dataset.shards}
    names = [shard for shard in files.read_counts() if shard in shards]
    rows = FilterRows(files, [shards[shard] for shard in dict.fromkeys([*names, *shards])])
    rows.check()
    return rows


# ------------------------------------------------------------------------------------------- the next index


@dataclass(frozen=True, slots=True, kw_only=True)
class NextValues:
    """The columns and filters of a dataset for its next index."""

    renames: tuple[tuple[str, str], ...] = ()  # pairs (staged file, final name)
    removals: tuple[str, ...] = ()  # files of columns and filters that the next index cannot have
    warnings: tuple[str, ...] = ()  # one for each column and filter that is removed


def carry_to_next_index(
    storage: Storage, work: Storage, *, earlier: Sequence[ShardEntry], now: Sequence[ShardEntry]
) -> NextValues:
    """Stage all columns and filters in the order of the next index; drop those that lack values of new shards.

    Args:
        earlier: Shards of the current index; empty if there is none.
    """
    # Find the samples of unchanged shards, run by run.
    rows = {_version(shard): range(shard.first_sample, shard.first_sample + shard.samples) for shard in earlier}
    if [*rows] == [*map(_version, now)]:
        return NextValues()
    runs = [(0, rows[_version(shard)]) for shard in now if _version(shard) in rows]
    changed = len(now) - len(runs)
    # Values of new shards are not known: then no column and filter can be carried.
    every: Iterator[CarriedValues]
    if changed:
        reason = f"{changed:,} of {plural(len(now), 'shard is', 'shards are')} new or changed"
        every = (CarriedValues(kind, name, reason) for kind in (COLUMNS, FILTERS) for name in kind.names(storage))
    else:
        every = carried_values(NewOrder([OldDataset(storage.path(""), storage, earlier)], runs, now))
    # Stage what can be carried, and list the files of the others for removal.
    renames: list[tuple[str, str]] = []
    removals: list[str] = []
    warnings: list[str] = []
    for values in every:
        kind, name, final = values.kind, values.name, values.stem
        removals += staged_files(storage, final) if kind is COLUMNS else []
        if not earlier and kind.is_of(storage, name, now):
            continue  # written before the first prepare, by who wrote the shards
        if isinstance(values.write, str):
            further = [end for end in kind.extensions[1:] if storage.exists(f"{final}{end}")]
            removals += [f"{final}{end}" for end in (".json", kind.extensions[0], *further)]
            warnings.append(f"{values.warning}; {kind.again(storage, name)}")
        else:
            staged = f"{STAGING}/{kind.word}s/{name}"
            values.write(work, staged)
            written = [end for end in kind.extensions if work.exists(f"{staged}{end}")]
            # The record of a column first: its digest keeps readers of the earlier order from the new values.
            ends = (".json", *written) if kind is COLUMNS else (*written, ".json")
            renames += [(f"{staged}{end}", f"{final}{end}") for end in ends]
            # A mask is gone with the samples that it marked.
            stale = [end for end in kind.extensions if end not in written]
            removals += [f"{final}{end}" for end in stale if storage.exists(f"{final}{end}")]
        backups = (f"{final}{end}.bak" for end in (".json", *kind.extensions))
        removals += [backup for backup in backups if kind is FILTERS and storage.exists(backup)]  # of other positions
    return NextValues(renames=tuple(renames), removals=tuple(removals), warnings=tuple(warnings))


def _version(shard: ShardEntry) -> tuple[str, int, int, int, str]:
    """Return a value that differs for a shard that was changed."""
    return shard.name, shard.samples, shard.size_bytes, shard.mtime_ns, shard.etag


def _is_column_of(storage: Storage, name: str, shards: Sequence[ShardEntry]) -> bool:
    try:
        return read_record(storage, name).shards == shards_digest(shards)
    except EnergonError:
        return False


def _is_filter_of(storage: Storage, name: str, shards: Sequence[ShardEntry]) -> bool:
    try:
        counts = FilterFiles.of_dataset(storage, name).read_counts()
    except EnergonError:
        return False
    samples = {shard.name: shard.samples for shard in shards}
    return [*counts] == [*samples] and all(counts[shard] <= samples[shard] for shard in samples)


def _build_again(_storage: Storage, name: str) -> str:
    return f"build it again: energon exclude --to-filter {name}"


COLUMNS = CarriedKind(
    "column", column_names, f"{COLUMNS_FOLDER}/", DATA_EXTENSIONS, _new_column, _is_column_of, write_again
)
FILTERS = CarriedKind("filter", filter_names, f"{FOLDER}/filter_", (".idx",), _new_filter, _is_filter_of, _build_again)
