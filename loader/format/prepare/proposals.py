"""Propose sample types for a folder of shards, and the parts that fill their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..documents.field_map import FieldAccess
from ..documents.part_kinds import PartKind, part_kind
from ..documents.sample_types import CRUDE, SAMPLE_TYPES, FieldSpec, SampleTypeSpec

__all__ = ["propose_field_map", "propose_sample_types"]

_PART_KINDS_OF_FIELD_KIND: Mapping[str, tuple[PartKind, ...]] = {
    "any": ("tree", "array"),
    "audio": ("audio",),
    "image": ("image",),
    "images": ("array",),
    "label": ("label",),
    "label_name": ("text",),
    "sequence": ("tree",),
    "tensor": ("array",),
    "text": ("text",),
    "text_list": ("tree",),
    "video": ("video",),
}
"""Field kind → kinds of parts that hold such a field as a whole."""

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
    "texts": ("texts", "text_list", "sentences"),
    "matched_text_indices": ("matched_text_indices", "matched_text_index"),
}
"""Field → its likely names inside json, the likeliest first; other fields are found only by their own names."""


def propose_sample_types(
    part_names: Iterable[str], json_example: Mapping[str, object] | None = None
) -> list[SampleTypeSpec]:
    """Rank the sample types that can be built from such parts.

    Args:
        part_names: Names of the parts of samples.
        json_example: The decoded ``json`` part of a sample; None if samples have none.

    Returns:
        First the types with required fields that a field map can fill, the likeliest first; then the crude type, which
        accepts any parts; then types that need code.

    >>> [spec.short_name for spec in propose_sample_types(["jpg", "txt"])][:2]
    ['Captioning', 'Image']
    >>> propose_sample_types(["jpg", "json"], {"question": "why?", "answer": "so"})[0].short_name
    'VQA'
    """
    parts = list(part_names)
    likely = [SAMPLE_TYPES[f"{name}Sample"] for name in _likely_types(parts)]
    proposals = {spec.name: propose_field_map(spec, parts, json_example) for spec in likely}
    filled = [spec for spec in likely if all(name in proposals[spec.name] for name in spec.required)]
    # An optional field may select the special type: a question with choices, an image with a label.
    for general, special, field in (("VQA", "MultiChoiceVQA", "choices"), ("Image", "ImageClassification", "label")):
        general_type, special_type = SAMPLE_TYPES[f"{general}Sample"], SAMPLE_TYPES[f"{special}Sample"]
        if {general_type, special_type} <= set(filled) and field in proposals[special_type.name]:
            filled.remove(special_type)
            filled.insert(filled.index(general_type), special_type)
    return [*filled, CRUDE, *(spec for spec in likely if spec not in filled)]


def _likely_types(part_names: Iterable[str]) -> list[str]:
    kinds = {part_kind(name) for name in part_names}
    names: list[str] = []
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
    if not kinds & {"image", "video", "audio"}:
        if kinds & {"text", "tree"}:
            names.append("Text")
        if "tree" in kinds:
            names.append("Interleaved")
    if "tree" in kinds and "array" in kinds:
        names.append("SimilarityInterleaved")
    return list(dict.fromkeys(names))


def propose_field_map(
    spec: SampleTypeSpec, part_names: Iterable[str], json_example: Mapping[str, object] | None = None
) -> dict[str, str]:
    """Propose field-map expressions for the fields of a sample type.

    Args:
        spec: The sample type.
        part_names: Names of the parts of samples.
        json_example: The decoded ``json`` part of a sample; its keys are proposed too. None if samples have none.

    Returns:
        Field → expression, in the type's order. Fields that no part or key fits are missing, required ones too.

    >>> propose_field_map(SAMPLE_TYPES["VQASample"], ["jpg", "json"], {"question": "why?", "answers": ["so"]})
    {'image': 'jpg', 'context': 'json[question]', 'answers': 'json[answers]'}
    """
    parts = list(part_names)
    json_part = next((name for name in ("json", "jsn") if name in parts), None)
    proposal: dict[str, str] = {}
    used: set[str] = set()
    for field in spec.fields:
        expression = _propose(field, parts, json_part, json_example or {}, used)
        if expression is not None:
            proposal[field.name] = expression
            used.add(expression)
    return proposal


def _propose(
    field: FieldSpec, parts: Sequence[str], json_part: str | None, example: Mapping[str, object], used: set[str]
) -> str | None:
    part_kinds = _PART_KINDS_OF_FIELD_KIND[field.kind]
    named = [name for name in parts if name.split(".")[0] == field.name and part_kind(name) in part_kinds]
    if named:
        return ",".join(named)
    # A whole json part fills a field only if the part has the field's name.
    fitting = [name for name in parts if part_kind(name) in part_kinds and part_kind(name) not in ("tree", "array")]
    if fitting and (field.required or field.kind in ("label", "audio", "video")):
        # jpg and png are alternatives; seg.png is another image than jpg.
        plain = [name for name in fitting if "." not in name] or fitting[:1]
        expression = ",".join(plain if field.kind == "image" else plain[:1])
        if expression not in used:
            return expression
    if json_part is None:
        return None
    for alias in _TREE_NAMES.get(field.name, (field.name,)):
        for path, value in _paths(example):
            if path[-1] == alias and _fits(field, value):
                expression = str(FieldAccess(json_part, path))
                if expression not in used:
                    return expression
    return None


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
    if field.name == "answers" and isinstance(value, str):
        return True  # the only answer, not in a list
    if field.kind == "text_list":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return field.kind in ("any", "sequence", "tensor") and isinstance(value, list)
