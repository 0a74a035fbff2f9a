"""Parse ``join``: datasets whose samples with the same key become one sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import Fault
from ...format.documents.messages import short_keys, short_repr
from .leaf_plan import Joiner, Nonmatch
from .mapping_reader import MappingReader
from .references import REFERENCE_KEYS, parse_epochs_together, parse_reference, parse_subflavors, parse_subset
from .spec import JoinSpec, MemberSpec

JOIN_KEYS = ("join", "joiner", "split_part", "subflavors", "tags", "shuffle_over_epochs_multiplier", "subset")

_NONMATCH: tuple[Nonmatch, ...] = ("error", "skip", "none")
_JOIN_ONLY = {
    "subset": "a subset selects rows of the whole join; set it next to 'join'",
    "shuffle_over_epochs_multiplier": "a join is shuffled as a whole; set it next to 'join'",
}
_MEMBER_KEYS = (*(key for key in REFERENCE_KEYS if key not in _JOIN_ONLY), "nonmatch")


def parse_join(reader: MappingReader) -> JoinSpec | None:
    """Read a join; None if none of its datasets can be read. The caller checks for unknown keys."""
    join = JoinSpec(
        place=reader.place,
        members=tuple(_members(reader)),
        joiner=_joiner(reader),
        split_part=reader.text("split_part"),
        subflavors=parse_subflavors(reader),
        epochs_together=parse_epochs_together(reader),
        subset=parse_subset(reader),
    )
    return join if join.members else None


def _members(reader: MappingReader) -> Iterator[MemberSpec]:
    for position, (name, entry) in enumerate(_named_entries(reader)):
        # megatron-energon accepts 1, the default of the multiplier, at a member as well.
        allowed = {"shuffle_over_epochs_multiplier"} if entry.mapping.get("shuffle_over_epochs_multiplier") == 1 else ()
        entry.expect_keys((*_MEMBER_KEYS, *allowed), _JOIN_ONLY)
        nonmatch = _nonmatch(entry, is_primary=position == 0)
        reference = parse_reference(MappingReader(_without_join_only(entry.mapping), entry.place, entry.faults))
        if reference is not None:
            yield MemberSpec(reference=reference, name=name, nonmatch=nonmatch)


def _without_join_only(mapping: Mapping[Any, Any]) -> Mapping[Any, Any]:
    return {key: value for key, value in mapping.items() if key not in _JOIN_ONLY}


def _named_entries(reader: MappingReader) -> list[tuple[str | None, MappingReader]]:
    value = reader.mapping["join"]
    if not isinstance(value, Mapping):
        return [(None, entry) for entry in reader.entries("join")]
    named: list[tuple[str | None, MappingReader]] = []
    for name, item in value.items():
        place = f"{reader.at('join')}.{name}"
        if not isinstance(name, str) or not name.isidentifier():
            # The joiner gets the member's sample as a keyword argument of this name.
            found = f"expected a Python identifier, found {short_repr(name)}"
            reader.faults.append(Fault(place=place, message=found))
            continue
        entry = reader.mapping_of(item, place)
        if entry is not None:
            named.append((name, entry))
    if not value:
        reader.fault("join", "expected a list or mapping of datasets, found an empty mapping")
    return named


def _nonmatch(entry: MappingReader, *, is_primary: bool) -> Nonmatch:
    value = entry.mapping.get("nonmatch", "error")
    known = next((known for known in _NONMATCH if known == value), None)
    if known is None:
        entry.fault("nonmatch", f"expected one of {', '.join(_NONMATCH)}, found {short_repr(value)}")
    elif is_primary and known != "error":
        entry.fault("nonmatch", "the first dataset of a join has all keys by definition; remove this")
    return known or "error"


def _joiner(reader: MappingReader) -> Joiner | None:
    if reader.mapping.get("joiner") is None:
        reader.fault(
            "joiner", "this is missing; expected {__module__: …, __class__: …} or {__module__: …, __function__: …}"
        )
        return None
    joiner = reader.child("joiner")
    if joiner is None:
        return None
    joiner.expect_keys(("__module__", "__class__", "__function__"))
    kinds = [key for key in ("__class__", "__function__") if key in joiner]
    if len(kinds) != 1:
        found = "both" if kinds else short_keys(joiner.mapping)
        joiner.fault("", f"expected either '__class__' or '__function__', found {found}")
        return None
    module, name = joiner.text("__module__"), joiner.text(kinds[0])
    for key in ("__module__", kinds[0]):
        if joiner.mapping.get(key) is None:
            joiner.fault(key, "this is missing")
    if module is None or name is None:
        return None
    return Joiner(module=module, name=name, is_function=kinds[0] == "__function__")
