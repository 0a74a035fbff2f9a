"""Look up values of samples for a condition: in columns where there are any, else in the samples themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.query import Condition
from ...format.query.condition import Values
from ...format.query.samples import INDEX_COLUMNS, ColumnValues
from ..stats.scan import ScanTask, scan_samples
from ..stats.values import Value

_OF_ANY_PART = ("width", "height", "aspect", "mode", "format", "duration", "chars", "words")


class ScannedValues:
    """The values of samples of one shard, as a condition asks for them.

    ``jpg_width`` is the value ``jpg.width`` of :mod:`loader.inspect.stats`, and ``width`` that of the first part with
    one.

    Args:
        folder: The dataset.
        meta_folder: Folder to use instead of ``.nv-meta``.
        condition: The condition.
        batch: Numbers of the samples.
    """

    def __init__(self, folder: DatasetFolder, meta_folder: str | None, condition: Condition, batch: range) -> None:
        self._batch = np.arange(batch.start, batch.stop)
        self._condition = condition
        known, scanned = _names(folder, condition)
        self._columns = ColumnValues(folder, known)
        self._scanned: dict[str, dict[int, Value]] = {}
        if scanned:
            candidates = {name: list(_candidates(folder, name)) for name in scanned}
            kept = frozenset(one for some in candidates.values() for one in some)
            result = scan_samples(ScanTask(path=folder.path, meta_folder=meta_folder, samples=self._batch, kept=kept))
            for name, some in candidates.items():
                values: dict[int, Value] = {}
                for one in reversed(some):
                    values.update(zip(*result.kept[one], strict=True))
                self._scanned[name] = values

    @staticmethod
    def check(folder: DatasetFolder, condition: Condition) -> None:
        """Check that samples can have the values of a condition.

        Raises:
            ConfigError: A name is neither a column nor that of a value of a part.
        """
        _, scanned = _names(folder, condition)
        parts = sorted({_plain(part) for part in folder.index.part_names})
        for name in scanned:
            if not any(_candidates(folder, name)):
                raise ConfigError(
                    f"there is no value {name!r}",
                    at=folder.path,
                    hint=f"name a column, one of {', '.join(_OF_ANY_PART)}, or the value of a part, such as "
                    f"{parts[0] if parts else 'jpg'}_{_OF_ANY_PART[0]}",
                )

    def matches(self) -> list[int]:
        """Return the numbers of the samples for which the condition is true.

        Raises:
            ConfigError: The condition compares a text with a number.
        """
        found: list[int] = self._batch[self._condition.holds(self, len(self._batch))].tolist()
        return found

    def column(self, name: str) -> Values:
        """Return the values of a name of the condition."""
        if name not in self._scanned:
            return self._columns.values(name, self._batch)
        values = self._scanned[name]
        known = np.array([number in values for number in self._batch.tolist()], np.bool_)
        texts = sorted({value for value in values.values() if isinstance(value, str)})
        if texts:
            codes = {text: code for code, text in enumerate(texts)}
            positions = [codes.get(str(values.get(number)), -1) for number in self._batch.tolist()]
            return Values(np.array(positions, np.int64), known, tuple(texts))
        numbers = [float(values.get(number, 0.0)) for number in self._batch.tolist()]
        return Values(np.array(numbers, np.float64), known)

    def size(self, part: str) -> Values:
        """Return the sizes of a part in bytes."""
        return self._columns.size(part, self._batch)


def _names(folder: DatasetFolder, condition: Condition) -> tuple[list[str], list[str]]:
    """Return the names of a condition that are columns, and the others."""
    columns = {*folder.column_names(), *INDEX_COLUMNS}
    return [name for name in condition.columns if name in columns], [
        name for name in condition.columns if name not in columns
    ]


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _candidates(folder: DatasetFolder, name: str) -> Iterator[str]:
    """Yield the values of parts that a name may stand for."""
    for part in folder.index.part_names:
        if name in _OF_ANY_PART:
            yield f"{part}.{name}"
        elif _plain(part) == name:
            yield part
        elif name.startswith(f"{_plain(part)}_"):
            rest = name[len(part) + 1 :]
            yield from dict.fromkeys((f"{part}.{rest}", f"{part}.{rest.replace('_', '.')}", *_last_dot(part, rest)))


def _last_dot(part: str, rest: str) -> Iterator[str]:
    """Yield the value with its last underscore as a dot: ``json_my_field_chars`` is ``json.my_field.chars``."""
    field, _, kind = rest.rpartition("_")
    if field:
        yield f"{part}.{field}.{kind}"


def condition_name(folder: DatasetFolder, value: str) -> str | None:
    """Return the expression of a condition for a value of :mod:`loader.inspect.stats`; None if it has none."""
    part, _, kind = value.rpartition(".")
    if kind == "bytes" and part in folder.index.part_names and folder.records is None:
        return f"size({part!r})"
    name = _plain(value)
    if name in folder.column_names() or name in INDEX_COLUMNS or value in _candidates(folder, name):
        return name
    return None
