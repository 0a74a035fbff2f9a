"""The groups of samples that a split keeps together: by key, column, a value in a part, or equal contents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b

import msgspec
import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError, SampleError
from ...format.columns.column import open_column
from ...format.columns.column_files import column_names
from ...format.dataset_folder import DatasetFolder
from ...format.documents.field_map import parse_field_expression
from ...format.documents.value_name import ValueName

ProgressCallback = Callable[[int, int], None]
"""Called with the number of samples that are read, and of all."""

_REPORT_SAMPLES = 1000
_HINT = "give a column, key, key:REGEX, or a value in a part such as json[source]"


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The group of each sample.

    Attributes:
        numbers: Shape (n,): the number of each sample's group.
        names: Name of each group.
        alone: Number of samples without a value, each of which is a group of its own.
    """

    numbers: IntArray
    names: list[str]
    alone: int = 0

    @property
    def sizes(self) -> IntArray:
        """Number of samples of each group."""
        return np.bincount(self.numbers, minlength=len(self.names)).astype(np.int64)


class _Collector:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._of_samples: list[int] = []
        self._alone = 0

    def add(self, value: str | None) -> None:
        if value is None:
            value = f"\0{self._alone}"  # no text of a sample, in a group of its own
            self._alone += 1
        self._of_samples.append(self._numbers.setdefault(value, len(self._numbers)))

    def finish(self) -> Groups:
        return Groups(np.array(self._of_samples, np.int64), list(self._numbers), self._alone)


def find_groups(
    folder: DatasetFolder, expression: str | None, *, on_progress: ProgressCallback | None = None
) -> Groups:
    """Group the samples of a dataset.

    Args:
        folder: The dataset.
        expression: Name of a column; ``key``, or ``key:REGEX``, which groups by its first group or its whole match; a
            value in a part, ``json[source]`` or ``txt``; None for a group for each sample.
        on_progress: Called while samples are read.

    Raises:
        ConfigError: The expression names nothing of the dataset.
        SampleError: A part cannot be decoded.
    """
    index, collector = folder.index, _Collector()
    if expression is None:
        return Groups(np.arange(len(index)), [index.full_key(sample) for sample in range(len(index))])
    if expression in column_names(folder.storage):
        column = open_column(folder.storage, index, expression)
        for sample in range(len(index)):
            value = column.value(sample)
            collector.add(None if value is None else str(value))
    elif expression == "key" or expression.startswith("key:"):
        pattern = _pattern(expression)
        for sample in range(len(index)):
            match = pattern.search(folder.tar_index.key(sample))
            collector.add(match and (match[1] if pattern.groups else match[0]))
    else:
        for value in _values(folder, expression, on_progress):
            collector.add(value)
    return collector.finish()


def group_contents(folder: DatasetFolder, part: str | None, *, on_progress: ProgressCallback | None = None) -> Groups:
    """Group samples whose parts have the same bytes; names of groups are the keys of their first samples.

    Args:
        folder: The dataset.
        part: Compare this part alone; samples without it are alone.
        on_progress: Called while samples are read.
    """
    collector, names = _Collector(), list[str]()
    for sample, parts in _read(folder, None if part is None else [part], on_progress):
        digest = blake2b(digest_size=16)
        for name, value in sorted(parts.items()):
            data = value if isinstance(value, bytes) else repr(value).encode()
            digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
            digest.update(data)
        collector.add(digest.hexdigest() if parts else None)
        names.append(folder.index.full_key(sample))
    groups = collector.finish()
    _, first = np.unique(groups.numbers, return_index=True)
    return Groups(groups.numbers, [names[sample] for sample in first.tolist()], groups.alone)


def _pattern(expression: str) -> re.Pattern[str]:
    try:
        return re.compile(expression[4:] if expression != "key" else r"(?s:.*)")
    except re.error as error:
        raise ConfigError(f"{expression[4:]!r} is no regular expression: {error}", hint=_HINT) from error


def _values(folder: DatasetFolder, expression: str, on_progress: ProgressCallback | None) -> Iterator[str | None]:
    try:
        accesses = parse_field_expression(expression)
    except ValueError as error:
        raise ConfigError(f"{expression!r} names no group: {error}", at=folder.path, hint=_HINT) from error
    known = [stats.name for stats in folder.index.part_stats()]
    if not any(access.part in known for access in accesses):
        raise ConfigError(
            f"there is no column or part {expression!r}; columns: {', '.join(column_names(folder.storage)) or 'none'};"
            f" parts: {', '.join(known)}",
            at=folder.path,
            hint=_HINT,
        )
    for sample, parts in _read(folder, [access.part for access in accesses], on_progress):
        found = (_value(access, parts, folder, sample) for access in accesses if access.part in parts)
        yield next((value for value in found if value is not None), None)


def _value(access: ValueName, parts: dict[str, object], folder: DatasetFolder, sample: int) -> str | None:
    data = parts[access.part]
    try:
        value = msgspec.json.decode(data) if isinstance(data, bytes) and access.path else data
        value = access.value(value)
    except LookupError:
        return None
    except (ValueError, RecursionError) as error:
        raise SampleError(
            f"expected JSON in part {access.part!r}, found something else: {error}",
            source=f"{folder.path}: {folder.index.full_key(sample)}",
        ) from error
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    return value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)


def _read(
    folder: DatasetFolder, names: list[str] | None, on_progress: ProgressCallback | None
) -> Iterator[tuple[int, dict[str, object]]]:
    total = len(folder.index)
    with closing(folder):
        for sample in range(total):
            yield sample, folder.read_parts(sample, names)
            if on_progress is not None and (sample + 1) % _REPORT_SAMPLES == 0:
                on_progress(sample + 1, total)
