"""The groups of samples that a split keeps together: by key, column, a value in a part, or equal contents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import msgspec
import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.query import Compute, DatasetValues, column_or_values, only_value
from ..dataset.tar import tar_index
from ..errors import ConfigError, SampleError
from ..format.columns.column import ComparedValues
from ..format.dataset_ref import DatasetRef
from ..format.documents.value_name import ValueName, read_value_names
from ..metadataset.leaf_samples import samples_of_splits
from ..parts.large_parts import CHECKED_JSON_BYTES

ProgressCallback = Callable[[int, int], None]
"""Called with the number of samples that are read, and of all."""

_REPORT_SAMPLES = 1000
ALONE = "\0"
"""Begins the name of the group of a sample without a value, and no text of samples."""
_HINT = "give a column, key, key:REGEX, or a value such as json[source] or jpg.width"


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The group of each sample.

    Attributes:
        numbers: Shape (n,): the number of each sample's group.
        alone: Number of samples without a value; each one is a group of its own.
    """

    numbers: IntArray
    names: list[str]
    alone: int = 0

    @property
    def sizes(self) -> IntArray:
        return np.bincount(self.numbers, minlength=len(self.names)).astype(np.int64)


class _Collector:
    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._of_samples: list[int] = []
        self._alone = 0

    def add(self, value: str | None) -> None:
        if value is None:
            value = f"{ALONE}{self._alone}"
            self._alone += 1
        self._of_samples.append(self._numbers.setdefault(value, len(self._numbers)))

    def finish(self) -> Groups:
        return Groups(np.array(self._of_samples, np.int64), list(self._numbers), self._alone)


def find_groups(
    folder: Dataset,
    expression: str | None,
    *,
    compute: Compute | None = None,
    on_progress: ProgressCallback | None = None,
) -> Groups:
    """Group the samples of a dataset.

    Args:
        expression: Name of a column; ``key``, or ``key:REGEX``, which groups by its first group or its whole match; a
            value in a part, ``json[source]`` or ``txt``; None for a group for each sample.
        compute: Reads a measured value that is not a column, such as ``jpg.width``; None refuses it.
        on_progress: Called while samples are read.
    """
    # Without an expression, each sample is a group; a key needs no contents.
    index, collector = folder.index, _Collector()
    if expression is None:
        return Groups(np.arange(len(index)), [index.full_key(sample) for sample in range(len(index))])
    if (expression == "key" or expression.startswith("key:")) and expression not in folder.documents.column_names():
        pattern = _pattern(expression)
        for sample in range(len(index)):
            match = pattern.search(tar_index(folder).key(sample))
            collector.add(match and (match[1] if pattern.groups else match[0]))
        return collector.finish()
    # Read values inside parts whole; what is measured is in a column, or computed.
    names = _inside_parts(folder, expression)
    if not names:
        every = np.arange(len(index))
        for value in _as_texts(DatasetValues(folder, [expression], every, compute).values(expression, every)):
            collector.add(value)
        return collector.finish()
    # A name may mean values of several parts: group by each, and then choose the one that exists.
    collectors = [_Collector() for _ in names]
    for sample, parts in _read(folder, [name.part for some in names for name in some], on_progress):
        for group_collector, some in zip(collectors, names, strict=True):
            values = (_value(name, parts, folder, sample) for name in some if name.part in parts)
            group_collector.add(next((value for value in values if value is not None), None))
    groups = [collector.finish() for collector in collectors]
    existing = [some[0] for some, group in zip(names, groups, strict=True) if group.alone < len(index)]
    chosen = only_value(expression, existing, at=folder.path)
    return next(group for some, group in zip(names, groups, strict=True) if some[0] == chosen)


def _inside_parts(folder: Dataset, expression: str) -> list[list[ValueName]]:
    # Find the columns and the values that each alternative may mean.
    meanings = [column_or_values(folder, name) for name in _alternatives(expression, at=folder.path)]
    if not any(column is not None or meant for column, meant in meanings):
        raise ConfigError(
            f"there is no column or part {expression!r}; columns: "
            f"{', '.join(folder.documents.column_names()) or 'none'};"
            f" parts: {', '.join(folder.index.part_names)}",
            at=folder.path,
            hint=_HINT,
        )
    # Traits such as a width are measured, not read from inside of a part.
    if any(name.trait for _, meant in meanings for name in meant):
        return []
    if len(meanings) > 1:
        return [[meant[0] for _, meant in meanings if meant]]
    return [[name] for name in meanings[0][1]]


def _as_texts(column: ComparedValues) -> list[str | None]:
    values, known = column.values.tolist(), column.known.tolist()
    if column.categories is not None:
        return [column.categories[value] if is_known else None for value, is_known in zip(values, known, strict=True)]
    return [str(value) if is_known else None for value, is_known in zip(values, known, strict=True)]


def group_contents(folder: Dataset, part: str | None, *, on_progress: ProgressCallback | None = None) -> Groups:
    """Group samples whose parts, or whose one part, have the same bytes; digests are the names of groups."""
    collector = _Collector()
    for _, parts in _read(folder, None if part is None else [part], on_progress):
        # Names and sizes separate the parts: another division of the same bytes has another digest.
        digest = blake2b(digest_size=16)
        for name, value in sorted(parts.items()):
            data = value if isinstance(value, bytes) else repr(value).encode()
            digest.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
            digest.update(data)
        collector.add(digest.hexdigest() if parts else None)
    return collector.finish()


def _joined(each: Iterable[Groups]) -> Groups:
    """Join the groups of one name in several datasets."""
    collector = _Collector()
    for groups in each:
        for group in groups.numbers.tolist():
            name = groups.names[group]
            collector.add(None if name.startswith(ALONE) else name)
    return collector.finish()


def _pattern(expression: str) -> re.Pattern[str]:
    try:
        return re.compile(expression[4:] if expression != "key" else r"(?s:.*)")
    except re.error as error:
        raise ConfigError(f"{expression[4:]!r} is not a regular expression: {error}", hint=_HINT) from error


def check_group_expression(expression: str) -> None:
    """Check the form of an expression of groups, without a dataset."""
    if expression.startswith("key:"):
        _pattern(expression)
    else:
        _alternatives(expression, at=None)


def _alternatives(expression: str, *, at: str | None) -> list[str]:
    try:
        return [name for _, name in read_value_names(expression)]
    except ValueError as error:
        raise ConfigError(f"{expression!r} names no group: {error}", at=at, hint=_HINT) from error


def _value(access: ValueName, parts: dict[str, object], folder: Dataset, sample: int) -> str | None:
    data = parts[access.part]
    if isinstance(data, bytes) and access.path and len(data) > CHECKED_JSON_BYTES:
        raise SampleError(
            f"JSON of {len(data):,} bytes is not parsed; expected at most {CHECKED_JSON_BYTES:,}",
            part=access.part,
            source=f"{folder.path}: {folder.index.full_key(sample)}",
            hint="group by another value",
        )
    # A sample without the value is a group of its own.
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
        return value.decode("utf-8", "backslashreplace").strip()  # other bytes are another group
    return value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)


def _read(
    folder: Dataset, names: list[str] | None, on_progress: ProgressCallback | None
) -> Iterator[tuple[int, dict[str, object]]]:
    total = len(folder.index)
    with closing(folder):
        for sample in range(total):
            yield sample, folder.read_parts(sample, names)
            if on_progress is not None and (sample + 1) % _REPORT_SAMPLES == 0:
                on_progress(sample + 1, total)


_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A group with samples in several parts.

    Attributes:
        samples: Part → number of its samples.
    """

    group: str
    samples: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakReport:
    """Groups and samples that parts of a split share.

    Attributes:
        overlapping_samples: Number of samples that are in several parts themselves.
    """

    groups: int
    leaking_groups: int
    leaking_samples: int
    overlapping_samples: int
    leaks: tuple[Leak, ...]

    @property
    def is_clean(self) -> bool:
        return not self.leaking_groups and not self.overlapping_samples


def find_leaks(
    path: str,
    *,
    group_by: str | None = None,
    part: str | None = None,
    split_config: str = "split.yaml",
    compute: Compute | None = None,
    on_progress: ProgressCallback | None = None,
) -> LeakReport:
    """Find the groups whose samples are in several parts of the present split; excluded samples do not count.

    The splits of a metadataset are compared through all of its datasets.

    Args:
        group_by: Expression of the groups, see :func:`.find_groups`; None compares contents.
        part: Compare the contents of this part of samples alone.
        on_progress: Called while samples are read.

    Raises:
        ConfigError: The dataset has no split, or the expression names nothing.
    """
    # Group the samples of all datasets, and compare the groups with the split parts.
    datasets, members = samples_of_splits(DatasetRef(path, split_config=split_config))
    group: Callable[..., Groups] = partial(group_contents, part=part)
    if group_by is not None:
        group = partial(find_groups, expression=group_by, compute=compute)
    groups = _joined(group(each, on_progress=on_progress) for each in datasets.folders)
    if group_by is not None:
        return leaks_of(groups.numbers, members, groups.names.__getitem__)
    # The first sample of a group is its number and its name.
    _, first = np.unique(groups.numbers, return_index=True)
    return leaks_of(first[groups.numbers], members, datasets.full_key)


def leaks_of(groups: IntArray, members: dict[str, IntArray], name: Callable[[int], str]) -> LeakReport:
    """Return what parts share.

    Args:
        groups: Shape (n,): the number of the group of each sample.
        members: The numbers of each part's samples.
        name: Returns the name of a group.
    """
    # Count the samples of each group in each part, and the parts of each sample.
    counts = np.zeros((int(groups.max(initial=-1)) + 1, len(members)), np.int64)
    times = np.zeros(len(groups), np.int64)
    for column, numbers in enumerate(members.values()):
        counts[:, column] = np.bincount(groups[numbers], minlength=len(counts))
        times[numbers] += 1
    # A group leaks if several parts have samples of it; show the largest ones.
    leaking = np.flatnonzero((counts > 0).sum(axis=1) > 1)
    totals = counts[leaking].sum(axis=1)
    largest = leaking[np.argsort(-totals, kind="stable")][:_MAX_SHOWN]
    return LeakReport(
        groups=int((counts.sum(axis=1) > 0).sum()),
        leaking_groups=len(leaking),
        leaking_samples=int(totals.sum()),
        leaks=tuple(
            Leak(
                group=name(group),
                samples={part: int(n) for part, n in zip(members, counts[group].tolist(), strict=True) if n},
            )
            for group in largest.tolist()
        ),
        overlapping_samples=int((times > 1).sum()),
    )
