"""The fields of every sample type, as plain data, so that commands know them without importing torch.

The classes are in ``loader/samples/types.py``; a test holds the two equal. Below the table, what the wizard asks: which
types a folder of shards probably holds, and which part fills which field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ..errors import ConfigError
from .field_map import FieldAccess
from .nearest_name import nearest_names
from .part_kinds import PartKind, part_kind

__all__ = [
    "CRUDE",
    "SAMPLE_TYPES",
    "FieldKind",
    "FieldSpec",
    "SampleTypeSpec",
    "propose_field_map",
    "propose_sample_types",
    "sample_type_of_name",
]

FieldKind = Literal[
    "any", "audio", "image", "images", "label", "label_name", "sequence", "tensor", "text", "text_list", "video"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One field of a sample type: an optional one (``required=False``) is None where the data lacks it."""

    name: str
    required: bool
    kind: FieldKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTypeSpec:
    """A sample type: the name of its class and its fields, in order; a crude one has none."""

    name: str
    fields: tuple[FieldSpec, ...]
    crude: bool = False

    @property
    def short_name(self) -> str:
        """The name without ``Sample``: ``Captioning``."""
        return self.name.removesuffix("Sample")

    @property
    def dataset_class(self) -> str:
        """The legacy name of the dataset class with such samples: ``CaptioningWebdataset``."""
        return f"{self.short_name}Webdataset"

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the required fields."""
        return tuple(field.name for field in self.fields if field.required)

    @property
    def optional(self) -> frozenset[str]:
        """Names of the optional fields."""
        return frozenset(field.name for field in self.fields if not field.required)

    def field(self, name: str) -> FieldSpec:
        """Give the field of that name; KeyError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)


def _type(name: str, **kinds: FieldKind) -> SampleTypeSpec:
    """Build a spec from ``field=kind``; a trailing underscore in the field's name marks an optional one."""
    fields = tuple(
        FieldSpec(name=field.removesuffix("_"), required=not field.endswith("_"), kind=kind)
        for field, kind in kinds.items()
    )
    return SampleTypeSpec(name=f"{name}Sample", fields=fields)


CRUDE = SampleTypeSpec(name="CrudeSample", fields=(), crude=True)
"""Crude samples: a dict of a sample's parts, which a cooker makes a sample of."""

_TYPES = (
    _type("Captioning", image="image", caption="text"),
    CRUDE,
    _type("Image", image="image"),
    _type("ImageClassification", image="image", label_="label", label_name_="label_name"),
    _type("Interleaved", sequence="sequence"),
    _type("MultiChoiceVQA", image="image", context="text", choices_="text_list", correct_choice_idx_="label"),
    _type(
        "OCR",
        image="image",
        text="text",
        block_boxes_="tensor",
        block_classes_="any",
        block_text_="text_list",
        lines_boxes_="tensor",
        lines_text_="text_list",
        words_boxes_="tensor",
        words_text_="text_list",
        chars_boxes_="tensor",
        chars_text_="text_list",
    ),
    _type(
        "SimilarityInterleaved",
        images="images",
        texts="text_list",
        audio_="audio",
        video_="video",
        similarity_matrix_="tensor",
        matched_text_indices_="any",
    ),
    _type("Text", text="text"),
    _type("VidQA", video="video", context="text", answers_="text_list", answer_weights_="tensor"),
    _type("VQA", image="image", context="text", answers_="text_list", answer_weights_="tensor"),
    _type(
        "VQAOCR",
        image="image",
        context="text",
        text="text",
        answers_="text_list",
        answer_weights_="tensor",
        words_boxes_="tensor",
        words_text_="text_list",
    ),
)

SAMPLE_TYPES: Mapping[str, SampleTypeSpec] = MappingProxyType({spec.name: spec for spec in _TYPES})
"""Every sample type by the name of its class, in alphabetical order."""


def _names_of(spec: SampleTypeSpec) -> tuple[str, ...]:
    return (spec.name, spec.dataset_class, spec.short_name)


_BY_LOWER_NAME = {name.lower(): spec for spec in _TYPES for name in _names_of(spec)}


def sample_type_of_name(name: str) -> SampleTypeSpec:
    """Find a sample type by its class (``CaptioningSample``), dataset class (``CaptioningWebdataset``) or short name.

    Args:
        name: Any of the three, in any case.

    Raises:
        ConfigError: No sample type is called so; the message names the nearest ones.

    >>> sample_type_of_name("CaptioningWebdataset").name
    'CaptioningSample'
    >>> sample_type_of_name("crude").crude
    True
    """
    spec = _BY_LOWER_NAME.get(name.strip().lower())
    if spec is not None:
        return spec
    candidates = [alias for known in _TYPES for alias in _names_of(known)]
    near = list(dict.fromkeys(_BY_LOWER_NAME[alias.lower()].name for alias in nearest_names(name, candidates)))
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(SAMPLE_TYPES)}"
    raise ConfigError(f"there is no sample type {name!r}; {hint}", do="use one of the sample types in the docs")


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
"""Parts that hold such a field as a whole."""

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
"""Names under which a field is likely to be found inside json, the likeliest first; elsewhere only its own name is."""


def propose_sample_types(
    part_names: Iterable[str], json_example: Mapping[str, object] | None = None
) -> list[SampleTypeSpec]:
    """Rank the sample types that such parts can make.

    Args:
        part_names: The names of the parts that samples have.
        json_example: The ``json`` part of some sample, decoded, if there is one.

    Returns:
        Types whose required fields can all be filled by a field map, the likeliest first; then crude samples, which
        anything makes; then types that need code.

    >>> [spec.short_name for spec in propose_sample_types(["jpg", "txt"])][:2]
    ['Captioning', 'Image']
    >>> propose_sample_types(["jpg", "json"], {"question": "why?", "answer": "so"})[0].short_name
    'VQA'
    """
    parts = list(part_names)
    likely = [SAMPLE_TYPES[f"{name}Sample"] for name in _likely_types(parts)]
    proposals = {spec.name: propose_field_map(spec, parts, json_example) for spec in likely}
    filled = [spec for spec in likely if all(name in proposals[spec.name] for name in spec.required)]
    # What an optional field tells of a type: choices are of a question with several, a label is of a class.
    for general, special, telling in (("VQA", "MultiChoiceVQA", "choices"), ("Image", "ImageClassification", "label")):
        general_type, special_type = SAMPLE_TYPES[f"{general}Sample"], SAMPLE_TYPES[f"{special}Sample"]
        if {general_type, special_type} <= set(filled) and telling in proposals[special_type.name]:
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
    """Propose a field-map expression for each field of a sample type that one can be guessed for.

    Args:
        spec: The sample type.
        part_names: The names of the parts that samples have.
        json_example: The ``json`` part of some sample, decoded, if there is one: its keys are proposed as well.

    Returns:
        Expressions by field, in the type's order; a field without a guess is left out, also where it is required.

    >>> propose_field_map(sample_type_of_name("VQA"), ["jpg", "json"], {"question": "why?", "answers": ["so"]})
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
    # A whole json is one field's value only where the part bears the field's name.
    fitting = [name for name in parts if part_kind(name) in part_kinds and part_kind(name) not in ("tree", "array")]
    if fitting and (field.required or field.kind in ("label", "audio", "video")):
        # jpg and png are alternatives; seg.png beside jpg is another image.
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
    """Walk the keys of nested mappings, two levels deep, the outer ones first."""
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
