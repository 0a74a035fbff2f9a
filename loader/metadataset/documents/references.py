"""Read typed values of a YAML document, and the keys of references to datasets, with the places of faults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from sys import float_info
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...errors import Fault
from ...format.data_kind import FILESYSTEM, files_folder
from ...format.dataset_ref import DOCUMENT_CHOICES, DatasetRef
from ...format.documents.messages import did_you_mean, short_key, short_repr
from ...format.documents.schema import converted
from ...format.documents.split_config import FilterName
from ...format.documents.subset import EXPECTED_RANGE, SubsetRange, parse_range
from ...storage.remote import redact_urls, secret_fault
from .leaf_plan import MAX_STRETCHES, RAMP_STRETCHES, EntrySchedule, ScheduleUnit, SourceSpec

NAME = Annotated[str, Meta(min_length=1, pattern=r"^[^\0]*\Z", description="a text")]
TEXT = NAME | None
POSITIVE = Annotated[float, Meta(gt=0, le=float_info.max, description="a number > 0")]
_AT_LEAST_0 = Annotated[float, Meta(ge=0, le=float_info.max, description="a number of at least 0")]
_FILE_PATTERN = r"^(?!/|(?:[^\0]*/)?\.\.(?:/|\Z))[^\0]+\Z"  # neither absolute nor with `..`
_FILE_NAME = Annotated[str, Meta(pattern=_FILE_PATTERN, description="the name of a file in .nv-meta")] | None


class MappingReader:
    """Reader of one mapping in a document. A getter adds a fault for an invalid value, and returns its default.

    Args:
        place: Its place in the document; empty for the whole document.
        faults: List to which faults are added; shared by all mappings of a document.
    """

    def __init__(self, mapping: Mapping[Any, Any], place: str, faults: list[Fault]) -> None:
        self.mapping = mapping
        self.place = place
        self.faults = faults

    def __contains__(self, key: str) -> bool:
        return key in self.mapping

    def at(self, key: object) -> str:
        return f"{self.place}.{short_key(key)}" if self.place else short_key(key)

    def fault(self, key: object, message: str) -> None:
        """Add a fault of a key, or of the whole mapping if the key is None."""
        self.faults.append(Fault(place=self.place if key is None else self.at(key), message=message))

    def expect_keys(self, known: Iterable[str], why_not: Mapping[str, str] | None = None) -> None:
        """Add a fault for every unknown key, with the message that ``why_not`` has for it."""
        names = list(known)
        for key in self.mapping:
            if key not in names:
                reason = (why_not or {}).get(key) if isinstance(key, str) else None
                message = reason or f"there is no such key{did_you_mean(short_key(key), names)}"
                self.fault(key, message)

    def value(self, key: object, schema: Any, default: Any = None) -> Any:
        """Return the value at a key as a type; the default if it is missing, or does not fit."""
        faults = len(self.faults)
        value = converted(self.mapping[key], schema, self.faults, self.at(key)) if key in self.mapping else default
        return value if len(self.faults) == faults else default

    def child(self, key: str) -> MappingReader | None:
        """Return a reader for the mapping at a key; None if it is missing or null."""
        value = self.mapping.get(key)
        if value is None:
            return None
        return self.mapping_of(value, self.at(key))

    def mapping_of(self, value: object, place: str) -> MappingReader | None:
        """Return a reader for a value of this mapping; None if the value is not a mapping."""
        if isinstance(value, Mapping):
            return MappingReader(value, place, self.faults)
        self.faults.append(Fault(place=place, message=f"expected a mapping, found {short_repr(value)}"))
        return None

    def entries(self, key: str) -> list[MappingReader]:
        value = self.mapping.get(key)
        if not isinstance(value, list) or not value:
            shown = "an empty list" if value == [] else short_repr(value)
            self.fault(key, f"expected a list of datasets, found {shown}")
            return []
        found_all = (self.mapping_of(item, f"{self.at(key)}[{index}]") for index, item in enumerate(value))
        return [entry for entry in found_all if entry is not None]


REFERENCE_KEYS = (
    "path",
    "split_part",
    *DOCUMENT_CHOICES,
    "subflavors",
    "tags",
    "filter",
    "shuffle_over_epochs_multiplier",
    "subset",
    "aux",
)


def parse_reference(reader: MappingReader) -> SourceSpec | None:
    """Read a reference; None if it has no path. The caller checks for unknown keys."""
    path = _expanded(reader, "path", reader.value("path", TEXT))
    if path is None and reader.mapping.get("path") is None:
        reader.fault("path", "expected the path of a dataset, found nothing")
    # Parse all keys even if the path is missing, so that all faults are reported.
    aux = _parse_aux(reader)
    split_part = reader.value("split_part", TEXT)
    ref = DatasetRef(
        path or "",
        split_config=reader.value("split_config", _FILE_NAME),
        dataset_config=reader.value("dataset_config", _FILE_NAME),
        meta_folder=_expanded(reader, "meta_folder", reader.value("meta_folder", TEXT)),
    )
    reference = SourceSpec(
        place=reader.place,
        ref=ref,
        split_part=split_part,
        subflavors=parse_subflavors(reader),
        filter=reader.value("filter", FilterName | None),
        epochs_together=parse_epochs_together(reader),
        subset=parse_subset(reader),
        aux=aux,
    )
    return reference if path is not None else None


def parse_subflavors(reader: MappingReader) -> Mapping[str, Any]:
    """Read the key ``subflavors``, or ``tags``, its other name, and convert the keys of its mapping to strings."""
    both = [key for key in ("subflavors", "tags") if reader.mapping.get(key) is not None]
    if len(both) == 2:
        reader.fault("tags", "this is another name of 'subflavors', which is here, too; remove one of them")
    labels = reader.child(both[0]) if both else None
    return {str(key): value for key, value in labels.mapping.items()} if labels else {}


def parse_epochs_together(reader: MappingReader) -> int | None:
    """Read the key ``shuffle_over_epochs_multiplier``; 1 if it is missing."""
    value = reader.mapping.get("shuffle_over_epochs_multiplier", 1)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and (value == -1 or value >= 1)):
        return value
    reader.fault(
        "shuffle_over_epochs_multiplier", f"expected a whole number >= 1, -1 or null, found {short_repr(value)}"
    )
    return 1


def _expanded(reader: MappingReader, key: str, path: str | None) -> str | None:
    # Report the variables that have no value.
    for name in dict.fromkeys(unset_variables(path or "")):
        shown = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
        reader.fault(key, f"the environment variable {shown} is not set; set it, or write ${{{shown}:default}}")
    # Replace the others, whose values may be of any length.
    expanded = path and expand_variables(path)
    if expanded and len(expanded) > _MAX_PATH:
        message = f"with its environment variables the path has {len(expanded):,} letters"
        reader.fault(key, f"{message}; expected at most {_MAX_PATH:,}")
        return path
    # Refuse a secret in a URL, and hide it in the message.
    secret = secret_fault(expanded or "")
    if secret is not None:
        reader.fault(key, f"{secret}: {redact_urls(expanded or '')}")
        return redact_urls(expanded or "")
    return expanded


_MAX_NAME = 100
_MAX_PATH = 1 << 16  # file systems and URLs allow fewer


_EXPECTED_STORE = 'expected the path of a dataset, or "filesystem://" and the path of a folder'
_RESERVED_NAMES = ("cache", "primary", "sample")
"""Names of other arguments of cookers."""
_PREFIX_OF_KEY = {"path": "", "fs_path": FILESYSTEM}


def _parse_aux(owner: MappingReader) -> Mapping[str, DatasetRef]:
    """Read the key ``aux`` of a mapping: name → dataset or folder of files, as written in the document.

    The long forms ``{path: …}`` and ``{fs_path: …}`` are converted to the short ones.
    """
    reader = owner.child("aux")
    stores: dict[str, DatasetRef] = {}
    if reader is None:
        return stores
    # Cookers get each store as a keyword argument of its name.
    for name in reader.mapping:
        if not isinstance(name, str):
            reader.fault(name, "expected a name; put it in quotes")
            continue
        if name in _RESERVED_NAMES:
            reader.fault(name, f"expected another name: {name}= is another argument of cookers")
            continue
        store = _store(reader, name)
        if store is not None:
            stores[name] = store
    return stores


def _store(reader: MappingReader, name: str) -> DatasetRef | None:
    value = reader.mapping[name]
    # The short form is a text.
    if not isinstance(value, Mapping):
        store = value if isinstance(value, str) else None
        if not store or files_folder(store) == "":
            reader.fault(name, f"{_EXPECTED_STORE}, found {short_repr(value)}")
        store = _expanded(reader, name, store)
        return DatasetRef(store) if store else None
    # The long form names either a dataset or a folder of files.
    inner = MappingReader(value, reader.at(name), reader.faults)
    inner.expect_keys((*_PREFIX_OF_KEY, "meta_folder"))
    keys = [key for key in _PREFIX_OF_KEY if key in inner]
    if len(keys) != 1:
        inner.fault(None, f"expected either 'path' or 'fs_path', found {' and '.join(map(repr, keys)) or 'neither'}")
        return None
    text = _expanded(inner, keys[0], inner.value(keys[0], TEXT))
    folder = _expanded(inner, "meta_folder", inner.value("meta_folder", TEXT))
    store = _PREFIX_OF_KEY[keys[0]] + text if text else None
    if folder is not None and files_folder(store or "") is not None:
        inner.fault("meta_folder", "a folder of files has none; name a prepared dataset with 'path'")
    return DatasetRef(store, meta_folder=folder) if store else None


class _Subset(Struct, frozen=True, forbid_unknown_fields=True):
    range: Annotated[Any, Meta(description=EXPECTED_RANGE)]


def parse_subset(owner: MappingReader) -> SubsetRange | None:
    """Read the key ``subset`` of a mapping; None if it is missing or invalid."""
    given = owner.value("subset", _Subset | None)
    try:
        return None if given is None else parse_range(given.range)
    except ValueError as error:
        owner.faults.append(Fault(place=f"{owner.at('subset')}.range", message=str(error)))
        return None


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}]*))?\}")


def expand_variables(path: str) -> str:
    """Replace the environment variables in a path. A variable without value and default stays as written.

    >>> expand_variables("${NO_SUCH_VARIABLE:/data}/coco"), expand_variables("$HOME/a b")
    ('/data/coco', '$HOME/a b')
    """
    return _VARIABLE.sub(_value, path) if "${" in path else path


def unset_variables(path: str) -> list[str]:
    """Return the names of the variables in a path that have neither a value nor a default.

    >>> unset_variables("${NO_SUCH_VARIABLE}/coco"), unset_variables("${NO_SUCH_VARIABLE:}/coco")
    (['NO_SUCH_VARIABLE'], [])
    """
    variables = _VARIABLE.finditer(path) if "${" in path else ()
    return [match[1] for match in variables if match[2] is None and match[1] not in os.environ]


def _value(match: re.Match[str]) -> str:
    return os.environ.get(match[1], match[0] if match[2] is None else match[2])


_UNIT = Annotated[ScheduleUnit, Meta(description="steps or samples")] | None
_CHANGE = Annotated[Literal["steps", "linear"], Meta(description="steps or linear")] | None
_SCHEDULE_KEYS = ("unit", "change", "at")
_MAX_DIGITS = 12


def parse_weight(reader: MappingReader, key: str) -> tuple[float, EntrySchedule | None]:
    """Read the weight of an entry: a number, or a schedule.

    Returns:
        The first weight, and the schedule; None if the weight never changes.
    """
    value = reader.mapping.get(key, 1.0)
    if not isinstance(value, Mapping):
        return reader.value(key, POSITIVE, 1.0), None
    schedule = _parse_schedule(MappingReader(value, reader.at(key), reader.faults))
    if schedule is None:
        return 1.0, None
    return schedule.weights[0], schedule if len({*schedule.weights}) > 1 else None


def _parse_schedule(reader: MappingReader) -> EntrySchedule | None:
    unit: ScheduleUnit = "steps"
    change = "steps"
    points = reader
    # The long form has the points in `at`; the short form is the points alone.
    if any(name in reader for name in _SCHEDULE_KEYS):
        reader.expect_keys(_SCHEDULE_KEYS)
        unit, change = reader.value("unit", _UNIT) or unit, reader.value("change", _CHANGE) or change
        nested = reader.child("at")
        if nested is None:
            if reader.mapping.get("at") is None:
                reader.fault("at", "this is missing; expected a mapping of steps or samples to weights")
            return None
        points = nested
    # Parse the points: step or sample → weight.
    faults = len(reader.faults)
    weights = _parse_points(points)
    if len(reader.faults) > faults:
        return None
    starts = sorted(weights)
    # Cut linear changes into stretches of constant weights.
    if change == "linear":
        starts, values = _cut_ramps([(start, weights[start]) for start in starts])
    else:
        values = [weights[start] for start in starts]
    if not any(values):
        points.fault(None, "every weight is 0; expected one above 0, or remove the entry")
        return None
    return EntrySchedule(unit=unit, starts=tuple(starts), weights=tuple(values))


def _parse_points(reader: MappingReader) -> dict[int, float]:
    if not 0 < len(reader.mapping) <= MAX_STRETCHES:
        message = f"expected 1 to {MAX_STRETCHES:,} steps or samples with their weights, found {len(reader.mapping):,}"
        reader.fault(None, message)
        return {}
    weights: dict[int, float] = {}
    for key in reader.mapping:
        start = _parse_start(key)
        if start is None:
            reader.fault(key, "expected the number of a step or sample: a whole number from 0 on, of at most 12 digits")
        elif start in weights:
            reader.fault(key, f"{start:,} has two weights")
        else:
            weights[start] = reader.value(key, _AT_LEAST_0, 0.0)
    if weights and 0 not in weights:
        reader.fault(None, f"the first weight is that at {min(weights):,}; expected one at 0")
    return weights


def _parse_start(key: Any) -> int | None:
    """Return the number of a step or sample; JSON has only texts as keys."""
    if isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= _MAX_DIGITS:
        return int(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < 10**_MAX_DIGITS:
        return key
    return None


def _cut_ramps(points: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    starts, weights = [], []
    # Each stretch has the weight in its middle.
    for (start, weight), (end, next_weight) in pairwise(points):
        parts = 1 if weight == next_weight else min(RAMP_STRETCHES, end - start)
        for part in range(parts):
            starts.append(start + (end - start) * part // parts)
            weights.append(weight + (next_weight - weight) * ((part + 0.5) / parts))
    return [*starts, points[-1][0]], [*weights, points[-1][1]]
