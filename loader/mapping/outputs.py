"""Targets of the values of a map: columns of the dataset, or a filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dataset.dataset import Dataset
from ..dataset.exclusions import ExclusionFiles
from ..errors import SampleError
from ..format.columns.column_files import write_map_column
from ..format.columns.column_record import check_column_name
from ..format.filters.build import build_filter_index, check_filter_name
from .tasks import MapOutput, MapResults, MapTask, Outcome, TaskFailures, TaskResult, Values
from .values import ColumnPiece, ValueKind, number_type, piece_of, plain_values


@dataclass(frozen=True, slots=True, kw_only=True)
class ToColumns(MapOutput):
    """Write values to columns of the dataset.

    Attributes:
        names: Names of the columns. With several, or if the function returns dictionaries, these are their keys.
        path: Path of the dataset, for messages.
        metric: How vectors are compared: ``"cosine"``, ``"hamming"`` or ``"jaccard"``; empty for other values.
        model: Name of the model that made vectors.
    """

    names: tuple[str, ...]
    path: str
    metric: str = ""
    model: str = ""

    def check(self, folder: Dataset) -> None:  # noqa: ARG002 - as of other outputs
        """Raise a ``ConfigError`` for names that no column may have."""
        for name in self.names:
            check_column_name(name, at=self.path)

    def collect(self, task: MapTask, values: Values, failures: TaskFailures) -> TaskResult:
        columns: dict[str, list[Any]] = {name: [None] * (task.stop - task.start) for name in self.names}
        for sample_index, value in values:
            if isinstance(value, Mapping) or (len(self.names) > 1 and value is not None):
                if isinstance(value, Mapping) and {*value} == {*self.names}:
                    for name, column in columns.items():
                        column[sample_index - task.start] = value[name]
                else:
                    failures.add(sample_index, self._unnamed(value))
            else:
                columns[self.names[0]][sample_index - task.start] = value
        # A sample whose value does not fit into one of the columns has none in the others.
        unfit = {row: error for column in columns.values() for row, error in plain_values(column)}
        for row, error in unfit.items():
            failures.add(task.start + row, error)
            for column in columns.values():
                column[row] = None
        return TaskResult(
            columns={
                name: piece_of(column, task.start, column=name, at=self.path, key=failures.key)
                for name, column in columns.items()
            }
        )

    def _unnamed(self, value: Any) -> SampleError:
        returned = ", ".join(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
        return SampleError(f"expected a dictionary with {', '.join(self.names)}, found {returned}")

    def joined(self, folder: Dataset, earlier: dict[str, ValueKind] | None, result: TaskResult) -> dict[str, ValueKind]:
        """Return the kind of the values of each column.

        Raises:
            SampleError: Values of two tasks cannot be in one column.
        """
        kinds = earlier or dict.fromkeys(self.names, ValueKind())
        for name, piece in result.columns.items():
            kinds[name] = kinds[name].join(piece.kind, column=name, at=self.path, key=folder.index.full_key)
        return kinds

    def commit(self, results: MapResults, joined: dict[str, ValueKind] | None) -> Outcome:
        """Write the columns, one task in memory at a time."""
        # Check all columns before the first one is written.
        kinds = joined or dict.fromkeys(self.names, ValueKind())
        for name, kind in kinds.items():
            if not kind.name:
                raise SampleError(
                    f"no sample has a value for column {name!r}",
                    at=self.path,
                    hint="return values, and see which samples failed",
                )
        # Write the columns, with the values of one task in memory.
        for name, kind in kinds.items():
            write_map_column(
                results.folder.storage,
                results.folder.index,
                name,
                None if kind.name == "text" else number_type(kind),
                _blocks(results, name, kind),
                length=kind.length,
                made_by=results.made_by,
                metric=self.metric,
                model=self.model,
            )
        return Outcome(self.names)


def _blocks(results: MapResults, name: str, kind: ValueKind) -> Iterator[tuple[Any, npt.NDArray[np.bool_]]]:
    """Yield the values of the column, and which are known, in the order of the index: numbers, vectors or texts."""
    done = 0
    for task, result in results:
        yield from _unknown(task.start - done, kind)
        yield _block(result.columns[name], kind)
        done = task.stop
    yield from _unknown(len(results.folder.index) - done, kind)


_BLOCK = 1 << 16


def _unknown(count: int, kind: ValueKind) -> Iterator[tuple[Any, npt.NDArray[np.bool_]]]:
    """Yield blocks of samples without a value, between tasks."""
    for start in range(0, count, _BLOCK):
        yield _block(ColumnPiece(kind=ValueKind(), data=b"", valid=bytes(min(_BLOCK, count - start))), kind)


def _block(piece: ColumnPiece, kind: ValueKind) -> tuple[Any, npt.NDArray[np.bool_]]:
    known = piece.known()
    if kind.name == "text":
        return piece.texts() if piece.kind.name else [""] * len(known), known
    return piece.numbers(number_type(kind), kind.length), known


@dataclass(frozen=True, slots=True, kw_only=True)
class ToFilter(MapOutput):
    """Keep the samples for which the function returns True in a named filter.

    Attributes:
        name: Name of the filter.
        path: Path of the dataset, for messages.
    """

    name: str
    path: str

    def check(self, folder: Dataset) -> None:  # noqa: ARG002 - as of other outputs
        """Raise a ``ConfigError`` for a name that no filter may have."""
        check_filter_name(self.name, at=self.path)

    def collect(self, task: MapTask, values: Values, failures: TaskFailures) -> TaskResult:
        kept = np.zeros(task.stop - task.start, np.bool_)
        for sample_index, value in values:
            if isinstance(value, bool | np.bool_):
                kept[sample_index - task.start] = value
            elif getattr(value, "shape", None) == () and str(value.dtype) in ("bool", "torch.bool"):
                kept[sample_index - task.start] = bool(value)
            elif value is not None:
                fault = f"expected True or False for a filter, found {type(value).__name__}"
                failures.add(sample_index, SampleError(fault))
        return TaskResult(kept=kept.tobytes())

    def commit(self, results: MapResults, joined: None) -> Outcome:  # noqa: ARG002 - as of other outputs
        """Write the filter."""
        numbers = [np.empty(0, np.int64)]
        for task, result in results:
            numbers.append(task.start + np.flatnonzero(np.frombuffer(result.kept, np.bool_)))
        kept, folder = np.concatenate(numbers), results.folder
        with folder.storage.lock(ExclusionFiles.of(folder).lock, wait=True):
            build_filter_index(folder.ref.path, self.name, kept, meta_folder=folder.ref.meta_folder)
        return Outcome((self.name,), kept=len(kept))
