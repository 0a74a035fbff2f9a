"""Propose the parts, and the values inside json, that fill the fields of a sample type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field

from ...format.documents.conversation import CONVERSATION_KEYS, is_conversation
from ...format.documents.field_map import parse_field_expression
from ...format.documents.sample_types import FieldSpec, SampleTypeSpec
from ...format.documents.value_name import ValueName, is_part_name
from ...parts.kinds import Kind, PartKind, kind_of_name, kind_of_part
from ...parts.part_sets import PartSet
from .texts import Texts

# Field kind → kinds of parts that hold such a field as a whole; "class" is a text that is the name of a class.
_PART_KINDS_OF_FIELD_KIND: Mapping[str, tuple[str, ...]] = {
    "any": ("tree", "array"),
    "audio": ("audio",),
    "image": ("image",),
    "image_list": ("image", "images"),
    "images": ("array",),
    "label": ("label",),
    "label_name": ("text", "class"),
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
    "answers": ("answers", "answer", "outputs", "output", "response", "completion"),
    "caption": ("caption", "captions", "text", "txt", "description", "alt", "alt_text", "title", "prompt"),
    "choices": ("choices", "options"),
    "context": ("context", "question", "prompt", "instruction", "query", "input"),
    "correct_choice_idx": ("correct_choice_idx", "correct", "label", "answer_idx", "answer"),
    "label": ("label", "class", "cls", "class_id", "category_id"),
    "label_name": ("label_name", "class_name", "label", "class", "category"),
    "sequence": ("sequence", "content", "items"),
    "text": ("text", "txt", "content", "transcript"),
    "TextSample.text": ("text", "txt", "content", "transcript", "caption"),  # next to a picture, it is no OCR
    "turns": CONVERSATION_KEYS,
    "texts": ("texts", "text_list", "sentences"),
    "matched_text_indices": ("matched_text_indices", "matched_text_index"),
}

_BASES = {"correct_choice_idx": "choices"}  # field → the field without which its value means something else


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
    # samples have, and no type that fewer than 99 % of them fit. Parts of one kind that no sample has together are
    # alternatives.
    sets: Sequence[PartSet] = ()
    texts: Mapping[str, Texts] = dataclass_field(default_factory=dict)  # part name → what its texts have in common
    # returns the number of inspected json parts that have all values of such expressions, and of all
    count_with: Callable[[Sequence[str]], tuple[int, int]] = lambda _: (1, 1)
    lists: frozenset[str] = frozenset()  # parts that are lists of pictures, sounds or videos
    is_table: bool = False  # parts are columns, or values inside json are
    columns: Mapping[str, str] = dataclass_field(default_factory=dict)  # part name → the column that it is

    def shown(self, expression: str) -> str:
        """Return the expression of a part as the samples have it: of a table, the expression of a column.

        >>> SeenParts(["jpg", "json"], is_table=True, columns={"jpg": "photo"}).shown("jpg,json[meta][url]")
        'photo,meta[url]'
        """
        if not self.is_table:
            return expression
        values = [self._column_value(value) for value in parse_field_expression(expression)]
        return ",".join(value.expression for value in values)

    def _column_value(self, value: ValueName) -> ValueName:
        if value.part in self.columns or not value.path:
            return ValueName(self.columns.get(value.part, value.part), value.path)
        return ValueName(str(value.path[0]), value.path[1:])

    def kind(self, name: str) -> PartKind:
        return kind_of_part(name, (self.kinds or {}).get(name))

    def is_decoded(self, name: str) -> bool:
        """Return False for a picture that loaders keep as bytes, and for media under the name of another kind."""
        kind, named = self.kind(name), kind_of_name(name)
        return kind == named or (named == "bytes" and kind != "image")  # sound and video may stay bytes

    @property
    def json_part(self) -> str | None:
        """Name of the json part whose values fill fields; None without one."""
        return next((name for kind in ("json", "jsn") for name in self.fillers() if name.lower() == kind), None)

    def fillers(self) -> dict[str, str]:
        """Return the parts that may fill a field, with their kinds; texts of numbers alone are no text."""
        kinds: dict[str, str] = {}
        for name in self.names:
            texts = self.texts.get(name) if self.kind(name) == "text" else None
            if is_part_name(name) and self.is_decoded(name) and (texts is None or texts.has_words):
                kinds[name] = "class" if texts is not None and texts.classes() else self.kind(name)
                kinds[name] += "s" if name in self.lists else ""
        return kinds


def propose_field_map(spec: SampleTypeSpec, seen: SeenParts) -> dict[str, str]:
    """Propose field-map expressions for the fields of a sample type.

    Args:
        seen: The parts of samples; keys of their JSON are proposed, too.

    Returns:
        Field → expression, in the type's order. Fields that no part or key fits are missing, required ones too.

    >>> from loader.format.documents.sample_types import SAMPLE_TYPES
    >>> propose_field_map(SAMPLE_TYPES["VQASample"], SeenParts(["jpg", "json"], {"query": "why?", "answers": ["so"]}))
    {'image': 'jpg', 'context': 'json[query]', 'answers': 'json[answers]'}
    """
    return {name: seen.shown(expression) for name, expression in fields_from_parts(spec, seen).items()}


def fields_from_parts(spec: SampleTypeSpec, seen: SeenParts) -> dict[str, str]:
    """Return what :func:`propose_field_map` does, of a table with parts in place of columns."""
    proposal: dict[str, str] = {}
    for field in spec.fields:
        if _BASES.get(field.name, field.name) not in (*proposal, field.name):
            continue
        expression = next((each for each in candidates(spec, field.name, seen) if each not in proposal.values()), None)
        if expression is not None:
            proposal[field.name] = expression
    return proposal


def only_field_map(spec: SampleTypeSpec, seen: SeenParts) -> dict[str, str] | None:
    """Return the field-map expressions of a sample type if no others are possible; None if there is a choice.

    >>> from loader.format.documents.sample_types import SAMPLE_TYPES
    >>> only_field_map(SAMPLE_TYPES["CaptioningSample"], SeenParts(["jpg", "txt"]))
    {'image': 'jpg', 'caption': 'txt'}
    >>> only_field_map(SAMPLE_TYPES["CaptioningSample"], SeenParts(["jpg", "txt", "json"], {"caption": "a cat"}))
    """
    field_map = fields_from_parts(spec, seen)
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
    return propose_field_map(spec, seen) if all(name in field_map for name in spec.required) else None


def candidates(spec: SampleTypeSpec, field_name: str, seen: SeenParts) -> Iterator[str]:
    """Yield the expressions that may fill a field, the likeliest first."""
    field = spec.field(field_name)
    names = _TREE_NAMES.get(f"{spec.name}.{field_name}") or _TREE_NAMES.get(field_name, (field_name,))
    # A part of the name of the field comes first.
    parts = seen.fillers()
    fitting = [name for name, kind in parts.items() if kind in _PART_KINDS_OF_FIELD_KIND[field.kind]]
    named = [name for name in fitting if name.split(".")[0] == field.name]
    if named:
        yield ",".join(named)
    # A whole json part or array fills a field only if it has the field's name, and a text only a required one.
    unnamed = [n for n in fitting if parts[n] not in ("tree", "array") and (field.required or parts[n] != "text")]
    # jpg and png are alternatives, and so are txt and TXT; seg.png is another image than jpg.
    plain = [name for name in unnamed if "." not in name] or unnamed[:1]
    whole = ",".join(plain if field.kind.startswith("image") else _alternatives(plain, seen.sets))
    if whole and (field.kind != "text" or "txt" in names):
        yield whole
    # Then come values inside the json part, and last a text that may be another one.
    example, json_part = seen.example or {}, seen.json_part
    if json_part is not None:
        # Samples may have the conversation under several names.
        is_mixed = isinstance(example.get("system"), str) or sum(key in example for key in CONVERSATION_KEYS) > 1
        if field.kind == "turns" and is_mixed and is_conversation(example):
            yield ValueName(json_part).expression
        paths = [path for path, value in _paths(example) if _fits(field, value)]
        yield from (ValueName(json_part, path).expression for name in names for path in paths if path[-1] == name)
    if whole:
        yield whole


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
