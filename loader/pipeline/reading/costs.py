"""The costs of samples, from columns and formulas over columns."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...cached_property import cached_property
from ...dataset.join import JoinedDataset
from ...dataset.query import Condition, DatasetValues
from ...errors import ConfigError, plural
from ...format.columns.column import ComparedValues
from ...format.columns.column_record import write_again
from .sample_chunk import OpenSources
from .source import Source

Costs = npt.NDArray[np.float64]
_SAMPLES_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary:
    """The costs of the samples of a source, in numbers.

    Attributes:
        samples: Number of samples, without excluded ones.
        means: Mean of each cost over the samples that have it.
        missing: For each cost, the number of samples without it.
        largest: The largest value of each cost, of samples that are not excluded.
        checksum: Checksum of all costs, in the order of the samples.

    Means and checksums include excluded samples, so that an exclusion during a run changes no plan.
    """

    samples: int
    means: tuple[float, ...]
    missing: tuple[int, ...]
    largest: tuple[float, ...]
    checksum: int


class SampleCosts:
    """The costs of the samples of some sources.

    Args:
        sources: The sources.
        formulas: For each cost, a column or a formula over columns, by the name of the cost:
            ``{"tokens": "tokens", "vision": "ceil(width / 28) * ceil(height / 28)"}``.

    Raises:
        ConfigError: A formula is no formula.
    """

    def __init__(self, sources: Sequence[Source], formulas: Mapping[str, str]) -> None:
        self._sources = tuple(sources)
        self._formulas = {name: Condition(text) for name, text in formulas.items()}
        self.names = tuple(formulas)

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_sources", "_formulas", "names", "summaries")
        return {name: value for name, value in self.__dict__.items() if name in kept}

    @cached_property
    def _table(self) -> OpenSources:
        return OpenSources(self._sources)

    @cached_property
    def _values(self) -> dict[int, DatasetValues]:
        return {}

    def number_again(self) -> None:
        """Number the samples again, after other samples of the sources take no turn."""
        self.__dict__.pop("_table", None)

    def of(self, source: IntArray, sample: IntArray) -> Costs:
        """Return the costs of samples; a sample without a cost has the mean of its source.

        Args:
            source: Numbers of the sources, shape (n,).
            sample: Numbers of the samples that take a turn, shape (n,).

        Returns:
            Shape (n, costs).
        """
        index = self._table.index_numbers(source, sample)
        costs = np.empty((len(source), len(self.names)))
        for source_number in np.unique(source).tolist():
            rows = np.flatnonzero(source == source_number)
            means = self.summaries[source_number].means
            for column, value in enumerate(self._costs(source_number, index[rows]).values()):
                costs[rows, column] = np.where(value.known, value.values, means[column])
        return costs

    @cached_property
    def summaries(self) -> tuple[CostSummary, ...]:
        """A summary of each source, from one pass over its columns.

        Raises:
            ConfigError: A column is missing, no sample of a source has a cost, or a cost is negative or infinite.
        """
        summaries = tuple(map(self._summary, range(len(self._sources))))
        for column, name in enumerate(self.names):
            lacking = sum(summary.missing[column] for summary in summaries)
            total = sum(summary.samples for summary in summaries)
            if lacking:
                warnings.warn(
                    f"{lacking:,} of {plural(total, 'sample')} ({lacking / total:.2%}) without a cost {name!r}: the "
                    "mean of the dataset counts instead",
                    stacklevel=2,
                )
        return summaries

    def above(self, capacity: Sequence[float]) -> tuple[int, str, list[float]]:
        """Return the number of samples that cost more than a capacity, and the key and the costs of the first one."""
        above, key, cost = 0, "", list[float]()
        for source, known in enumerate(self._sources):
            for index, is_excluded in self._blocks(source):
                costs = np.column_stack(
                    [np.where(value.known, value.values, 0) for value in self._costs(source, index).values()]
                )
                large = np.flatnonzero((costs > np.array(capacity)).any(axis=1) & ~is_excluded)
                if len(large) and not above:
                    cost = costs[large[0]].tolist()
                    key = str(known.selection.first.full_key(int(self._in_first(source, index[large[:1]])[0])))
                above += len(large)
        return above, key, cost

    def _summary(self, source: int) -> CostSummary:
        count, costs = len(self._sources[source].selection), len(self.names)
        sums, largest, known = np.zeros(costs), np.zeros(costs), np.zeros(costs, np.int64)
        checksum = 0
        left_out = 0
        for index, is_excluded in self._blocks(source):
            left_out += int(is_excluded.sum())
            for column, (name, value) in enumerate(self._costs(source, index).items()):
                self._check(name, value, source, index)
                values = np.where(value.known, value.values, np.nan)
                checksum = zlib.crc32(values.tobytes(), checksum)
                sums[column] += np.nansum(values)
                known[column] += int(value.known.sum())
                largest[column] = max(
                    largest[column], float(np.max(values, initial=0, where=value.known & ~is_excluded))
                )
        # Without a known value there is no mean that could stand for the others.
        unknown = [name for name, count_known in zip(self.names, known, strict=True) if not count_known]
        if unknown:
            raise self._error(f"no sample has the cost {unknown[0]!r}", source, unknown[0])
        return CostSummary(
            samples=count - left_out,
            means=tuple((sums / known).tolist()),
            missing=tuple((count - known).tolist()),
            largest=tuple(largest.tolist()),
            checksum=checksum,
        )

    def _blocks(self, source: int) -> Iterator[tuple[IntArray, npt.NDArray[np.bool_]]]:
        """Yield the numbers in the index of the samples of a source, or its rows, and which of them are excluded."""
        selection = self._sources[source].selection
        excluded = np.sort(selection.numbers(selection.excluded))
        for start in range(0, len(selection), _SAMPLES_AT_ONCE):
            index = selection.numbers(np.arange(start, min(start + _SAMPLES_AT_ONCE, len(selection))))
            yield index, np.isin(index, excluded, assume_unique=True) if len(excluded) else np.zeros(len(index), bool)

    def _costs(self, source: int, index: IntArray) -> dict[str, ComparedValues]:
        """Return the costs of samples by their numbers in the index, shape (n,), or by the rows of a join."""
        values = self._values.get(source)
        if values is None:
            names = {column for formula in self._formulas.values() for column in formula.columns}
            dataset = self._sources[source].selection.first
            values = self._values[source] = DatasetValues(dataset, names, np.empty(0, np.int64))
        opened, numbers = values, self._in_first(source, index)

        def named(name: str, is_size: bool) -> ComparedValues:
            return opened.size(name, numbers) if is_size else opened.values(name, numbers)

        return {name: formula.numbers(named, len(numbers)) for name, formula in self._formulas.items()}

    def _in_first(self, source: int, index: IntArray) -> IntArray:
        dataset = self._sources[source].selection.dataset
        return dataset.numbers(index)[:, 0] if isinstance(dataset, JoinedDataset) else index

    def _check(self, name: str, value: ComparedValues, source: int, index: IntArray) -> None:
        wrong = value.known & ~((value.values >= 0) & np.isfinite(value.values))
        if wrong.any():
            column = int(np.flatnonzero(wrong)[0])
            key = self._sources[source].selection.first.full_key(int(self._in_first(source, index[[column]])[0]))
            raise self._error(
                f"expected costs of at least 0, found {name} {value.values[column]:g} of {key!r}", source, name
            )

    def _error(self, message: str, source: int, name: str) -> ConfigError:
        dataset = self._sources[source].selection.first
        return ConfigError(message, at=dataset.path, hint=self.write_again(source, name))

    def write_again(self, source: int, name: str) -> str:
        """Return how the column of a cost is written again for a source."""
        columns = self._formulas[name].columns
        storage = self._sources[source].selection.first.storage
        return write_again(storage, columns[0]) if columns else "name a column in the formula"
