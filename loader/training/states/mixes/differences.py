"""Differences between runs that keep one from continuing the other, by name: ``batch_size 4 → 8``.

A restore that is refused lists them, and so does ``energon diff``.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

from ....format.documents.messages import short_key, short_repr
from ....pipeline.reading.planned_schedule import schedule_texts
from ..run_state import RunState

MISSING = "nothing"
"""Text of a value that only one of both has."""


_MAX_NAMES = 1000  # of Names
_SHOWN_NAMES = 3
_DIGITS = 3  # of fractions, if they differ there
_NAMES = {
    "which": "checksum of the selected samples",
    "excluded": "samples excluded at its beginning",
    "shuffle_buffer": "shuffle_buffer_size",
    "slice_lengths": "max_samples_per_sequence",
    "epochs_together": "shuffle_over_epochs_multiplier",
}
"""Names of values whose keys in a state are others."""
_OF_SOURCES = {"weights": "weight", "repetitions": "repetitions", "slice_lengths": "", "epochs_together": ""}
"""Settings of a reader that have a value for each dataset, and their names for one."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names that only one of both has."""

    count: int
    first: tuple[str, ...] = field(metadata={"json": "names"})

    @classmethod
    def of(cls, names: Sequence[str]) -> Names | None:
        return cls(len(names), tuple(names[:_MAX_NAMES])) if names else None

    def text(self, side: str) -> str:
        """Return the count and the first names: ``"41 only in A (00000, 00001, 00002, …)"``."""
        first = ", ".join(map(short_key, self.first[:_SHOWN_NAMES]))
        return f"{self.count:,} only in {side} ({first}{', …' if self.count > _SHOWN_NAMES else ''})"


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs.

    Attributes:
        place: Stages and path of the dataset that have the value, such as ``"batch"``; may be empty.
        name: Name of the value, such as ``"batch_size"``.
        before: The value before; None if it is missing. Names that only A has are :class:`Names`.
        after: The value after; None if it is missing. Names that only B has are :class:`Names`.

    >>> print(Difference("batch", "batch_size", 4, 8))
    batch: batch_size 4 → 8
    >>> print(Difference("/data/a, train", "weight", 1 / 3, 0.75))
    /data/a, train: weight 0.333 → 0.75
    >>> print(Difference("a.tar", "samples", Names.of(["x", "y"]), None))
    a.tar: samples: 2 only in A (x, y)
    """

    place: str
    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        name = f"{self.place}: {self.name}" if self.place and self.name else self.place or self.name
        pairs = ((self.before, "A"), (self.after, "B"))
        names = [value.text(side) for value, side in pairs if isinstance(value, Names)]
        if names:
            return f"{name}: {', '.join(names)}"
        before, after = _shown_pair(self.before, self.after)
        return f"{name} {before} → {after}"


class _Text(str):
    __slots__ = ()


def _shown_pair(before: Any, after: Any) -> tuple[str, str]:
    """Return the texts of two values; fractions have as few digits as tell them apart."""
    if all(value is None or isinstance(value, float) for value in (before, after)):
        for digits in (_DIGITS, 6):
            first, second = ("none" if value is None else f"{value:.{digits}g}" for value in (before, after))
            if first != second:
                return first, second
    return _shown(before), _shown(after)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, _Text) else short_repr(value)


def differences(saved: Any, now: Any, place: str = "") -> Iterator[Difference]:
    """Yield the differences between two descriptions of chains: nested lists and dicts of plain values.

    Paths do not count: data may be moved.
    """
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        # Two dicts: compare the values of each key.
        inside = ": ".join(filter(None, (place, _path(saved, now)))) if "path" in now else place
        for key in sorted({*saved, *now}, key=short_key):
            before, after = saved.get(key), now.get(key)
            if key == "path" or before == after:  # data may have been moved; the uuid identifies it
                continue
            if isinstance(before, Mapping | list | tuple) and isinstance(after, Mapping | list | tuple):
                yield from differences(before, after, f"{inside}: {short_key(key)}" if inside else short_key(key))
            else:
                yield Difference(inside, _NAMES.get(key, short_key(key)), before, after)
    elif _is_reader(saved) and _is_reader(now):
        # Two readers: compare dataset by dataset, since their lists may differ in length.
        inner = f"{place} > read".removeprefix(" > ")
        try:
            of_readers = list(_reader_differences(saved, now, inner))
        except (ArithmeticError, LookupError, TypeError, ValueError):  # a damaged description
            of_readers = []
        yield from of_readers or _list_differences(saved, now, place)  # such as weights in another unit
    elif isinstance(saved, list | tuple) and isinstance(now, list | tuple):
        yield from _list_differences(saved, now, place)
    elif saved != now:
        yield Difference(place, "" if place else "stage", saved, now)


def with_decoders_of(now: Any, saved: Any, changed: list[str]) -> Any:
    """Return a saved description with the options of the present decoders, which do not change which samples come.

    Args:
        changed: Receives a line for each decoder whose options have changed.

    >>> with_decoders_of(["decode", {"decoder": "D(b=2)"}, 7], ["decode", {"decoder": "D(b=1)"}, 5], changed := [])
    ['decode', {'decoder': 'D(b=2)'}, 5]
    >>> changed
    ['b=1 → b=2']
    """
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        # Compare the decoders of this stage.
        kept = {key: with_decoders_of(now.get(key), value, changed) for key, value in saved.items()}
        before, after = saved.get("decoder"), now.get("decoder")
        if before == after or not isinstance(before, str):
            return kept
        if not str(after).startswith(before.partition("(")[0] + "("):
            return kept  # another class
        # The class is the same: name the options that differ, and take the present ones.
        options, now_options = (
            set(decoder.partition("(")[2].rstrip(")").split(", ")) for decoder in (before, str(after))
        )
        changed.append(
            f"{short_key(', '.join(sorted(options - now_options)))} → {', '.join(sorted(now_options - options))}"
        )
        return {**kept, "decoder": after}
    if isinstance(saved, list | tuple) and isinstance(now, list | tuple) and len(saved) == len(now):
        return [with_decoders_of(*pair, changed) for pair in zip(now, saved, strict=True)]
    return saved


def _list_differences(saved: Sequence[Any], now: Sequence[Any], place: str) -> Iterator[Difference]:
    is_stage = bool(now) and isinstance(now[0], str)
    inner = (f"{place} > {now[0]}" if is_stage else place).removeprefix(" > ")
    if len(saved) == len(now):
        for value, other in zip(saved, now, strict=True):
            yield from differences(value, other, inner)
    elif is_stage:
        yield Difference(inner, "inputs", max(0, len(saved) - 2), max(0, len(now) - 2))
    else:
        yield Difference(inner, "number of values", len(saved), len(now))


def _path(saved: Mapping[Any, Any], now: Mapping[Any, Any]) -> str:
    before = saved.get("path")
    return str(now["path"]) if before in (None, now["path"]) else f"{now['path']} (saved with {short_key(before)})"


def _is_reader(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) > 2
        and value[0] == "read"
        and isinstance(value[1], Mapping)
        and all(isinstance(source, Mapping) and "path" in source for source in value[2:])
    )


def _reader_differences(saved: Sequence[Any], now: Sequence[Any], place: str) -> Iterator[Difference]:
    """Yield the differences between two readers, by dataset: its share of the mix, its settings and its data."""
    # Compare the settings that all datasets share.
    settings, settings_now = saved[1], now[1]
    common = [
        name
        for name in _OF_SOURCES
        if name in settings
        and name in settings_now
        and (name == "weights" or list in map(type, (settings[name], settings_now[name])))
    ]
    schedules = settings.get("schedule"), settings_now.get("schedule")
    apart = {*common, "schedule"}
    others, others_now = ({name: one[name] for name in one if name not in apart} for one in (settings, settings_now))
    yield from differences(others, others_now, place)
    # Take the settings of each dataset; where schedules differ, their texts stand for the weights.
    sources, sources_now = saved[2:], now[2:]
    values = {
        name: [
            _of_each(one[name], name, len(those)) for one, those in ((settings, sources), (settings_now, sources_now))
        ]
        for name in common
    }
    names = dict(_OF_SOURCES)
    if schedules[0] != schedules[1]:
        names["weights"] = "weight schedule"
        values["weights"] = [
            _shares_as_texts(schedule, shares, len(those))
            for schedule, shares, those in zip(schedules, values["weights"], (sources, sources_now), strict=True)
        ]
        if values["weights"][0] == values["weights"][1]:  # the texts of long schedules are cut
            yield Difference(place, "weight schedule", *schedules)
    # Compare the datasets pair by pair: settings, then data.
    pairs = _pair_sources(sources, sources_now)
    for row, other in pairs:
        known = None if row is None else sources[row]
        present = None if other is None else sources_now[other]
        name = leaf_name(present or known or {})
        for key, (before, after) in values.items():
            one = None if row is None else before[row]
            two = None if other is None else after[other]
            if one != two and (key == "weights" or None not in (row, other)):
                yield Difference(name, names[key] or _NAMES[key], one, two)
        if known is not None and present is not None:
            yield from differences(known, present)
        elif "weights" not in values:
            counts = (None if source is None else source["samples"] for source in (known, present))
            yield Difference(name, "samples", *counts)
    # Compare their order.
    order = [row for row, other in pairs if row is not None and other is not None]
    if order != sorted(order):
        yield Difference(
            place,
            "order of the datasets",
            _Text(", ".join(leaf_name(sources[row]) for row in sorted(order)[:_SHOWN_NAMES])),
            _Text(", ".join(leaf_name(sources[row]) for row in order[:_SHOWN_NAMES])),
        )


def _shares_as_texts(schedule: Any, known: Sequence[float], count: int) -> list[Any]:
    """Return the share of each dataset in each stretch of its schedule; one share without a schedule."""
    return list(map(_Text, schedule_texts(schedule, count) if schedule else (f"{share:.3g}" for share in known)))


def _of_each(value: Any, name: str, count: int) -> list[Any]:
    values = each_setting(value, count)
    return [round(share, 12) for share in shares(values, 1.0)] if name == "weights" else values


def _pair_sources(
    sources: Sequence[Mapping[str, Any]], sources_now: Sequence[Mapping[str, Any]]
) -> list[tuple[int | None, int | None]]:
    """Pair the datasets of two readers by their data, their path or, if there are as many, their position."""
    # Pair by the most precise facts first, then by the position: as many datasets as before were edited there.
    facts: list[Callable[[tuple[int, Mapping[str, Any]]], Any]] = [
        lambda row: [row[1].get(key) for key in ("path", "uuid", "split_part", "filter", "which")],
        lambda row: [row[1].get(key) for key in ("uuid", "split_part", "which")],
        lambda row: row[1].get("path"),
    ]
    if len(sources) == len(sources_now):
        facts.append(itemgetter(0))
    paired = pair_equal(dict(enumerate(enumerate(sources))), [*enumerate(sources_now)], facts)
    gone = [row for row in range(len(sources)) if row not in paired]
    return [*zip(paired, range(len(sources_now)), strict=True), *((row, None) for row in gone)]


T = TypeVar("T")


def pair_equal(known: Mapping[int, T], now: Sequence[T], facts: Iterable[Callable[[T], Any]]) -> list[int | None]:
    """Return for each value the number of the known one that equals it; None for a new one. Each is in one pair.

    Args:
        facts: What equal values share, the most precise first: each function pairs only what is left.
    """
    paired: list[int | None] = [None] * len(now)
    for fact in facts:
        free: dict[str, deque[int]] = defaultdict(deque)  # equal ones are paired in their order
        taken = {*paired}
        for origin, value in known.items():
            if origin not in taken:
                free[repr(fact(value))].append(origin)
        for row, value in enumerate(now):
            if paired[row] is None and (same := free.get(repr(fact(value)))):
                paired[row] = same.popleft()
    return paired


def leaf_name(source: Mapping[str, Any]) -> str:
    """Return the name of a dataset from its description: ``"/data/a, train"``."""
    kept = f"filter {source['filter']}" if source.get("filter") else None
    return ", ".join(filter(None, (str(source["path"]), source.get("split_part"), kept)))


def shares(weights: Iterable[float], whole: float) -> list[float]:
    """Return weights in proportion, with the sum ``whole``."""
    known = [*weights]
    total = sum(known)
    return [weight / total * whole for weight in known]


def each_setting(value: Any, count: int) -> list[Any]:
    """Return the setting of each dataset; a single value applies to all."""
    return [*value] if isinstance(value, list | tuple) else [value] * count


def chain_outline(identity: Any) -> str:
    """Return the names of a chain's stages, the reader first: ``"read → decode → batch"``."""
    if not (isinstance(identity, list | tuple) and identity and isinstance(identity[0], str)):
        return ""
    sources = [outline for outline in map(chain_outline, identity[2:]) if outline]
    below = f"({', '.join(sources)})" if len(sources) > 1 else "".join(sources)
    return f"{below} → {identity[0]}" if below else identity[0]


def chain_differences(saved: Any, now: Any) -> list[Difference]:
    """Return the differences between the chains of two runs; of other stages, only the outlines."""
    before, after = chain_outline(saved), chain_outline(now)
    if before != after:  # a comparison by position would report all later stages as different
        return [Difference("", "stages", _Text(f"[{before or MISSING}]"), _Text(f"[{after or MISSING}]"))]
    return list(differences(saved, now))


def run_differences(saved: RunState, now: RunState) -> list[Difference]:
    """Return the differences, except in the chain, that keep a run from continuing the state of another run.

    Args:
        now: A state of the other run. With ``lanes`` 0 or ``kind`` None, it has the value of the saved run.
    """
    compared = (
        ("seed_offset", saved.seed, now.seed),
        ("lanes", saved.lanes, now.lanes or saved.lanes),
        ("kind", saved.kind, saved.kind if now.kind is None else now.kind),
        ("samples of the micro-batches that lanes take in turn", saved.deal, now.deal),
    )
    # What lanes deal follows from the chain.
    last = None if now.dataset in (None, saved.dataset) else -1
    return [Difference("", name, before, after) for name, before, after in compared[:last] if before != after]
