"""A dataset, or tar shards that are not prepared: rows reference the bytes of the parts in the shards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...accounting import Account
from ...arrays import IntArray
from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.index.fresh_shard import open_fresh_shard
from ...format.index.shard_index import ShardIndex, index_shard
from ...format.nv_meta import SPLIT_YAML
from ...format.tar.names import is_outside_name
from ...format.unprepared import find_tars, is_prepared
from ...storage import FileInfo, open_storage
from ..rows.row import NO_SPLIT, PartRef, RangeRef, Row
from .dataset_samples import is_kept, kept_parts, splits_of_samples
from .source import Listing, Source


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetSource(Source):
    """The samples of a prepared dataset of tar shards, of a folder of such shards without metadata, or of one shard.

    Attributes:
        path: The folder or tar file.
        samples: Numbers of the samples, ascending, each of which has one of ``parts``; None for all. Only of prepared
            datasets.
        keep_parts: Only parts that match one of these patterns; empty for all.
        drop_parts: No parts that match one of these.
        keeps_splits: Rows have the split parts of their samples.
        split_config: Name of the split file.
        meta_folder: Folder to use instead of ``.nv-meta``.
    """

    path: str
    samples: IntArray | None = None
    keep_parts: tuple[str, ...] = ()
    drop_parts: tuple[str, ...] = ()
    keeps_splits: bool = True
    split_config: str = SPLIT_YAML
    meta_folder: str | None = None
    kind: str = "dataset"

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the samples in the order of the index; those that have none of the parts are skipped.

        Raises:
            ConfigError: The dataset is not one of tar shards, or a pattern matches no part.
            FormatError: A shard has changed since it was indexed, or is damaged.
            StorageError: A shard cannot be read.
        """
        if self.meta_folder is not None or is_prepared_dataset(self.path):
            yield from self._prepared(listing.account)
        else:
            yield from self._unprepared(listing.account)

    def _prepared(self, account: Account) -> Iterator[Row]:
        folder = DatasetFolder(self.path, split_config=self.split_config, meta_folder=self.meta_folder)
        index, storage = folder.tar_index, folder.storage
        wanted = self._wanted(index.part_names)
        splits = splits_of_samples(folder) if self.keeps_splits and folder.split else None
        for shard in index.shards:
            first, stop = shard.first_sample, shard.first_sample + shard.samples
            if self.samples is None:
                numbers: Sequence[int] = range(shard.samples)
            else:
                low, high = np.searchsorted(self.samples, (first, stop)).tolist()
                numbers = (self.samples[low:high] - first).tolist()
            if not numbers:
                continue
            open_fresh_shard(storage, index, shard).close()
            names = [] if splits is None else [splits.name(first + number) or NO_SPLIT for number in numbers]
            rows = _rows(
                index.shard_index(shard), shard.info, storage.path(shard.name), numbers, names, wanted, account
            )
            yield from rows

    def _unprepared(self, account: Account) -> Iterator[Row]:
        tars = find_tars(self.path)
        if tars.compressed:
            raise ConfigError(
                f"{tars.compressed[0]} is compressed, so that its samples cannot be read from the middle",
                at=self.path,
                hint=f"decompress the shards: energon prepare {self.path} --decompress",
            )
        seen: set[str] = set()
        for shard in tars.shards:
            index = index_shard(tars.storage, shard.name)
            seen.update(index.part_names)
            wanted = self._matching(index.part_names)
            yield from _rows(
                index, shard, tars.storage.path(shard.name), range(len(index.key_ends)), [], wanted, account
            )
        self._wanted(sorted(seen))

    def _wanted(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset(kept_parts(names, keep=self.keep_parts, drop=self.drop_parts, at=self.path))

    def _matching(self, names: Sequence[str]) -> frozenset[str]:
        """Return the parts of one shard, of which no pattern need match."""
        return frozenset(name for name in names if is_kept(name, keep=self.keep_parts, drop=self.drop_parts))


def is_prepared_dataset(path: str) -> bool:
    """Return True if a path is a folder with the metadata of a dataset."""
    return not path.endswith(".tar") and is_prepared(open_storage(path))


def _rows(  # noqa: PLR0917 - called at two places
    index: ShardIndex,
    shard: FileInfo,
    path: str,
    numbers: Sequence[int],
    splits: Sequence[str],
    wanted: frozenset[str],
    account: Account,
) -> Iterator[Row]:
    """Yield the rows of some samples of a shard; their parts are side by side, whatever lies between them there."""
    name, offset, size = index.part_name.tolist(), index.part_offset.tolist(), index.part_size.tolist()
    part_ends, key_ends, keys = index.part_ends.tolist(), index.key_ends.tolist(), index.key_bytes.tobytes()
    names = [part if part in wanted else None for part in index.part_names]
    written = [_text(os.fsencode(part)) for part in index.part_names]
    file, changed, short = os.fsencode(path), shard.etag or str(shard.mtime_ns), _text(os.fsencode(shard.name))
    for place, number in enumerate(numbers):
        key = _text(keys[key_ends[number - 1] if number else 0 : key_ends[number]])
        parts: dict[str, PartRef] = {}
        for row in range(part_ends[number - 1] if number else 0, part_ends[number]):
            if names[name[row]] is not None:
                # Of two parts of one name the last one counts, as if the shard were unpacked.
                part = written[name[row]]
                if part in parts:
                    account.see("parts")
                    account.leave("parts", "L106", f"{short}/{key}.{part}", size_bytes=parts[part].size_bytes)
                parts[part] = RangeRef(file, offset[row], size[row], changed)
        if not parts or is_outside_name(key):
            account.see("samples")
            account.leave("samples", "L121" if parts else "L113", f"{short}/{key}")
        else:
            split = splits[place] if splits else ""
            yield Row(key=key, parts=parts, origin=f"{short}/{key}", split=split)


def _text(name: bytes) -> str:
    """Return a name as text that UTF-8 encodes."""
    return name.decode("utf-8", "replace")
