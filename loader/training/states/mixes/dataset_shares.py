"""Describe the datasets in a saved state with their shares of the mix; a damaged description has no shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ....metadataset.documents.weight_schedule import schedule_text
from .differences import each_setting

_MAX_VALUES = 1_000_000  # shares that are calculated for one state, which may be hostile


def described_datasets(identity: Any) -> Iterator[dict[str, Any]]:
    """Yield the sources of readers, and their shares; a join has members.

    Args:
        identity: The description of a chain: ``[name, settings, *inputs]``.

    Yields:
        ``path split_part uuid samples share schedule members`` each. ``share`` is the one at the beginning, None if
        datasets have no weights, or these are damaged. ``schedule`` is its text; None if it does not change.
    """
    yield from _Datasets().below(identity, _Share())


@dataclass(frozen=True, slots=True)
class _Share:
    """A share of the mix, in each stretch of a schedule."""

    unit: str = "steps"
    starts: Sequence[int] = (0,)
    values: Sequence[float] = (1.0,)

    def times(self, unit: str, starts: Sequence[int], values: Sequence[float]) -> _Share:
        """Return the share of an input, which has a share of this one."""
        if len(starts) == 1:
            return _Share(self.unit, self.starts, [value * values[0] for value in self.values])
        if len(self.starts) == 1:
            return _Share(unit, starts, [value * self.values[0] for value in values])
        if unit != self.unit:
            raise ValueError(f"expected schedules in {self.unit!r}, found {unit!r}")
        both = sorted({*starts, *self.starts})
        mine, theirs = _at(both, self.starts, self.values), _at(both, starts, values)
        return _Share(unit, both, [one * other for one, other in zip(mine, theirs, strict=True)])

    def text(self) -> str | None:
        """Describe how it changes; None if it does not."""
        if all(value == self.values[0] for value in self.values):
            return None
        return schedule_text(self.unit, self.starts, self.values)


def _at(starts: Sequence[int], own_starts: Sequence[int], values: Sequence[float]) -> Iterator[float]:
    """Yield the value of a schedule in each of more stretches."""
    place = 0
    for start in starts:
        while place + 1 < len(own_starts) and own_starts[place + 1] <= start:
            place += 1
        yield values[place]


class _Datasets:
    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def below(self, identity: Any, share: _Share | None) -> Iterator[dict[str, Any]]:
        if isinstance(identity, list | tuple):
            is_stage = len(identity) > 2 and isinstance(identity[0], str)
            inputs = identity[2:] if is_stage else identity
            parts = self._parts(identity[1], len(inputs), share) if is_stage else [None] * len(inputs)
            for part, own in zip(inputs, parts, strict=True):
                yield from self.below(part, own)
        elif isinstance(identity, Mapping) and "path" in identity and "samples" in identity:
            yield {
                "path": identity["path"],
                "split_part": identity.get("split_part"),
                "uuid": identity.get("uuid"),
                "samples": identity["samples"],
                "share": None if share is None else share.values[0],
                "schedule": None if share is None else share.text(),
                "members": list(self.below(identity.get("members", []), None)),
            }

    def _parts(self, settings: Any, count: int, share: _Share | None) -> Sequence[_Share | None]:
        """Return the shares of the inputs of a stage."""
        if count == 1 or share is None:
            return [share] * count
        try:
            return self._weighted(settings, count, share)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):  # damaged
            return [None] * count

    def _weighted(self, settings: Any, count: int, share: _Share) -> list[_Share]:
        schedule = settings.get("schedule")
        starts = [0] if schedule is None else [_number(start, int) for start in schedule["starts"]]
        unit = "steps" if schedule is None else schedule["unit"]
        if unit not in ("steps", "samples") or starts != sorted({*starts}) or starts[0] != 0:
            raise ValueError("damaged starts")
        self._left -= count * (len(starts) + len(share.starts))
        if self._left < 0:
            raise ValueError("too many weights")
        weights = settings["weights"] if schedule is None else schedule["weights"]
        columns = []
        for own in each_setting(weights, count):
            column = own if isinstance(own, list | tuple) else [own] * len(starts)
            if len(column) != len(starts):
                raise ValueError("damaged weights")
            columns.append([_number(weight, int | float) for weight in column])
        if len(columns) != count:
            raise ValueError("damaged weights")
        totals = [sum(row) for row in zip(*columns, strict=True)]
        return [
            share.times(unit, starts, [weight / total for weight, total in zip(own, totals, strict=True)])
            for own in columns
        ]


def _number(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or not isfinite(value) or value < 0:
        raise ValueError(f"expected a number of at least 0, found {value!r:.40}")
    return value
