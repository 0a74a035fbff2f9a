"""One leaf of a metadataset as ``preview`` shows it: a dataset, a JSONL file, or the rows of a join."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from loader.errors import EnergonError, TrustError
from loader.format.dataset_folder import DatasetFolder
from loader.format.documents.subset import resolve_subset
from loader.format.jsonl.index import JsonlReader
from loader.format.nv_meta import DATASET_YAML, SPLIT_YAML
from loader.metadataset.documents.leaf_plan import JoinMember, JoinPlan, LeafPlan
from loader.metadataset.joins.open_join import open_join

from ..dataset_path import open_parent
from .build import make_build
from .fields import FieldView
from .render import SampleView
from .source import Build, Selection, describe_sample, view_of_sample
from .views import line_number, view_of_line

__all__ = ["LeafViews", "open_leaf_views"]


class LeafViews(Protocol):
    """The samples of a leaf, counted from 0 after its subset."""

    def __len__(self) -> int: ...

    def find(self, key: str) -> Sequence[int]:
        """Give the samples that have a key."""

    def view(self, index: int, title: str) -> SampleView:
        """Read a sample and describe it; ``title`` says what is to stand behind its key."""


def open_leaf_views(leaf: LeafPlan, *, crude: bool, trust_code: bool) -> LeafViews:
    """Open a leaf.

    Raises:
        ConfigError: There is no such split part, a subset does not fit, or a join is not prepared.
        FormatError: A JSONL file is not indexed.
        StorageError: A dataset is missing, or not prepared.
    """
    if leaf.join is not None:
        return _Rows(leaf, leaf.join, crude=crude, trust_code=trust_code)
    if leaf.path.endswith(".jsonl"):
        return _Lines(leaf)
    return _Samples(leaf, crude=crude, trust_code=trust_code)


def _open_folder(dataset: LeafPlan | JoinMember) -> DatasetFolder:
    return DatasetFolder(
        dataset.path,
        split_config=dataset.split_config or SPLIT_YAML,
        dataset_config=dataset.dataset_config or DATASET_YAML,
    )


class _Samples:
    """A split part of a prepared dataset."""

    def __init__(self, leaf: LeafPlan, *, crude: bool, trust_code: bool) -> None:
        self._folder = _open_folder(leaf)
        ranges = self._folder.samples_of_part(leaf.split_part, excluded_shards=True)
        start, stop = resolve_subset(leaf.subset, sum(map(len, ranges)), at=leaf.path)
        self._ranges = _cut(ranges, start, stop)
        self._numbers = Selection(self._ranges)
        self._build = None if crude else make_build(self._folder, trust_code=trust_code)

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, key: str) -> Sequence[int]:
        numbers = self._folder.index.find(key)
        begins = np.cumsum([0, *map(len, self._ranges)]).tolist()
        return [
            begin + number - some.start
            for number in numbers
            for begin, some in zip(begins, self._ranges, strict=False)
            if number in some
        ]

    def view(self, index: int, title: str) -> SampleView:
        return view_of_sample(self._folder, self._numbers[index], title=title, build=self._build)


class _Lines:
    """Lines of a JSONL file."""

    def __init__(self, leaf: LeafPlan) -> None:
        storage, self._name = open_parent(leaf.path)
        self._reader = JsonlReader(storage, self._name)
        self._start, self._stop = resolve_subset(leaf.subset, len(self._reader), at=leaf.path)

    def __len__(self) -> int:
        return self._stop - self._start

    def find(self, key: str) -> Sequence[int]:
        number = line_number(key, self._name, len(self._reader))
        return [] if number is None or not self._start <= number < self._stop else [number - self._start]

    def view(self, index: int, title: str) -> SampleView:
        number = self._start + index
        return view_of_line(self._reader, number, f"{self._name}/{number}   {title}")


class _Rows:
    """Rows of a join: what its joiner makes of the members' samples, or these where it may not."""

    def __init__(self, leaf: LeafPlan, join: JoinPlan, *, crude: bool, trust_code: bool) -> None:
        self._rows = open_join(join)
        self._start, self._stop = resolve_subset(leaf.subset, len(self._rows), at=f"{join.file}: {join.place}")
        self._members = [
            _Member(member, number, crude=crude, trust_code=trust_code) for number, member in enumerate(join.members)
        ]
        self._names = [member.name for member in join.members]
        self._joiner: Callable[..., Any] | None = None
        self._refused: EnergonError | None = None
        if not crude and join.joiner is not None:
            from loader.samples.building.dataset_code import load_joiner

            try:
                self._joiner = load_joiner(join.joiner, at=f"{join.file}: {join.place}", trust_code=trust_code)
            except EnergonError as error:
                self._refused = error

    def __len__(self) -> int:
        return self._stop - self._start

    def find(self, key: str) -> Sequence[int]:
        numbers = self._members[0].folder.index.find(key)
        found = np.flatnonzero(np.isin(self._rows[self._start : self._stop, 0], numbers))
        return [int(row) for row in found]

    def view(self, index: int, title: str) -> SampleView:
        numbers = self._rows[self._start + index].tolist()
        heading = f"{self._members[0].folder.index.full_key(numbers[0])}   {title}"
        if self._joiner is None:
            return self._separately(numbers, heading)
        try:
            samples = [member.make(number) for member, number in zip(self._members, numbers, strict=True)]
            joined = self._join(self._joiner, samples)
        except TrustError as error:
            return replace(self._separately(numbers, heading), note=_not_joined(error))
        except EnergonError as error:
            return replace(self._separately(numbers, heading), fault=str(error))
        except Exception as error:  # noqa: BLE001 - the joiner may raise anything
            fault = f"the joiner fails: {type(error).__name__}: {error}"
            return replace(self._separately(numbers, heading), fault=fault)
        return SampleView(title=heading, fields=describe_sample(joined))

    def _join(self, joiner: Callable[..., Any], samples: Sequence[Any]) -> Any:
        if None in self._names:
            return joiner(*samples)
        return joiner(**dict(zip(map(str, self._names), samples, strict=True)))

    def _separately(self, numbers: Sequence[int], heading: str) -> SampleView:
        """Show the members' samples side by side."""
        views = [member.view(number) for member, number in zip(self._members, numbers, strict=True)]
        faults = [view.fault for view in views if view.fault is not None]
        notes = [view.note for view in views if view.note is not None]
        if isinstance(self._refused, TrustError):
            notes.append(_not_joined(self._refused))
        elif self._refused is not None:
            faults.append(str(self._refused))
        return SampleView(
            title=heading,
            fields=[field for view in views for field in view.fields],
            fault="\n".join(faults) or None,
            note="\n".join(notes) or None,
        )


class _Member:
    """One dataset of a join."""

    def __init__(self, member: JoinMember, number: int, *, crude: bool, trust_code: bool) -> None:
        self.folder = _open_folder(member)
        self._label = member.name if member.name is not None else f"{number} {os.path.basename(member.path)}"
        self._build = None if crude else make_build(self.folder, trust_code=trust_code)
        self._trust_code = trust_code
        self._for_joiner: Build | None = None

    def make(self, number: int) -> Any:
        """Make the sample that the joiner is given; None where there is none."""
        if number < 0:
            return None
        if self._for_joiner is None:
            self._for_joiner = make_build(self.folder, trust_code=self._trust_code, crude_too=True)
        parts: Mapping[str, bytes] = self.folder.read_parts(number)
        return None if self._for_joiner is None else self._for_joiner(parts, self.folder.index.full_key(number))

    def view(self, number: int) -> SampleView:
        """Describe the sample, each field under the member's name."""
        if number < 0:
            return SampleView(title="", fields=[FieldView(name=self._label, facts="none has this key")])
        view = view_of_sample(self.folder, number, title="", build=self._build)
        fields = [replace(field, name=f"{self._label}: {field.name}") for field in view.fields]
        return replace(view, fields=fields)


def _not_joined(error: TrustError) -> str:
    at = f"\n  at: {error.at}" if error.at else ""
    hint = "\n  hint: read it; if you trust it, add --trust-code"
    return f"shown one beside the other, since --trust-code is not given: {error.message}{at}{hint}"


def _cut(ranges: Sequence[range], start: int, stop: int) -> list[range]:
    """Cut ``[start, stop)`` out of ranges laid end to end.

    >>> _cut([range(10, 15), range(30, 35)], 3, 7)
    [range(13, 15), range(30, 32)]
    """
    cut, begin = [], 0
    for some in ranges:
        cut.append(some[max(0, start - begin) : max(0, stop - begin)])
        begin += len(some)
    return [some for some in cut if len(some)]
