"""Read and parse metadataset files of both versions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct, field

from ...errors import ConfigError, Fault, escape_controls
from ...format.documents.dataset_config import is_own_module
from ...format.documents.messages import did_you_mean, short_keys, short_repr
from ...format.documents.yaml_document import parse_yaml
from ...storage import open_parent, read_document, short_path
from .leaf_plan import Joiner, MetadatasetSpec, Nonmatch, SourceKind, SourceSpec
from .references import (
    NAME,
    POSITIVE,
    REFERENCE_KEYS,
    TEXT,
    MappingReader,
    parse_epochs_together,
    parse_reference,
    parse_subflavors,
    parse_subset,
    parse_weight,
)

_V1, _V2 = "Metadataset", "MetadatasetV2"
_RECIPE = "Recipe"
"""Another name of version 2."""


class DocumentStore:
    """Reader of the metadataset files of one tree. It reads each file once, and collects the faults of all."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._faults: dict[Fault, None] = {}
        self._prefixes = {root: ""}
        self._specs: dict[str, MetadatasetSpec] = {}

    @property
    def faults(self) -> list[Fault]:
        return list(self._faults)

    def open(self, path: str) -> MetadatasetSpec:
        if path not in self._specs:
            text = read_document(*open_parent(path)).decode("utf-8", "replace")
            spec, faults = parse_metadataset(text, file=path)
            for fault in faults:
                self.fault(path, fault.place, fault.message)
            self._specs[path] = spec
        return self._specs[path]

    def place(self, file: str, place: str) -> str:
        """Return a place as messages show it, prefixed by the file unless it is the root."""
        if file not in self._prefixes:
            self._prefixes[file] = f"{short_path(file, os.path.dirname(self.root))}: "
        return self._prefixes[file] + place

    def fault(self, file: str, place: str, message: str) -> None:
        """Add a fault at a place, once even if the file is referenced several times."""
        self._faults[Fault(place=self.place(file, place).removesuffix(": "), message=message)] = None


def parse_metadataset(text: str, *, file: str) -> tuple[MetadatasetSpec, list[Fault]]:
    """Parse a metadataset, and collect all faults.

    Returns:
        The valid contents, and the faults. Files that the contents reference can be checked in spite of faults.

    >>> text = '''
    ... __module__: megatron.energon
    ... __class__: MetadatasetV2
    ... splits: {train: {blend: [{path: ./coco, weight: 5}, {path: ./coyo, weight: two}]}}
    ... '''
    >>> spec, faults = parse_metadataset(text, file="mix.yaml")
    >>> [entry.ref.path for entry in spec.splits["train"].sources]
    ['./coco', './coyo']
    >>> print(*faults)
    splits.train.blend[1].weight: expected a number > 0, found 'two'
    """
    faults: list[Fault] = []
    # Read the document: a mapping.
    try:
        document = parse_yaml(text, file=file)
    except ConfigError as error:
        return MetadatasetSpec(file=file), list(error.faults)
    if not isinstance(document, Mapping):
        shown = "an empty document" if document is None else short_repr(document)
        faults.append(Fault(place="", message=f"expected a mapping with '__class__' and 'splits', found {shown}"))
        return MetadatasetSpec(file=file), faults
    # Find the mapping of its splits, and the version.
    reader = MappingReader(document, "", faults)
    if document.get("splits") is None:
        reader.fault("splits", "this is missing; expected a mapping of splits, such as train and val, to datasets")
    splits = reader.child("splits")
    if splits is None:
        reader.expect_keys(_TOP_LEVEL_KEYS)
        return MetadatasetSpec(file=file), faults
    is_v1 = _is_v1(reader, splits)
    _check_top_level_keys(reader, file, is_v1=is_v1)
    # Parse each split.
    found_splits: dict[str, SourceSpec] = {}
    for name, value in splits.mapping.items():
        if not isinstance(name, str):
            splits.fault(name, "expected the name of a split; put it in quotes")
            continue
        split = splits.mapping_of(value, splits.at(name))
        spec = None if split is None else parse_v1_split(split) if is_v1 else parse_v2_split(split)
        if spec is not None:
            found_splits[name] = spec
    # Splits with faults are named, too: a reference to one of them is no second fault.
    names = tuple(name for name in splits.mapping if isinstance(name, str))
    return MetadatasetSpec(file=file, version=1 if is_v1 else 2, names=names, splits=found_splits), faults


_TOP_LEVEL_KEYS = ("__module__", "__class__", "splits")


def _check_top_level_keys(reader: MappingReader, file: str, *, is_v1: bool) -> None:
    """Add faults for unknown keys. In version 1 they are notes of the author, and cause a warning."""
    if not is_v1:
        reader.expect_keys(_TOP_LEVEL_KEYS)
        return
    unknown = {key: value for key, value in reader.mapping.items() if key not in _TOP_LEVEL_KEYS}
    if unknown:
        warnings.warn(
            escape_controls(
                f"{file}: the keys {short_keys(unknown)} are ignored; known are {', '.join(_TOP_LEVEL_KEYS)}"
            ),
            UserWarning,
            stacklevel=2,
        )


def _is_v1(reader: MappingReader, splits: MappingReader) -> bool:
    """Return True for version 1, by the class of the document, or by its contents if there is no class."""
    # Without a class, the contents decide: each split of version 1 has `datasets`.
    looks_like_v1 = all(isinstance(split, Mapping) and "datasets" in split for split in splits.mapping.values())
    name: str | None = reader.value("__class__", TEXT)
    module: str | None = reader.value("__module__", TEXT)
    if module is not None and not is_own_module(module):
        reader.fault("__module__", f"expected megatron.energon, found {short_repr(module)}")
    if name is None:
        # Version 1 requires no class.
        if not looks_like_v1 and reader.mapping.get("__class__") is None:
            reader.fault("__class__", f"this is missing; expected {_V2}")
        return looks_like_v1
    if name not in (_V1, _V2, _RECIPE):
        hint = did_you_mean(name, (_V2, _V1, _RECIPE))
        # megatron-energon has classes of these names for single datasets.
        if name.endswith(("Webdataset", "Factory")):
            hint = "; this describes one dataset: give the path of its folder"
        reader.fault("__class__", f"there is no metadataset class {short_repr(name)}{hint}")
        return looks_like_v1
    return name == _V1


_V2_ONLY = ("aux", "subset", "filter")
_KEYS = (*(key for key in REFERENCE_KEYS if key not in _V2_ONLY), "weight", "subflavor")
_WHY_NOT = {
    key: f"only a MetadatasetV2 has {key!r}; set __class__ to that"
    for key in (*_V2_ONLY, "blend", "blend_epochized", "join", "repetitions")
}


def parse_v1_split(reader: MappingReader) -> SourceSpec | None:
    """Read a split of version 1 as a blend of version 2; None if no dataset can be read."""
    reader.expect_keys(["datasets"], {**_WHY_NOT, "path": "expected a list of 'datasets'; paths stand there"})
    if "datasets" not in reader:
        reader.fault("datasets", "this is missing; expected a list of datasets")
        return None
    entries = tuple(_v1_entries(reader))
    return SourceSpec(place=reader.at("datasets"), kind="blend", sources=entries) if entries else None


def _v1_entries(reader: MappingReader) -> Iterator[SourceSpec]:
    for entry in reader.entries("datasets"):
        entry.expect_keys(_KEYS, _WHY_NOT)
        weight, schedule = parse_weight(entry, "weight")
        label = entry.value("subflavor", TEXT)
        reference = parse_reference(entry)
        if reference is not None:
            # The label of version 1 is a subflavor of a fixed name.
            subflavors = {} if label is None else {"__subflavor__": label}
            yield replace(
                reference, subflavors={**subflavors, **reference.subflavors}, amount=weight, schedule=schedule
            )


_BLENDS: tuple[SourceKind, ...] = ("blend", "blend_epochized")
_AMOUNT: dict[SourceKind, str] = {"blend": "weight", "blend_epochized": "repetitions"}
_BLEND_KEYS = ("subset", "blend_weight_unit", "shuffle_over_epochs_multiplier")
_HEADS = ("path", *_BLENDS, "join")

_ELSEWHERE = {
    "weight": "only what stands in a 'blend' has a weight",
    "repetitions": "only what stands in a 'blend_epochized' has repetitions",
}
_ELSEWHERE_IN_BLENDS: dict[SourceKind, dict[str, str]] = {
    "blend": {"repetitions": "a 'blend' is mixed by 'weight'; repetitions belong to 'blend_epochized'"},
    "blend_epochized": {"weight": "a 'blend_epochized' is mixed by 'repetitions'; a weight belongs to 'blend'"},
}
_NOT_IN_A_JOIN = dict.fromkeys(
    ("aux", "dataset_config", "split_config", "nonmatch"), "set it at each dataset of the join"
)


def parse_v2_split(reader: MappingReader) -> SourceSpec | None:
    """Read a split of version 2; None if its kind is unclear or no dataset can be read."""
    # A split has exactly one of a dataset, a join, or a blend.
    heads = [key for key in _HEADS if key in reader]
    if len(heads) != 1:
        _fault_of_heads(reader, heads, _HEADS)
        return None
    # Parse a blend: its keys, and its entries.
    for kind in _BLENDS:
        if kind in reader:
            reader.expect_keys(
                (kind, *_BLEND_KEYS), dict.fromkeys(REFERENCE_KEYS, f"set it at each dataset of the {kind}")
            )
            entries = tuple(_v2_entries(reader, kind))
            subset = parse_subset(reader)
            together = parse_epochs_together(reader)
            if kind != "blend" and "blend_weight_unit" in reader:
                reader.fault("blend_weight_unit", "only a 'blend' has weights; repetitions count samples")
            blend = SourceSpec(
                place=reader.at(kind),
                kind=kind,
                sources=entries,
                unit=reader.value("blend_weight_unit", TEXT) or "samples",
                epochs_together=together,
                subset=subset,
            )
            return blend if entries else None
    # Else parse a dataset or a join, which have neither weight nor repetitions here.
    return _parse_source(reader, (), _ELSEWHERE)


def _v2_entries(reader: MappingReader, kind: SourceKind) -> Iterator[SourceSpec]:
    for entry in reader.entries(kind):
        # Parse the amount, and the settings of what the entry names.
        amount, schedule = (
            parse_weight(entry, "weight") if kind == "blend" else (entry.value("repetitions", POSITIVE, 1.0), None)
        )
        nested = next((key for key in _BLENDS if key in entry), None)
        if nested is not None:
            entry.fault(nested, "a blend within a blend has a metadataset file of its own; name that as 'path'")
            continue
        heads = [key for key in ("path", "join") if key in entry]
        if len(heads) != 1:
            _fault_of_heads(entry, heads, ("path", "join"), _AMOUNT[kind])
            continue
        source = _parse_source(entry, (_AMOUNT[kind],), _ELSEWHERE_IN_BLENDS[kind])
        if source is not None:
            yield replace(source, amount=amount, schedule=schedule)


def _parse_source(reader: MappingReader, more_keys: tuple[str, ...], why_not: dict[str, str]) -> SourceSpec | None:
    if "join" in reader:
        reader.expect_keys((*JOIN_KEYS, *more_keys), {**_NOT_IN_A_JOIN, **why_not})
        return parse_join(reader)
    reader.expect_keys((*REFERENCE_KEYS, *more_keys), {"nonmatch": "only datasets of a 'join' have it", **why_not})
    return parse_reference(reader)


def _fault_of_heads(reader: MappingReader, heads: list[str], expected: tuple[str, ...], *more_keys: str) -> None:
    known = {*REFERENCE_KEYS, *JOIN_KEYS, *expected, *more_keys}
    # A misspelt head is an unknown key, whose fault suggests a near name.
    reader.expect_keys(sorted(known))
    names = ", ".join(map(repr, expected[:-1])) + f" or {expected[-1]!r}"
    here = " and ".join(map(repr, heads)) if heads else short_keys(reader.mapping)
    reader.fault(None, f"expected one of {names}, found {here}")


JOIN_KEYS = ("join", "joiner", "split_part", "subflavors", "tags", "shuffle_over_epochs_multiplier", "subset")

_NONMATCH = Annotated[Nonmatch, Meta(description="one of error, skip, none")]
_JOIN_ONLY = {
    "subset": "a subset selects rows of the whole join; set it next to 'join'",
    "shuffle_over_epochs_multiplier": "a join is shuffled as a whole; set it next to 'join'",
}
_MEMBER_KEYS = (*(key for key in REFERENCE_KEYS if key not in _JOIN_ONLY), "nonmatch")


def parse_join(reader: MappingReader) -> SourceSpec | None:
    """Read a join; None if none of its datasets can be read. The caller checks for unknown keys."""
    join = SourceSpec(
        place=reader.place,
        kind="join",
        sources=tuple(_members(reader)),
        joiner=_joiner(reader),
        split_part=reader.value("split_part", TEXT),
        subflavors=parse_subflavors(reader),
        epochs_together=parse_epochs_together(reader),
        subset=parse_subset(reader),
    )
    return join if join.sources else None


def _members(reader: MappingReader) -> Iterator[SourceSpec]:
    for position, (name, entry) in enumerate(_named_entries(reader)):
        # megatron-energon accepts 1, the default of the multiplier, at a member as well.
        allowed = {"shuffle_over_epochs_multiplier"} if entry.mapping.get("shuffle_over_epochs_multiplier") == 1 else ()
        entry.expect_keys((*_MEMBER_KEYS, *allowed), _JOIN_ONLY)
        nonmatch = entry.value("nonmatch", _NONMATCH, "error")
        if position == 0 and nonmatch != "error":
            entry.fault("nonmatch", "the first dataset of a join has all keys by definition; remove this")
        # Keys of the join are faults at a member, and are not parsed.
        settings = {key: value for key, value in entry.mapping.items() if key not in _JOIN_ONLY}
        reference = parse_reference(MappingReader(settings, entry.place, entry.faults))
        if reference is not None:
            yield replace(reference, name=name, nonmatch=nonmatch)


def _named_entries(reader: MappingReader) -> list[tuple[str | None, MappingReader]]:
    value = reader.mapping["join"]
    if not isinstance(value, Mapping):
        return [(None, entry) for entry in reader.entries("join")]
    named: list[tuple[str | None, MappingReader]] = []
    for name, item in value.items():
        place = f"{reader.at('join')}.{name}"
        if not isinstance(name, str) or not name.isidentifier():
            # The joiner gets the member's sample as a keyword argument of this name.
            message = f"expected a Python identifier, found {short_repr(name)}"
            reader.faults.append(Fault(place=place, message=message))
            continue
        entry = reader.mapping_of(item, place)
        if entry is not None:
            named.append((name, entry))
    if not value:
        reader.fault("join", "expected a list or mapping of datasets, found an empty mapping")
    return named


class _JoinerCode(Struct, frozen=True, forbid_unknown_fields=True):
    module: NAME = field(name="__module__")
    class_name: TEXT = field(name="__class__", default=None)
    function: TEXT = field(name="__function__", default=None)


_CODE = "{__module__: …, __class__: …} or {__module__: …, __function__: …}"


def _joiner(reader: MappingReader) -> Joiner | None:
    if "joiner" not in reader:
        reader.fault("joiner", f"expected {_CODE}, found nothing")
    given = reader.value("joiner", Annotated[_JoinerCode, Meta(description=_CODE)])
    if given is None:
        return None
    # The code is a class or a function.
    if (given.class_name is None) == (given.function is None):
        shown = "both" if given.function else short_keys(reader.mapping["joiner"])
        reader.fault("joiner", f"expected either '__class__' or '__function__', found {shown}")
        return None
    return Joiner(
        module=given.module, name=given.function or given.class_name or "", is_function=given.function is not None
    )
