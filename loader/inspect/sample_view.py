"""Where ``preview`` gets samples from: which of a dataset's samples, in which order, raw or made."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from loader.errors import ConfigError, EnergonError, TrustError

from ..console import format_count
from .fields import FieldView, describe_part, describe_value
from .render import SampleView

if TYPE_CHECKING:
    from loader.format.dataset_folder import DatasetFolder

__all__ = ["Build", "Selection", "describe_parts", "describe_sample", "place_of", "select_samples", "view_of_sample"]

Build = Callable[[Mapping[str, bytes], str], Any]
"""Makes a sample of its parts and its key."""


class Selection:
    """Some of a dataset's samples in some order, without a list of them all.

    Args:
        ranges: Half-open ranges of sample numbers.
        seed: Shuffles, reproducibly; None keeps the order.

    >>> selection = Selection([range(10, 12), range(20, 23)])
    >>> [selection[place] for place in range(len(selection))]
    [10, 11, 20, 21, 22]
    """

    def __init__(self, ranges: Sequence[range], *, seed: int | None = None) -> None:
        self._ranges = [some for some in ranges if len(some)]
        self._ends = list(accumulate(len(some) for some in self._ranges))
        self._random = None if seed is None else random.Random(seed)
        self._drawn: list[int] = []  # as far as was looked
        self._moved: dict[int, int] = {}  # a Fisher–Yates shuffle that keeps only what it moved

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, place: int) -> int:
        if not 0 <= place < len(self):
            raise IndexError(place)
        if self._random is None:
            return self._ordered(place)
        while len(self._drawn) <= place:
            done = len(self._drawn)
            other = self._random.randrange(done, len(self))
            self._drawn.append(self._moved.get(other, other))
            self._moved[other] = self._moved.get(done, done)
        return self._ordered(self._drawn[place])

    def _ordered(self, place: int) -> int:
        which = bisect_right(self._ends, place)
        return self._ranges[which][place - (self._ends[which - 1] if which else 0)]


def select_samples(
    dataset: DatasetFolder, *, split_parts: Sequence[str] | None, key: str | None, seed: int | None
) -> Selection:
    """Choose samples by split part or by key.

    Raises:
        ConfigError: There is no such part or key; the message names those there are.
    """
    if key is not None:
        found = dataset.index.find(key)
        if not found:
            raise ConfigError(
                f"no sample has the key {key!r}",
                at=dataset.path,
                hint="give it as '<shard>/<key>', or as the key alone; energon preview shows some",
            )
        return Selection([range(number, number + 1) for number in found])
    if split_parts is None:
        return Selection([range(len(dataset.index))], seed=seed)
    return Selection([some for name in split_parts for some in dataset.samples_of_part(name)], seed=seed)


def view_of_sample(dataset: DatasetFolder, number: int, *, title: str, build: Build | None) -> SampleView:
    """Read one sample and describe it: as training gets it, or its raw parts where it has no type or cannot be made.

    Args:
        dataset: The dataset.
        number: The sample's number in the whole dataset.
        title: What to say about its place.
        build: Makes a sample of parts and key; None shows the parts.
    """
    key = dataset.index.full_key(number)
    heading = f"{key}   {title}{_excluded(dataset, number)}"
    try:
        parts = dataset.read_parts(number)
    except EnergonError as error:
        return SampleView(title=heading, fields=(), fault=str(error))
    if build is None:
        return SampleView(title=heading, fields=describe_parts(parts))
    try:
        sample = build(parts, key)
    except TrustError as error:
        return SampleView(title=heading, fields=describe_parts(parts), note=_untrusted(error))
    except EnergonError as error:
        return SampleView(title=heading, fields=describe_parts(parts), fault=str(error))
    except Exception as error:  # noqa: BLE001 - the dataset's own code may raise anything
        return SampleView(title=heading, fields=describe_parts(parts), fault=f"{type(error).__name__}: {error}")
    return SampleView(title=heading, fields=describe_sample(sample))


def _excluded(dataset: DatasetFolder, number: int) -> str:
    """Say that training leaves a sample out, where the split file says so."""
    try:
        return ", excluded" if dataset.is_excluded(number) else ""
    except EnergonError:
        return ""  # a fault in a file that is not asked for is lint's matter


def _untrusted(error: TrustError) -> str:
    at = f"\n  at: {error.at}" if error.at else ""
    hint = "\n  hint: read it; if you trust it, add --trust-code"
    return f"shown as parts, since --trust-code is not given: {error.message}{at}{hint}"


def describe_parts(parts: Mapping[str, bytes]) -> tuple[FieldView, ...]:
    """Describe the raw parts of a sample."""
    return tuple(describe_part(name, data) for name, data in parts.items())


def describe_sample(sample: Any) -> tuple[FieldView, ...]:
    """Describe the fields of a made sample, or the values of a crude one; bookkeeping (``__key__`` …) is left out."""
    if isinstance(sample, Mapping):
        values: dict[str, Any] = dict(sample)
    elif is_dataclass(sample):
        values = {each.name: getattr(sample, each.name, None) for each in fields(sample)}
    else:
        values = dict(vars(sample))
    return tuple(describe_value(name, value) for name, value in values.items() if not name.startswith("__"))


def place_of(place: int, count: int) -> str:
    """Say which of how many, counted from 0 as ``--index`` does."""
    return f"sample {format_count(place)} of {format_count(count)}"
