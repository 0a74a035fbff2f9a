"""What becomes of the values of a map: columns of the dataset, or a filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..engine.journal import Journal
from ..errors import ConfigError, SampleError
from ..format.columns.column import check_column_name, write_map_column
from ..format.filters.build import build_filter_index
from ..storage import Storage
from .tasks import MapTask, TaskResult
from .values import ColumnPiece, PieceWriter, ValueKind, number_type


@dataclass(frozen=True, slots=True, kw_only=True)
class ToColumns:
    """Write values to columns of the dataset.

    Attributes:
        names: Names of the columns. With several, or if the function returns dictionaries, these are their keys.
        path: Path of the dataset, for messages.
        description: Text that the columns' records have.
        metric: How vectors are compared: ``"cosine"``, ``"hamming"`` or ``"jaccard"``; empty for other values.
        model: Name of the model that made vectors.
    """

    names: tuple[str, ...]
    path: str
    description: str = ""
    metric: str = ""
    model: str = ""

    def check(self) -> None:
        """Raise a ``ConfigError`` for names that no column may have."""
        for name in self.names:
            check_column_name(name, at=self.path)

    def storage(self, folder: Dataset) -> Storage:
        return folder.storage

    def collect(self, task: MapTask, values: Sequence[Any], keys: Sequence[str], numbers: IntArray) -> TaskResult:
        columns = {name: PieceWriter(name, self.path).piece(some, keys) for name, some in self._by_name(values, keys)}
        if task.samples is not None:
            rows = numbers - task.start
            columns = {name: _spread(piece, rows, task.stop - task.start) for name, piece in columns.items()}
        return TaskResult(columns=columns)

    def _by_name(self, values: Sequence[Any], keys: Sequence[str]) -> Iterator[tuple[str, Sequence[Any]]]:
        if len(self.names) == 1 and not any(isinstance(value, Mapping) for value in values):
            yield self.names[0], values
            return
        for value, key in zip(values, keys, strict=True):
            if value is not None and (not isinstance(value, Mapping) or {*value} != {*self.names}):
                returned = ", ".join(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
                raise SampleError(
                    f"expected a dictionary with {', '.join(self.names)}, found {returned}",
                    at=f"{self.path}: sample {key}",
                    hint="name all columns that the function returns: --write a,b",
                )
        for name in self.names:
            yield name, [None if value is None else value[name] for value in values]

    def commit(
        self, folder: Dataset, tasks: Sequence[MapTask], journal: Journal[TaskResult], made_by: str
    ) -> list[str]:
        """Write the columns from the results in the journal, one task in memory at a time.

        Raises:
            SampleError: Values of two tasks cannot be in one column.
        """
        for name in self.names:
            kind = ValueKind()
            for piece in _pieces(journal, tasks, name):
                kind = kind.join(piece.kind, column=name, at=self.path)
            if not kind.name:
                raise SampleError(
                    f"no sample has a value for column {name!r}", at=self.path, hint="look at the failures"
                )
            write_map_column(
                folder.storage,
                folder.index,
                name,
                None if kind.name == "text" else number_type(kind),
                _blocks(folder, tasks, journal, name, kind),
                length=kind.length,
                description=self.description,
                made_by=made_by,
                metric=self.metric,
                model=self.model,
            )
        return list(self.names)


def _pieces(journal: Journal[TaskResult], tasks: Sequence[MapTask], name: str) -> Iterator[ColumnPiece]:
    for number in range(len(tasks)):
        result = journal.read(number)
        if result is None:
            raise ConfigError(
                f"the result of task {number} is damaged", at=journal.storage.path(journal.folder), hint="run again"
            )
        yield result.columns[name]


def _blocks(
    folder: Dataset, tasks: Sequence[MapTask], journal: Journal[TaskResult], name: str, kind: ValueKind
) -> Iterator[tuple[Any, npt.NDArray[np.bool_]]]:
    """Yield the values of the column, and which are known, in the order of the index: numbers, vectors or texts."""
    done = 0
    for task, piece in zip(tasks, _pieces(journal, tasks, name), strict=True):
        yield from _unknown(task.start - done, kind)
        known = piece.known()
        if kind.name == "text":
            yield piece.texts() if piece.kind.name else [""] * len(known), known
        else:
            yield piece.numbers(number_type(kind), kind.length), known
        done = task.stop
    yield from _unknown(len(folder.index) - done, kind)


_BLOCK = 1 << 16


def _unknown(count: int, kind: ValueKind) -> Iterator[tuple[Any, npt.NDArray[np.bool_]]]:
    """Yield blocks of samples without a value, between tasks."""
    for start in range(0, count, _BLOCK):
        rows = min(_BLOCK, count - start)
        known = np.zeros(rows, np.bool_)
        if kind.name == "text":
            yield [""] * rows, known
        else:
            dtype = number_type(kind)
            yield (
                np.full((rows, kind.length) if kind.length else rows, np.nan if dtype.kind == "f" else 0, dtype),
                known,
            )


def _spread(piece: ColumnPiece, rows: IntArray, samples: int) -> ColumnPiece:
    """Return a piece for all samples of a task, of one for some of them; the others have no value."""
    valid = np.zeros(samples, np.bool_)
    valid[rows] = piece.known()
    if piece.kind.name == "text":
        lengths = np.zeros(samples, "<u4")
        lengths[rows] = np.frombuffer(piece.lengths, "<u4")
        return ColumnPiece(kind=piece.kind, data=piece.data, lengths=lengths.tobytes(), valid=valid.tobytes())
    width = len(piece.data) // max(1, len(rows))
    data = np.zeros((samples, width), np.uint8)
    data[rows] = np.frombuffer(piece.data, np.uint8).reshape(len(rows), width)
    return ColumnPiece(kind=piece.kind, data=data.tobytes(), valid=valid.tobytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class ToFilter:
    """Keep the samples for which the function returns True in a named filter.

    Attributes:
        name: Name of the filter.
        path: Path of the dataset, for messages.
    """

    name: str
    path: str

    def check(self) -> None:
        """Do nothing: the name is checked when the filter is written."""

    def storage(self, folder: Dataset) -> Storage:
        return folder.storage

    def collect(self, task: MapTask, values: Sequence[Any], keys: Sequence[str], numbers: IntArray) -> TaskResult:
        kept = np.zeros(task.stop - task.start, np.bool_)
        for number, value, key in zip(numbers.tolist(), values, keys, strict=True):
            if value is None:
                continue
            if not isinstance(value, bool | np.bool_):
                raise SampleError(
                    f"expected True or False for a filter, found {type(value).__name__}",
                    at=f"{self.path}: sample {key}",
                    hint="return a boolean, or write a column and make a filter of a condition",
                )
            kept[number - task.start] = value
        return TaskResult(kept=kept.tobytes())

    def commit(
        self,
        folder: Dataset,
        tasks: Sequence[MapTask],
        journal: Journal[TaskResult],
        made_by: str,  # noqa: ARG002 - as of other outputs
    ) -> list[str]:
        """Write the filter."""
        numbers = [np.empty(0, np.int64)]
        for number, task in enumerate(tasks):
            result = journal.read(number)
            if result is not None:
                numbers.append(task.start + np.flatnonzero(np.frombuffer(result.kept, np.bool_)))
        meta = folder.ref.meta_folder
        build_filter_index(folder.ref.path, self.name, np.concatenate(numbers), meta_folder=meta)
        return [self.name]
