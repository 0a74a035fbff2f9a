"""Propose sample types for a folder of shards by how well the parts fit their fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from ...errors import plural
from ...format.documents.conversation import is_conversation
from ...format.documents.field_map import parse_field_expression
from ...format.documents.sample_types import CRUDE, SAMPLE_TYPES, SampleTypeSpec
from ...parts.kinds import kind_of_name, part_extension
from .findings import json_expressions
from .proposed_fields import SeenParts, candidates, fields_from_parts
from .sample_layouts import SampleLayout, find_layout

_RARE = 0.01  # share of the samples that may lack a field, and up to which part sets and values decide nothing
_CRUDE = "crude samples (dicts of parts)"
_MAX_SETS = 200  # that are compared with a type
_MAX_NAMED = 20  # parts, in a sentence

_TEXT_KINDS = ("any", "sequence", "text", "text_list", "turns")  # kinds of fields that hold text

# Keys inside json of what no sample type has: boxes of objects, and the two answers of a preference.
_UNTYPED = re.compile(r".*?\[(?:(bbox|bboxes|boxes|objects)|chosen|rejected)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed sample type."""

    sample_types: Sequence[SampleTypeSpec]  # sample types, the likeliest first
    # how code builds samples of the first type; None if a field map can, or they stay crude
    layout: SampleLayout | None = None
    reason: str | None = None  # why this type comes first, or crude does; None if nothing needs to be explained

    @property
    def coded_type(self) -> SampleTypeSpec | None:
        """The first type, if generated code builds its samples."""
        return None if self.layout is None else self.sample_types[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """Describe how well samples fit a type."""

    spec: SampleTypeSpec
    field_map: Mapping[str, str]
    lost: list[str]  # parts, and values inside json, that samples of the type would not have
    too_few: str  # how many samples have the parts and values of the required fields, if too many lack one

    @property
    def is_guess(self) -> bool:
        """True if only a plain ``txt`` speaks for a text of a type with optional fields, and too few are filled."""
        texts = [self.field_map.get(field.name, "") for field in self.spec.fields if field.kind == "text"]
        is_plain = not all("." in text or "[" in text for text in texts)
        return is_plain and bool(self.spec.optional) and len(self.spec.optional & self.field_map.keys()) < len(texts)

    @property
    def faults(self) -> tuple[int, ...]:
        """Why the type is not proposed, the gravest first; all zero if it may be."""
        unfilled = sum(name not in self.field_map for name in self.spec.required)
        return unfilled, self.is_guess, len(self.lost), bool(self.too_few)

    @property
    def score(self) -> tuple[int, ...]:
        """The faults, then how many fields are filled, and how many are not: the least score is the best."""
        return *self.faults, -len(self.field_map), len(self.spec.fields) - len(self.field_map)


def propose(seen: SeenParts) -> Proposal:
    """Rank the sample types that can be built from such parts, and explain the first one.

    First come the types with required fields that a field map, or generated code, can fill without dropping text,
    media, or a value that another type uses, those that use most first; then the crude type, which keeps all parts;
    then types that drop some, or need code.

    >>> [spec.short_name for spec in propose(SeenParts(["jpg", "txt"])).sample_types][:2]
    ['Captioning', 'Crude']
    >>> propose(SeenParts(["jpg", "json"], {"question": "why?", "answer": "so"})).sample_types[0].short_name
    'VQA'
    """
    # Score all types by the part sets that are not rare.
    samples = sum(each.samples for each in seen.sets)
    common = [each.parts for each in seen.sets[:_MAX_SETS] if each.samples > _RARE * samples]
    common = common or [each.parts for each in seen.sets[:1]]
    ranked = sorted(_fits(seen, common), key=attrgetter("score"))
    first = [fit.spec for fit in ranked if not any(fit.faults)]
    # A picture under another name is kept; code may build samples that no field map describes.
    disguised = [name for name in seen.names if not seen.is_decoded(name)]
    usual = [name for name in seen.names if not common or any(name in parts for parts in common)]
    layout = None if disguised or seen.is_table else find_layout(usual, seen.example)
    if first and layout is not None and layout.type_name != "InterleavedSample":
        layout = None
    if layout is not None or disguised:
        first = [SAMPLE_TYPES[layout.type_name]] if layout is not None else []
    return Proposal(
        sample_types=list(dict.fromkeys([*first, CRUDE, *(fit.spec for fit in ranked)])),
        layout=layout,
        reason=_disguise(disguised[0], seen) if disguised else _reason(ranked[0], layout, seen),
    )


def _fits(seen: SeenParts, common: Sequence[Sequence[str]]) -> list[_Fit]:
    """Return how well each type fits; of types that fit equally, the plainer one comes first."""
    # Count the samples that fit, and the parts that each type would drop.
    fits = []
    for spec in (spec for spec in reversed([*SAMPLE_TYPES.values()]) if not spec.crude):
        field_map = fields_from_parts(spec, seen)
        lost = dropped_parts(spec, field_map, seen, common)
        fits.append(_Fit(spec=spec, field_map=field_map, lost=lost, too_few=_too_few(spec, field_map, seen)))
    # Values inside json are data if a type that drops no part uses them, if they are answers, or if no type has them.
    rivals = [fit for fit in fits if not any(fit.faults[:3])]
    vqa, untyped = SAMPLE_TYPES["VQASample"], _untyped(seen)
    data = [*chain.from_iterable(fit.field_map.values() for fit in rivals), *candidates(vqa, "answers", seen), *untyped]
    if not any(seen.json_part in parts for parts in common or [seen.names]):
        data = []
    for fit in fits:
        # A type may use another value for the same field, and next to a conversation, answers are metadata.
        usable = {each for name in fit.field_map for each in candidates(fit.spec, name, seen)}
        for value in untyped if "turns" in fit.field_map else dict.fromkeys(data):
            count, total = seen.count_with([value])
            if "[" in value and value not in usable and seen.json_part not in fit.lost and count > _RARE * total:
                fit.lost.append(value)
    return fits


def _untyped(seen: SeenParts) -> dict[str, str]:
    """Return the values inside json that no type has, with what they are."""
    expressions = json_expressions([(seen.json_part, seen.example)]) if seen.json_part and seen.example else ()
    matches = {match[0]: match[1] for match in map(_UNTYPED.match, expressions) if match}
    is_preference = list(matches.values()).count(None) > 1
    return {value: "boxes" if box else "a preference" for value, box in matches.items() if box or is_preference}


def _too_few(spec: SampleTypeSpec, field_map: Mapping[str, str], seen: SeenParts) -> str:
    """Return how many samples have the parts and values of the required fields; an empty text if nearly all do."""
    required = [parse_field_expression(field_map[name]) for name in spec.required if name in field_map]
    names = [{access.part for access in accesses} for accesses in required]
    # Parts are counted in all samples, values inside json in those that were inspected.
    having = sum(each.samples for each in seen.sets if all(not of_field.isdisjoint(each.parts) for of_field in names))
    values = [accesses[0].expression for accesses in required if len(accesses) == 1 and accesses[0].path]
    samples = sum(each.samples for each in seen.sets)
    for (count, total), which in (((having, samples), ""), (seen.count_with(values), " inspected")):
        # At least 99 % shall fit; of fewer than 100 samples, all but one.
        if total - count > max(1, _RARE * total) or (count < total and 2 * count <= total):
            return f"{count:,} of {plural(total, 'sample')}{which}"
    return ""


def _disguise(part_name: str, seen: SeenParts) -> str:
    contents = (seen.kinds or {})[part_name]
    if seen.is_table:
        column = f"column {seen.shown(part_name)!r} is {contents.description}"
        return f"{column}, which stay bytes: energon import finds out what they are; {_CRUDE} keep all columns"
    does = "keep as bytes" if kind_of_name(part_name) == "bytes" else f"decode as {kind_of_name(part_name)}"
    return (
        f"part {part_name!r} is {contents.description}, which loaders {does} under this name: name it"
        f" {contents.extension!r}, as energon import does; {_CRUDE} keep all parts"
    )


def _reason(best: _Fit, layout: SampleLayout | None, seen: SeenParts) -> str | None:
    """Return why samples stay crude, or what users should know about the type; None for nothing."""
    # No type keeps whole samples: say what the nearest one would drop, or lacks.
    spec = best.spec if layout is None else SAMPLE_TYPES[layout.type_name]
    unfilled, _, lost, too_few = best.faults
    if layout is None and (unfilled or lost or too_few):
        fault = f"{spec.name} would drop {_named(best.lost, seen)}" if lost else f"{spec.name} fits {best.too_few}"
        fault = f"no sample type has fields for {_named(seen.names, seen)}" if unfilled else fault
        return f"{fault}; {_CRUDE} keep all parts" if seen.names else None
    # The proposed type keeps them: say how, and which parts training does not read.
    pieces = []
    if layout is not None:
        pieces.append(
            f"{spec.name} keeps the whole sample: {layout.what}. No field map can describe this, so prepare writes a"
            " sample_loader.py: code, which runs only with trust_code=True, or --trust-code"
        )
    if not spec.shared:
        if layout is None:
            pieces.append(f"{spec.name} keeps all turns of the conversation")
        pieces.append("megatron-energon does not have this type; choose crude samples for datasets that it reads, too")
    used = {part.part for each in best.field_map.values() for part in parse_field_expression(each)}
    unread = [name for name in seen.names if name not in used]
    if unread and layout is None:
        pieces.append(f"no field of {spec.name} holds {_named(unread, seen)}, so training does not read it")
    return "; ".join(pieces) or None


def _named(names: Sequence[str], seen: SeenParts) -> str:
    """Return the names of parts and values, with what they are if it is not what the names say."""
    of_texts = {name: "names of classes" for name, texts in seen.texts.items() if texts.classes()}
    numbers = {name: "mostly numbers, which are no text" for name, texts in seen.texts.items() if not texts.has_words}
    what = _untyped(seen) | of_texts | numbers
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    shown = {name: seen.shown(name) for name in names}
    if seen.is_table and seen.json_part in shown:  # the columns inside
        shown[str(seen.json_part)] = ", ".join(list(seen.example or ())[:_MAX_NAMED])
    return ", ".join(f"{shown[n]} ({what[n]})" if n in what else shown[n] for n in names[:_MAX_NAMED]) + more


def dropped_parts(
    spec: SampleTypeSpec, field_map: Mapping[str, str], seen: SeenParts, sets: Sequence[Sequence[str]] = ()
) -> list[str]:
    """Return the parts with text, media or labels that samples of a type would not have.

    Args:
        sets: The parts of samples: of alternatives such as ``jpg,png``, a sample that has both loses one. Without
            sets, all parts count, each in another sample.

    >>> dropped_parts(SAMPLE_TYPES["ImageSample"], {"image": "jpg"}, SeenParts(["jpg", "txt"]))
    ['txt']
    """
    accesses = [parse_field_expression(expression) for expression in field_map.values()]
    # Judge the parts that no field takes by their kind.
    holds_text = any(spec.field(name).kind in _TEXT_KINDS for name in field_map)
    holds_label = any(spec.field(name).kind == "label" for name in field_map)

    def is_data(name: str) -> bool:
        kind = seen.kind(name)
        if kind == "tree":  # next to a text or label, it is taken for metadata
            if name == seen.json_part and seen.example is not None and is_conversation(seen.example):
                return True
            return not holds_text and ((seen.example is None and not holds_label) or _has_text(seen.example))
        return kind in ("array", "audio", "image", "text", "video") or part_extension(name) in ("cls", "cls2")

    data = set() if spec.crude else set(filter(is_data, chain.from_iterable(sets or [seen.names])))
    dropped: dict[str, None] = {}
    for names in sets or [seen.names]:
        # Of alternatives that one sample has together, only the first is used.
        present = [[access.part for access in alternatives if access.part in names] for alternatives in accesses]
        used = {name for parts in present for name in (parts[:1] if sets else parts)}
        dropped |= dict.fromkeys(name for name in names if name not in used and name in data)
    return list(dropped)


def _has_text(value: object) -> bool:
    """Return True if a value is or contains a text of several words."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return (isinstance(value, str) and len(value.split()) > 1) or any(map(_has_text, inner))
