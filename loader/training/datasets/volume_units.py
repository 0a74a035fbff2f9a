"""The sizes of samples in the units of blends: metrics of the task encoder, or columns of the datasets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import isnan
from typing import Any

from ...cached_property import cached_property
from ...errors import ConfigError
from ...format.columns.column import Column, open_column
from ...format.documents.messages import nearest_hint
from ...pipeline.reading.source import Raw, RawRow, Source
from ...samples.encoding.size_metric import SizeMetric, size_metrics
from .chain import Level

_MAX_NAMED = 5  # datasets, in a message


class ColumnSize:
    """Function that returns the size of a raw sample from a column of its dataset.

    Args:
        sources: The datasets by their numbers in raw samples.
        unit: Name of the columns.
    """

    def __init__(self, sources: Sequence[Source], unit: str) -> None:
        self._sources = sources
        self.__name__ = unit
        self._columns: dict[int, Column] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_columns": {}}

    def __call__(self, raw: Raw) -> float:
        number: int
        if isinstance(raw, RawRow):
            primary = raw.members[0]
            if primary is None:
                raise ConfigError(
                    f"column {self.__name__!r} has no value for row {raw.number} of a join, which has no sample of its "
                    "primary dataset, and a blend counts it",
                    at=self._sources[raw.source].request.path,
                    hint=f"add a method {self.__name__}(self, sample) with @sample_size_metric to the task encoder",
                )
            number = primary.number
        else:
            number = raw.number
        return self.size(raw.source, number)

    def size(self, source: int, number: int) -> float:
        """Return the size of a sample.

        Args:
            source: Number of its dataset.
            number: Its number in the index; for a join, in the index of the primary dataset.

        Raises:
            ConfigError: The column has no value for it.
        """
        column = self._columns.get(source) or self._open(source)
        value = column.values[number].item()
        if isnan(value) or value == column.record.missing:
            dataset = self._sources[source].first
            raise ConfigError(
                f"column {self.__name__!r} has no value for sample {dataset.full_key(number)!r}, and a blend counts it",
                at=dataset.path,
                hint=f"write it for all samples: {write_command(dataset.path, self.__name__)}",
            )
        return float(value)

    def _open(self, source: int) -> Column:
        dataset = self._sources[source].first
        self._columns[source] = open_column(dataset.storage, dataset.index, self.__name__)
        return self._columns[source]


def write_command(path: str, unit: str) -> str:
    """Return the command that writes the sizes of a dataset's samples as a column.

    >>> write_command("/data/books", "tokens")
    'energon stats /data/books --write tokens --tokenizer tokenizer.json'
    """
    tokenizer = " --tokenizer tokenizer.json" if unit.rpartition(".")[2] == "tokens" else ""
    return f"energon stats {path} --write {unit}{tokenizer}"


class UnknownSize:
    """Placeholder of a function that returns the size of a sample, in the chain of a run that is only described.

    Args:
        unit: The unit.
    """

    def __init__(self, unit: str) -> None:
        self.__name__ = unit

    def __call__(self, value: Any) -> float:  # noqa: ARG002 - has the arguments of a metric
        raise ConfigError(
            f"the order of this run depends on the sizes of its samples in {self.__name__!r}, which are not known",
            hint="pass the task encoder of the run, which has the metric (--task-encoder module:Class); or write "
            f"columns of the sizes: {write_command('PATH', self.__name__)}",
        )


class VolumeUnits:
    """The units of a run's blends.

    Args:
        sources: The datasets.
        encoder: The task encoder, whose metrics are used.
        needs_sizes: Refuse units whose sizes are not known.
    """

    def __init__(self, sources: Sequence[Source], encoder: object, *, needs_sizes: bool = True) -> None:
        self._needs_sizes = needs_sizes
        self._sources = sources
        self._encoder = encoder

    @cached_property
    def _metrics(self) -> dict[str, SizeMetric]:
        return size_metrics(self._encoder)

    def size(self, unit: str, leaves: Sequence[int]) -> tuple[Callable[[Any], Any], Level]:
        """Return the function that measures items in a unit, and the items that it takes.

        Args:
            unit: The unit.
            leaves: Numbers of the datasets below the blend.

        Raises:
            ConfigError: The task encoder has no such metric, and some of the datasets have no such column.
        """
        metric = self._metrics.get(unit)
        if metric is not None:
            return metric.function, Level.PACKED if metric.after == "packing" else Level.ENCODED
        lacking = [*self._lacking(unit, leaves)]
        if not lacking:
            return ColumnSize(self._sources, unit), Level.READ
        if not self._needs_sizes:
            return UnknownSize(unit), Level.READ
        known = ", ".join(map(repr, self._metrics)) or "none"
        names = ", ".join(lacking[:_MAX_NAMED]) + (", …" if len(lacking) > _MAX_NAMED else "")
        column = re.sub(r"[^A-Za-z0-9_]", "_", unit)
        if column != unit:
            raise ConfigError(
                f"a blend has the unit {unit!r}, which can be no metric and no column",
                hint=f"write the columns, {write_command(lacking[0], unit)}, and name them: "
                f"blend_weight_unit: {column}",
            )
        raise ConfigError(
            f"a blend has the unit {unit!r}, which is no metric of {type(self._encoder).__name__}; known are {known}. "
            f"Nor is it a column of all its datasets: {len(lacking)} of {len(leaves)} have none: {names}"
            f"{nearest_hint(unit, self._metrics)}",
            hint=f"add a method {unit}(self, sample) with @sample_size_metric to the task encoder, or write the "
            f"columns: {write_command(lacking[0], unit)}",
        )

    def _lacking(self, unit: str, leaves: Sequence[int]) -> Iterator[str]:
        """Yield the datasets without a column, each once."""
        seen: set[str] = set()
        for leaf in leaves:
            dataset = self._sources[leaf].first
            path = dataset.ref.path
            if path not in seen and unit not in dataset.documents.column_names():
                yield path
            seen.add(path)
