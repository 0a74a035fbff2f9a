"""A dataset, or tar shards that are not prepared: rows reference the bytes of the parts in the shards."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from ...arrays import IntArray
from ...dataset.dataset import Dataset
from ...dataset.opening import folder_at
from ...dataset.selection import Selection
from ...dataset.split_parts import samples_of_part
from ...dataset.tar import tar_index
from ...dataset.unprepared import find_tars
from ...engine import Account
from ...errors import ConfigError
from ...format.dataset_ref import DatasetRef
from ...format.documents.dataset_files import is_prepared
from ...format.index.dataset_index import DatasetIndex
from ...format.index.shard_index import ShardIndex, index_shard
from ...format.tar.names import is_outside_name, marked
from ...storage import FileInfo, open_storage
from ..rows.row import NO_SPLIT, PartRef, RangeRef, Row
from .source import ImportSource, Listing


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardSource(ImportSource):
    """The samples of a prepared dataset of tar shards, of a folder of such shards without metadata, or of one shard.

    Attributes:
        samples: Numbers of the samples, ascending, all with one of the kept parts; None for all. Only of prepared
            datasets.
        keep_parts: Only parts that match one of these patterns; empty for all.
        drop_parts: No parts that match one of these.
    """

    ref: DatasetRef
    samples: IntArray | None = None
    keep_parts: tuple[str, ...] = ()
    drop_parts: tuple[str, ...] = ()
    keeps_splits: bool = True
    kind: str = "dataset"

    @property
    def path(self) -> str:  # type: ignore[override]  # read-only, as the fields of all sources
        return self.ref.path

    def rows(self, listing: Listing) -> Iterator[Row]:
        if self.ref.find_meta().origin != "data" or is_prepared_dataset(self.path):
            yield from self._prepared(listing.account)
        else:
            yield from self._unprepared(listing.account)

    def _prepared(self, account: Account) -> Iterator[Row]:
        folder = folder_at(self.ref)
        index, storage = tar_index(folder), folder.storage
        self._check_patterns(index.part_names)
        splits = splits_of_samples(folder) if self.keeps_splits and folder.documents.split else None
        for shard in index.shards:
            first, stop = shard.first_sample, shard.first_sample + shard.samples
            if self.samples is None:
                numbers: Sequence[int] = range(shard.samples)
            else:
                # Find the chosen samples of this shard.
                low, high = np.searchsorted(self.samples, (first, stop)).tolist()
                numbers = (self.samples[low:high] - first).tolist()
            if not numbers:
                continue
            # A shard that has changed since it was indexed is an error before its rows are listed.
            folder.open_shard(shard).close()
            names = [] if splits is None else [splits.name(first + sample) or NO_SPLIT for sample in numbers]
            path, columns = storage.path(shard.name), index.shard_index(shard)
            yield from self._rows(columns, shard.info, path, numbers, names, account)

    def _unprepared(self, account: Account) -> Iterator[Row]:
        tars = find_tars(self.path)
        if tars.compressed:
            raise ConfigError(
                f"{tars.compressed[0]} is compressed, so that its samples cannot be read from the middle",
                at=self.path,
                hint=f"decompress the shards: energon prepare {self.path} --decompress",
            )
        seen: set[str] = set()
        # Scan each shard, and list its samples.
        for shard in tars.shards:
            index = index_shard(tars.storage, shard.name)
            seen.update(index.part_names)
            path = tars.storage.path(shard.name)
            yield from self._rows(index, shard, path, range(len(index.key_ends)), [], account)
        # A pattern that matches no part of any shard is an error.
        self._check_patterns(sorted(seen))

    def _check_patterns(self, names: Sequence[str]) -> None:
        kept_parts(names, keep=self.keep_parts, drop=self.drop_parts, at=self.path)

    def _rows(  # noqa: PLR0917 - called at two places
        self,
        index: ShardIndex,
        shard: FileInfo,
        path: str,
        numbers: Sequence[int],
        splits: Sequence[str],
        account: Account,
    ) -> Iterator[Row]:
        """Yield the rows of some samples of a shard; their parts are side by side, whatever lies between them there."""
        # Lists of Python are faster to index one by one than arrays.
        name, offset, size = index.part_name.tolist(), index.part_offset.tolist(), index.part_size.tolist()
        part_ends, key_ends, keys = index.part_ends.tolist(), index.key_ends.tolist(), index.key_bytes.tobytes()
        are_kept = [is_kept(part, keep=self.keep_parts, drop=self.drop_parts) for part in index.part_names]
        written = [*map(marked, index.part_names)]
        file, changed, short = os.fsencode(path), shard.version, marked(shard.name)
        for position, sample in enumerate(numbers):
            key = keys[key_ends[sample - 1] if sample else 0 : key_ends[sample]].decode("utf-8", "replace")
            parts: dict[str, PartRef] = {}
            for row in range(part_ends[sample - 1] if sample else 0, part_ends[sample]):
                if are_kept[name[row]]:
                    # Of two parts of one name the last one counts, as if the shard were unpacked.
                    part = written[name[row]]
                    if part in parts:
                        account.lose("parts", "L106", f"{short}/{key}.{part}", size_bytes=parts[part].size_bytes)
                    parts[part] = RangeRef(file, offset[row], size[row], changed)
            # Samples without a chosen part, or with a key that leads out of a folder, are counted as lost.
            if not parts or is_outside_name(key):
                account.lose("samples", "L121" if parts else "L113", f"{short}/{key}")
            else:
                split = splits[position] if splits else ""
                yield Row(key=key, parts=parts, origin=f"{short}/{key}", split=split)


def is_prepared_dataset(path: str) -> bool:
    """Return True if a path is a folder with the metadata of a dataset."""
    return not path.endswith(".tar") and is_prepared(open_storage(path))


_SAMPLES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSplits:
    """The split part of each sample.

    Attributes:
        number: Position of each sample's part in ``names``, shape (n,); -1 for none.
        overlapping: Number of samples that are in several parts; the first one counts.
    """

    names: tuple[str, ...]
    number: IntArray
    overlapping: int

    def name(self, sample: int) -> str:
        """Return the part of a sample; ``""`` for none."""
        part = int(self.number[sample])
        return "" if part < 0 else self.names[part]


def splits_of_samples(folder: Dataset) -> SampleSplits:
    """Return the split part of each sample."""
    names = tuple(folder.documents.split.split_parts) if folder.documents.split else ()
    numbers = np.full(len(folder.index), -1, np.int64)
    overlapping = 0
    # Samples of several parts stay in the first of them.
    for position, name in enumerate(names):
        kept = Selection(folder, name).filter
        for samples in samples_of_part(folder, name, excluded_shards=True):
            assigned = numbers[samples.start : samples.stop]
            is_member = True if kept is None else kept.keeps(np.arange(samples.start, samples.stop))
            overlapping += int((is_member & (assigned >= 0)).sum())
            assigned[is_member & (assigned < 0)] = position
    return SampleSplits(names=names, number=numbers, overlapping=overlapping)


def kept_parts(names: Sequence[str], *, keep: Sequence[str], drop: Sequence[str], at: str) -> tuple[str, ...]:
    """Return the parts that patterns choose.

    Args:
        keep: Only parts that match one of these patterns, as in shells; empty for all.
        drop: No parts that match one of these.

    >>> kept_parts(["jpg", "seg.png", "txt"], keep=(), drop=("*.png",), at="/data")
    ('jpg', 'txt')
    """
    for pattern in (*keep, *drop):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ConfigError(
                f"no part matches {pattern!r}; there are: {', '.join(names[:20])}", at=at, hint="check the pattern"
            )
    kept = tuple(name for name in names if is_kept(name, keep=keep, drop=drop))
    if not kept:
        raise ConfigError("no part is left", at=at, hint="keep at least one part")
    return kept


def is_kept(name: str, *, keep: Sequence[str], drop: Sequence[str]) -> bool:
    """Return True if the patterns of :func:`kept_parts` choose a part.

    >>> is_kept("seg.png", keep=["*.png"], drop=["depth.*"])
    True
    """
    is_wanted = not keep or any(fnmatchcase(name, pattern) for pattern in keep)
    return is_wanted and not any(fnmatchcase(name, pattern) for pattern in drop)


def _pieces(samples: IntArray) -> Iterator[tuple[IntArray, int, int]]:
    for start in range(0, len(samples), _SAMPLES_AT_ONCE):
        piece = samples[start : start + _SAMPLES_AT_ONCE]
        yield piece, int(piece[0]), int(piece[-1]) + 1


def samples_in_folder(index: DatasetIndex, samples: IntArray) -> IntArray:
    """Return the samples whose keys do not lead out of a folder; their numbers ascend."""
    kept = []
    for some, low, high in _pieces(samples):
        # Read the keys of a block as one array.
        first = int(index.key_ends[low - 1]) if low else 0
        ends = index.key_ends[low:high].astype(np.int64) - first
        keys = np.asarray(index.key_bytes[first : first + int(ends[-1])])
        # Find the keys with two dots, or with a slash at the beginning; only these are tested one by one.
        dots = np.flatnonzero((keys[:-1] == ord(".")) & (keys[1:] == ord(".")))
        slashes = np.flatnonzero((keys == ord("/")) & np.isin(np.arange(len(keys)), np.append(0, ends)))
        suspect = low + np.searchsorted(ends, np.concatenate((dots, slashes)), "right")
        outside = [sample for sample in suspect.tolist() if is_outside_name(index.key(sample))]
        kept.append(some[~np.isin(some, outside)])
    return np.concatenate([np.empty(0, np.int64), *kept])


def samples_with_parts(index: DatasetIndex, samples: IntArray, names: Collection[str]) -> IntArray:
    """Return the samples that have at least one of some parts; their numbers ascend."""
    if len(names) == len(index.part_names):
        return samples
    wanted = np.array([name in names for name in index.part_names], np.bool_)
    chosen = []
    for some, low, high in _pieces(samples):
        ends = index.part_ends[low:high].astype(np.int64)
        first = int(index.part_ends[low - 1]) if low else 0
        # Count the wanted parts up to each sample; a sample has some if the count grows.
        kept = wanted[index.part_name[first : int(ends[-1])]]
        counts = np.concatenate(([0], np.cumsum(kept)))
        starts = np.concatenate(([first], ends[:-1]))
        chosen.append(some[(counts[ends - first] > counts[starts - first])[some - low]])
    return np.concatenate([np.empty(0, np.int64), *chosen])
