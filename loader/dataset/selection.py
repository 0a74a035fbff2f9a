"""The samples that a run chooses of a dataset: a split part, what a filter keeps of it, and a subset of that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import IntArray, numbers_in, positions_in
from ..cached_property import cached_property
from ..format.documents.subset import SubsetRange, resolve_subset
from ..format.filters.rows import FilterRows
from .dataset import Dataset
from .join import AnyDataset, JoinedDataset
from .split_parts import excluded_samples, open_filter, samples_of_part, shards_of_part


class Selection:
    """Some samples of a dataset, excluded ones included, or rows of a join. Each answer reads what it needs.

    Samples have positions, which count the chosen ones from 0, and numbers in the index.

    Args:
        split_part: Its samples, in the order of its shards; None for all samples, in the order of the index.
        filter_name: Only samples that this filter keeps; the filter of the split part applies, too.
        subset: Ranges of what remains, the innermost first.
        at: Place of the subset, for messages; None for the path of the dataset.
    """

    def __init__(
        self,
        dataset: AnyDataset,
        split_part: str | None = None,
        filter_name: str | None = None,
        subset: Sequence[SubsetRange] = (),
        *,
        at: str | None = None,
    ) -> None:
        self.dataset = dataset
        self.first: Dataset = dataset.members[0] if isinstance(dataset, JoinedDataset) else dataset
        """The dataset, or the first member of a join: it has the keys, columns and filters."""
        self._split_part = split_part
        self._filter_name = filter_name
        self._subset = subset
        self._at = at

    @cached_property
    def filter(self) -> FilterRows | None:
        """The filters of the split part and of the run; None keeps all samples."""
        split = self.first.documents.split if self._split_part else None
        names = (split.sample_filters.get(self._split_part or "") if split else None, self._filter_name)
        filters = [open_filter(self.first, name) for name in names if name is not None]
        return filters[0].intersect(filters[1]) if len(filters) > 1 else filters[0] if filters else None

    @cached_property
    def whole(self) -> tuple[IntArray, IntArray]:
        """The ranges before the subset, as in :attr:`ranges`; the first array ends with the number of samples."""
        ranges = [some for some in self._whole_ranges() if len(some)]
        ends = np.cumsum([0, *map(len, ranges)])
        return ends, np.array([some.start for some in ranges], dtype=np.int64)

    def _whole_ranges(self) -> list[range]:
        """Return a range of numbers for each shard of the split part; with a filter, of its rows."""
        kept = self.filter
        if self._split_part is None:
            return [range(len(self.dataset if kept is None else kept))]
        ranges = samples_of_part(self.first, self._split_part, excluded_shards=True)
        if kept is None:
            return ranges
        rows = []
        for samples in filter(len, ranges):
            shard = self.first.index.shard_of(samples.start)
            some = kept.rows_of(shard.name)
            # The part has a range of this shard only, and so a range of its rows.
            if len(samples) < shard.samples:
                numbers = kept.numbers(np.arange(some.start, some.stop))
                some = some[numbers.searchsorted(samples.start) : numbers.searchsorted(samples.stop)]
            rows.append(some)
        return rows

    @property
    def is_whole(self) -> bool:
        """True if all samples of one dataset are chosen, so that positions are numbers in its index."""
        chosen = self._split_part or self._filter_name or self._subset or isinstance(self.dataset, JoinedDataset)
        return not chosen

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The first sample of the subset, and the one behind its last, as the whole part counts them."""
        part, documents = self._split_part, self.first.documents
        if self.filter is None and (not part or self.first.is_file):
            count = len(self.dataset)
        elif not part or self.filter is not None or (documents.split and part in documents.split.sample_ranges):
            count = int(self.whole[0][-1])
        else:  # whole shards are counted without their ranges
            count = sum(self.first.shard_counts.get(name, 0) for name in shards_of_part(self.first, part))
        return resolve_subset(self._subset, count, at=self._at or self.dataset.path)

    def __len__(self) -> int:
        return max(0, self.bounds[1] - self.bounds[0])

    @cached_property
    def ranges(self) -> tuple[IntArray, IntArray]:
        """Runs of neighbours: position of the first sample of each, and its number, or its row in the filter."""
        (ends, starts), (first, stop) = self.whole, self.bounds
        rows = (ends[1:] > first) & (ends[:-1] < stop)
        skipped = np.maximum(first - ends[:-1][rows], 0)
        return ends[:-1][rows] + skipped - first, starts[rows] + skipped

    def numbers(self, positions: IntArray | None = None) -> IntArray:
        """Return the numbers of samples by their positions, shape (n,); None for all."""
        if positions is None:
            positions = np.arange(len(self))
        if not len(positions):
            return positions
        begins, firsts = self.ranges
        rows = positions + (firsts - begins)[begins.searchsorted(positions, side="right") - 1]
        return rows if self.filter is None else self.filter.numbers(rows)

    def __getitem__(self, position: int) -> int:
        return int(self.numbers(np.array([position]))[0])

    def positions(self, numbers: IntArray) -> IntArray:
        """Return the positions of samples by their numbers, ascending; those that were not chosen are omitted."""
        return positions_in(self.ranges, len(self), numbers if self.filter is None else self.filter.find(numbers))

    def find(self, key: str) -> list[int]:
        """Return the positions of the samples of a key, ascending; of rows, of the first member's samples."""
        positions: list[int] = self.positions(np.array(self.dataset.find(key), np.int64)).tolist()
        return positions

    @cached_property
    def excluded(self) -> IntArray:
        """Positions of the samples that the split excludes, ascending; rows of a join are prepared without them."""
        if isinstance(self.dataset, JoinedDataset):
            return np.empty(0, np.int64)
        numbers = excluded_samples(self.first)
        return self.positions(numbers) if len(numbers) else numbers

    @property
    def largest_shard(self) -> int:
        """Number of samples in the largest shard of the split part."""
        return len(self.first) if self.first.is_file else int(np.diff(self.whole[0]).max(initial=1))

    def first_numbers(self, numbers: IntArray) -> IntArray:
        """Return the numbers of samples, or rows, in the first dataset."""
        return self.dataset.numbers(numbers)[:, 0] if isinstance(self.dataset, JoinedDataset) else numbers

    def with_first(self, numbers: IntArray) -> IntArray:
        """Return the samples, or rows, that have some numbers in the first dataset, ascending."""
        return self.dataset.with_first(numbers) if isinstance(self.dataset, JoinedDataset) else numbers

    def runs(self) -> list[range]:
        """Return the numbers in runs of neighbours; of a split part, without excluded shards."""
        begins, firsts = self.ranges
        stops = firsts + np.diff(begins, append=len(self))
        # Filters and subsets keep the samples of excluded shards.
        hidden = frozenset[str]() if self._split_part is None else self.first.documents.excluded_shards
        if hidden:
            shards = map(self.first.index.shard_of, self.numbers(begins).tolist())
            shown = [shard.name not in hidden for shard in shards]
            firsts, stops = firsts[shown], stops[shown]
        ranges = list(map(range, firsts.tolist(), stops.tolist()))
        if self.filter is None:
            return ranges
        # A run of a filter ends where the next number is no neighbour.
        numbers = self.filter.numbers(numbers_in(ranges))
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        return [range(int(run[0]), int(run[-1]) + 1) for run in np.split(numbers, breaks) if len(run)]
