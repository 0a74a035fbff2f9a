"""Propose sample types for a folder of shards, and the parts that fill their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ...accounting.kinds import Kind, PartKind, kind_of_name, kind_of_part, part_extension
from ...accounting.part_sets import PartSet
from ..documents.conversation import CONVERSATION_KEYS, is_conversation
from ..documents.field_map import parse_field_expression
from ..documents.sample_types import CRUDE, SAMPLE_TYPES, FieldSpec, SampleTypeSpec
from ..documents.value_name import ValueName, is_part_name
from .sample_layouts import SampleLayout, find_layout

_RARE = 0.01  # share of the samples up to which part sets do not decide on a type, but are named
_CRUDE = "crude samples (dicts of parts)"
_MAX_SETS = 200  # that are compared with a type
_MAX_NAMED = 20  # parts, in a sentence

_TEXT_KINDS = ("any", "sequence", "text", "text_list", "turns")  # kinds of fields that hold text

# Field kind → kinds of parts that hold such a field as a whole.
_PART_KINDS_OF_FIELD_KIND: Mapping[str, tuple[PartKind, ...]] = {
    "any": ("tree", "array"),
    "audio": ("audio",),
    "image": ("image",),
    "image_list": ("image",),
    "images": ("array",),
    "label": ("label",),
    "label_name": ("text",),
    "sequence": ("tree",),
    "tensor": ("array",),
    "text": ("text",),
    "text_list": ("tree",),
    "turns": ("tree",),
    "video": ("video",),
}

_WHOLE_PARTS = ("audio", "image", "image_list", "video")  # kinds of fields that no value inside json fills

# Field → its likely names inside json, the likeliest first; other fields are found only by their own names.
_TREE_NAMES: Mapping[str, tuple[str, ...]] = {
    "answers": ("answers", "answer", "outputs", "output"),
    "caption": ("caption", "captions", "text", "txt", "description", "alt", "alt_text", "title"),
    "choices": ("choices", "options"),
    "context": ("context", "question", "prompt", "instruction", "query", "input"),
    "correct_choice_idx": ("correct_choice_idx", "correct", "label", "answer_idx", "answer"),
    "label": ("label", "class", "cls", "class_id", "category_id"),
    "label_name": ("label_name", "class_name", "category"),
    "sequence": ("sequence", "content", "items"),
    "text": ("text", "txt", "content", "transcript", "caption"),
    "turns": CONVERSATION_KEYS,
    "texts": ("texts", "text_list", "sentences"),
    "matched_text_indices": ("matched_text_indices", "matched_text_index"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed sample type."""

    sample_types: Sequence[SampleTypeSpec]  # sample types, the likeliest first
    # how code builds samples of the first type; None if a field map can, or they stay crude
    layout: SampleLayout | None = None
    reason: str | None = None  # why this type comes first, or crude does; None if nothing needs to be explained
    # number of samples that have the parts of the first type's required fields; None if it is not known
    fits: int | None = None


@dataclass(frozen=True, slots=True)
class SeenParts:
    """The names, examples, kinds and sets of the parts of samples."""

    names: Sequence[str]  # names of the parts, the most frequent first
    # the ``json`` parts of samples, decoded and merged; None if samples have none
    example: Mapping[str, object] | None = None
    # Part name → what the first bytes of such parts say; other parts are known by their names. A picture under a name
    # that loaders do not decode as one fills no field, so the crude type, which keeps it, comes first.
    kinds: Mapping[str, Kind] | None = None
    # The part sets of all samples, the most frequent first. Then a type is proposed for what more than 1 % of the
    # samples have, and no type that fewer samples fit. Parts of one kind that no sample has together are
    # alternatives.
    sets: Sequence[PartSet] = ()
    has_all: Callable[[Sequence[str]], bool] = bool  # returns True if some json part has all values of such expressions

    def kind(self, name: str) -> PartKind:
        return kind_of_part(name, (self.kinds or {}).get(name))

    def is_decoded(self, name: str) -> bool:
        """Return False for a picture that loaders keep as bytes, and for media under the name of another kind."""
        kind, named = self.kind(name), kind_of_name(name)
        return kind == named or (named == "bytes" and kind != "image")  # sound and video may stay bytes


def propose(seen: SeenParts) -> Proposal:
    """Rank the sample types that can be built from such parts, and explain the first one.

    First come the types with required fields that a field map, or generated code, can fill without dropping text or
    media, the likeliest first; then the crude type, which keeps all parts; then types that drop some, or need code.

    >>> [spec.short_name for spec in propose(SeenParts(["jpg", "txt"])).sample_types][:2]
    ['Captioning', 'Crude']
    >>> propose(SeenParts(["jpg", "json"], {"question": "why?", "answer": "so"})).sample_types[0].short_name
    'VQA'
    """
    parts, sets = seen.names, seen.sets
    # Find the types that a field map fills, and how many samples fit each of them.
    samples = sum(each.samples for each in sets)
    common = [each for each in sets[:_MAX_SETS] if each.samples > _RARE * samples] or list(sets[:1])
    likely = [SAMPLE_TYPES[f"{name}Sample"] for name in _likely_types(seen)]
    proposals = {spec.name: propose_field_map(spec, seen) for spec in likely}
    filled = [spec for spec in likely if all(name in proposals[spec.name] for name in spec.required)]
    fits = {spec.name: count_fits(spec, proposals[spec.name], sets, seen.has_all) if sets else None for spec in filled}
    filled = [spec for spec in filled if fits[spec.name] != 0]
    # An optional field may select the special type: a question with choices, an image with a label.
    for general, special, field in (("VQA", "MultiChoiceVQA", "choices"), ("Image", "ImageClassification", "label")):
        general_type, special_type = SAMPLE_TYPES[f"{general}Sample"], SAMPLE_TYPES[f"{special}Sample"]
        if {general_type, special_type} <= set(filled) and field in proposals[special_type.name]:
            filled.remove(special_type)
            filled.insert(filled.index(general_type), special_type)

    def lost(spec: SampleTypeSpec) -> list[str]:
        of_sets = [each.parts for each in common] or [tuple(parts)]
        dropped = (dropped_parts(spec, proposals[spec.name], seen, names, together=bool(sets)) for names in of_sets)
        return list(dict.fromkeys(chain.from_iterable(dropped)))

    # Keep all parts, or explain what would be dropped.
    dropped = {spec.name: lost(spec) for spec in filled}
    complete = [spec for spec in filled if not dropped[spec.name] and (fits[spec.name] or samples) >= _RARE * samples]
    disguised = [name for name in parts if not seen.is_decoded(name)]
    in_common = {name for each in common for name in each.parts}
    usual = [name for name in parts if name in in_common or not sets]
    layout = None if complete or disguised else find_layout(usual, seen.example)
    if layout is not None:
        complete = [SAMPLE_TYPES[layout.type_name]]
    if disguised:
        complete = []
    others = [spec for spec in (*filled, *likely) if spec not in complete]
    unread = _unread(proposals[complete[0].name], parts) if complete and layout is None else []
    reason = _disguise(disguised[0], seen) if disguised else _reason(complete, filled, dropped, layout, unread)
    return Proposal(
        sample_types=list(dict.fromkeys([*complete, CRUDE, *others])),
        layout=layout,
        reason=reason,
        fits=fits.get(complete[0].name) if complete else None,
    )


def count_fits(
    spec: SampleTypeSpec,
    field_map: Mapping[str, str],
    sets: Iterable[PartSet],
    has_all: Callable[[Sequence[str]], bool] = bool,
) -> int:
    """Return the number of samples that have the parts of a type's required fields.

    Args:
        has_all: Returns True if some json part has all values of such expressions; without one, no sample fits.

    >>> sets = [PartSet(parts=("jpg", "txt"), samples=5, shards=1, first_sample=0, example="")]
    >>> count_fits(SAMPLE_TYPES["CaptioningSample"], {"image": "png,jpg", "caption": "txt"}, sets)
    5
    """
    required = {name: parse_field_expression(field_map[name]) for name in spec.required if name in field_map}
    inside = [accesses[0].expression for accesses in required.values() if len(accesses) == 1 and accesses[0].path]
    if inside and not has_all(inside):
        return 0
    names = [{access.part for access in accesses} for accesses in required.values()]
    return sum(each.samples for each in sets if all(not of_field.isdisjoint(each.parts) for of_field in names))


def _disguise(part_name: str, seen: SeenParts) -> str:
    contents = (seen.kinds or {})[part_name]
    does = "keep as bytes" if kind_of_name(part_name) == "bytes" else f"decode as {kind_of_name(part_name)}"
    return (
        f"part {part_name!r} is {contents.description}, which loaders {does} under this name: name it"
        f" {contents.extension!r}, as energon import does; {_CRUDE} keep all parts"
    )


def _reason(
    complete: Sequence[SampleTypeSpec],
    filled: Sequence[SampleTypeSpec],
    dropped: Mapping[str, Sequence[str]],
    layout: SampleLayout | None,
    unread: Sequence[str],
) -> str | None:
    # No type keeps whole samples: say what the nearest one would drop.
    if not complete:
        if not filled:
            return None
        spec = filled[0]
        if not dropped[spec.name]:
            return f"{spec.name} fits at most {100 * _RARE:.0f} % of the samples; {_CRUDE} keep all parts"
        names = dropped[spec.name]
        more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
        return f"{spec.name} would drop {', '.join(names[:_MAX_NAMED])}{more}; {_CRUDE} keep all parts"
    # The proposed type keeps them: say how, and which parts training does not read.
    spec = complete[0]
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
    if unread and layout is None:
        pieces.append(f"no field of {spec.name} holds {', '.join(unread)}, so training does not read it")
    return "; ".join(pieces) or None


def _unread(field_map: Mapping[str, str], part_names: Sequence[str]) -> list[str]:
    used = {access.part for expression in field_map.values() for access in parse_field_expression(expression)}
    return [name for name in part_names if name not in used]


def dropped_parts(
    spec: SampleTypeSpec,
    field_map: Mapping[str, str],
    seen: SeenParts,
    part_names: Sequence[str] | None = None,
    *,
    together: bool = False,
) -> list[str]:
    """Return the parts with text, media or labels that samples of a type would not have.

    Args:
        part_names: Only these parts; None for all.
        together: These are the parts of one sample: of alternatives such as ``jpg,png``, it loses all but one.

    >>> dropped_parts(SAMPLE_TYPES["ImageSample"], {"image": "jpg"}, SeenParts(["jpg", "txt"]))
    ['txt']
    """
    if spec.crude:
        return []
    # Collect the parts that a field takes.
    json_example = seen.example
    part_names = seen.names if part_names is None else part_names
    accesses = [parse_field_expression(expression) for expression in field_map.values()]
    used = {access.part for alternatives in accesses for access in alternatives}
    # Of alternatives that one sample has together, only the first is used.
    for alternatives in accesses:
        present = [access.part for access in alternatives if access.part in part_names]
        used -= set(present[1:]) if together else set()
    # Judge the parts that no field takes by their kind.
    holds_text = any(spec.field(name).kind in _TEXT_KINDS for name in field_map)
    holds_label = any(spec.field(name).kind == "label" for name in field_map)

    def is_dropped(name: str) -> bool:
        kind = seen.kind(name)
        if kind == "tree":  # next to a text or label, it is taken for metadata
            if json_example is not None and is_conversation(json_example):
                return True
            return not holds_text and ((json_example is None and not holds_label) or _has_text(json_example))
        return kind in ("array", "audio", "image", "text", "video") or part_extension(name) in ("cls", "cls2")

    return [name for name in part_names if name not in used and is_dropped(name)]


def _has_text(value: object) -> bool:
    """Return True if a value is or contains a text of several words."""
    if isinstance(value, Mapping):
        return any(map(_has_text, value.values()))
    if isinstance(value, list):
        return any(map(_has_text, value))
    return isinstance(value, str) and len(value.split()) > 1


def _likely_types(seen: SeenParts) -> list[str]:
    kinds = set(map(seen.kind, seen.names))
    names: list[str] = []
    # The order is the order of the proposals.
    if "tree" in kinds:
        names.append("Conversation")
    # Propose types of images, by what is next to the image.
    if "image" in kinds:
        if "label" in kinds:
            names.append("ImageClassification")
        if kinds & {"text", "tree"}:
            names.append("Captioning")
        if "tree" in kinds:
            names += ["VQA", "OCR", "MultiChoiceVQA", "VQAOCR"]
        names += ["Image", "ImageClassification"]
    if "video" in kinds and kinds & {"text", "tree"}:
        names.append("VidQA")
    # Types of texts alone would drop the media.
    if not kinds & {"image", "video", "audio"}:
        if kinds & {"text", "tree"}:
            names.append("Text")
        if "tree" in kinds:
            names.append("Interleaved")
    if "tree" in kinds and "array" in kinds:
        names.append("SimilarityInterleaved")
    return list(dict.fromkeys(names))


def propose_field_map(spec: SampleTypeSpec, seen: SeenParts) -> dict[str, str]:
    """Propose field-map expressions for the fields of a sample type.

    Args:
        seen: The parts of samples; keys of their JSON are proposed, too.

    Returns:
        Field → expression, in the type's order. Fields that no part or key fits are missing, required ones too.

    >>> propose_field_map(SAMPLE_TYPES["VQASample"], SeenParts(["jpg", "json"], {"query": "why?", "answers": ["so"]}))
    {'image': 'jpg', 'context': 'json[query]', 'answers': 'json[answers]'}
    """
    decoded = (name for name in seen.names if is_part_name(name) and seen.is_decoded(name))
    parts = {name: seen.kind(name) for name in decoded}
    json_part = next((name for kind in ("json", "jsn") for name in parts if name.lower() == kind), None)
    proposal: dict[str, str] = {}
    used: set[str] = set()
    for field in spec.fields:
        expression = _propose(field, parts, json_part, seen.example or {}, used, sets=seen.sets)
        if expression is not None:
            proposal[field.name] = expression
            used.add(expression)
    return proposal


def only_field_map(spec: SampleTypeSpec, seen: SeenParts) -> dict[str, str] | None:
    """Return the field-map expressions of a sample type if no others are possible; None if there is a choice.

    >>> only_field_map(SAMPLE_TYPES["CaptioningSample"], SeenParts(["jpg", "txt"]))
    {'image': 'jpg', 'caption': 'txt'}
    >>> only_field_map(SAMPLE_TYPES["CaptioningSample"], SeenParts(["jpg", "txt", "json"], {"caption": "a cat"}))
    """
    field_map = propose_field_map(spec, seen)
    by_name = {name: seen.kind(name) for name in seen.names}
    claimed: set[str] = set()
    for field in spec.fields:
        fitting = {name for name, kind in by_name.items() if kind in _PART_KINDS_OF_FIELD_KIND[field.kind]}
        accesses = parse_field_expression(field_map[field.name]) if field.name in field_map else ()
        used = {access.part for access in accesses}
        may_be_inside = "tree" in by_name.values() and field.kind not in _WHOLE_PARTS
        if may_be_inside or used != fitting or claimed & fitting:
            return None
        claimed |= fitting
    return field_map if all(name in field_map for name in spec.required) else None


def _propose(
    field: FieldSpec,
    parts: Mapping[str, PartKind],
    json_part: str | None,
    example: Mapping[str, object],
    used: set[str],
    *,
    sets: Sequence[PartSet],
) -> str | None:
    # A part of the name of the field comes first.
    part_kinds = _PART_KINDS_OF_FIELD_KIND[field.kind]
    fitting = [name for name, kind in parts.items() if kind in part_kinds]
    named = [name for name in fitting if name.split(".")[0] == field.name]
    if named:
        return ",".join(named)
    # A whole json part fills a field only if the part has the field's name.
    fitting = [name for name in fitting if parts[name] not in ("tree", "array")]
    if fitting and (field.required or field.kind in ("label", "audio", "video", "image_list")):
        # jpg and png are alternatives, and so are txt and TXT; seg.png is another image than jpg.
        plain = [name for name in fitting if "." not in name] or fitting[:1]
        if not field.kind.startswith("image"):
            plain = _alternatives(plain, sets)
        expression = ",".join(plain)
        if expression not in used:
            return expression
    # Without a fitting part, look for a value inside the json part.
    if json_part is None:
        return None
    if field.kind == "turns" and isinstance(example.get("system"), str) and is_conversation(example):
        return ValueName(json_part).expression
    for alias in _TREE_NAMES.get(field.name, (field.name,)):
        for path, value in _paths(example):
            if path[-1] == alias and _fits(field, value):
                expression = ValueName(json_part, path).expression
                if expression not in used:
                    return expression
    return None


def _alternatives(names: Sequence[str], sets: Sequence[PartSet]) -> list[str]:
    """Return the first name, and the names that no sample has together with any of them; TXT may replace txt."""
    taken: list[str] = []
    for name in names:
        is_apart = bool(sets) and not any(name in each.parts and not set(taken).isdisjoint(each.parts) for each in sets)
        if not taken or name.lower() == taken[0].lower() or is_apart:
            taken.append(name)
    return taken


def _paths(tree: Mapping[str, object], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the paths of keys in nested mappings with their values, two levels deep, the outer ones first."""
    for key, value in tree.items():
        yield (*above, key), value
    if not above:
        for key, value in tree.items():
            if isinstance(value, Mapping):
                yield from _paths(value, (key,))


def _fits(field: FieldSpec, value: object) -> bool:
    if field.kind in ("text", "label_name"):
        return isinstance(value, str)
    if field.kind == "label":
        return isinstance(value, int) and not isinstance(value, bool)
    if field.kind == "turns":
        return is_conversation(value)
    if field.name == "answers" and isinstance(value, str):
        return True  # the only answer, not in a list
    if field.kind == "text_list":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return field.kind in ("any", "sequence", "tensor") and isinstance(value, list)
