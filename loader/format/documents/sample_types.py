"""List the fields of every sample type as plain data, so that commands need not import torch.

The classes are in ``loader/samples/types.py``. A test checks that the two agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ...errors import ConfigError
from .messages import nearest_names

# Kinds of values; an ``image_list`` may also come as one image.
FieldKind = Literal[
    "any",
    "audio",
    "image",
    "image_list",
    "images",
    "label",
    "label_name",
    "sequence",
    "tensor",
    "text",
    "text_list",
    "turns",
    "video",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One field of a sample type. An optional field (``required=False``) is None if the data lacks it."""

    name: str
    required: bool
    kind: FieldKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTypeSpec:
    """A sample type: the name of its class, and its fields in order. A crude type has no fields.

    ``number`` is its number in prompts, which scripts use: as in megatron-energon's list, where number 6 is a type
    without fields; later types take the next one. ``shared`` is False for types that megatron-energon does not have.
    """

    name: str
    number: int
    fields: tuple[FieldSpec, ...]
    crude: bool = False
    shared: bool = True

    @property
    def short_name(self) -> str:
        """Name without ``Sample``: ``Captioning``."""
        return self.name.removesuffix("Sample")

    @property
    def dataset_class(self) -> str:
        """Name of the legacy dataset class with such samples: ``CaptioningWebdataset``."""
        return f"{self.short_name}Webdataset"

    @property
    def written_name(self) -> str:
        """Name in ``dataset.yaml``, flags and prompts: ``CaptioningSample``, but ``CrudeWebdataset``."""
        return self.dataset_class if self.crude else self.name

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields if field.required)

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if not field.required)

    def field(self, name: str) -> FieldSpec:
        """Return the field of that name.

        Raises:
            KeyError: The type has no such field.
        """
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)


def _type(name: str, number: int, *, shared: bool = True, **kinds: FieldKind) -> SampleTypeSpec:
    """Build a spec from ``field=kind``. A trailing underscore in a field's name marks an optional field."""
    fields = tuple(
        FieldSpec(name=field.removesuffix("_"), required=not field.endswith("_"), kind=kind)
        for field, kind in kinds.items()
    )
    return SampleTypeSpec(name=f"{name}Sample", number=number, fields=fields, shared=shared)


# Crude samples: dicts of parts, which a cooker turns into samples.
CRUDE = SampleTypeSpec(name="CrudeSample", number=11, fields=(), crude=True)

_TYPES = (
    _type("Captioning", 0, image="image", caption="text"),
    _type("Conversation", 13, turns="turns", images_="image_list", videos_="video", audios_="audio", shared=False),
    CRUDE,
    _type("Image", 2, image="image"),
    _type("ImageClassification", 1, image="image", label_="label", label_name_="label_name"),
    _type("Interleaved", 3, sequence="sequence"),
    _type("MultiChoiceVQA", 4, image="image", context="text", choices_="text_list", correct_choice_idx_="label"),
    _type(
        "OCR",
        5,
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
        7,
        images="images",
        texts="text_list",
        audio_="audio",
        video_="video",
        similarity_matrix_="tensor",
        matched_text_indices_="any",
    ),
    _type("Text", 8, text="text"),
    _type("VidQA", 10, video="video", context="text", answers_="text_list", answer_weights_="tensor"),
    _type("VQA", 9, image="image", context="text", answers_="text_list", answer_weights_="tensor"),
    _type(
        "VQAOCR",
        12,
        image="image",
        context="text",
        text="text",
        answers_="text_list",
        answer_weights_="tensor",
        words_boxes_="tensor",
        words_text_="text_list",
    ),
)

# All sample types by the names of their classes, in alphabetical order.
SAMPLE_TYPES: Mapping[str, SampleTypeSpec] = MappingProxyType({spec.name: spec for spec in _TYPES})


# All sample types by their numbers in prompts.
SAMPLE_TYPE_OF_NUMBER: Mapping[int, SampleTypeSpec] = MappingProxyType(
    {spec.number: spec for spec in sorted(_TYPES, key=lambda spec: spec.number)}
)


def _names_of(spec: SampleTypeSpec) -> tuple[str, ...]:
    return (spec.name, spec.dataset_class, spec.short_name)


_BY_LOWER_NAME = {name.lower(): spec for spec in _TYPES for name in _names_of(spec)}


def sample_type_of_name(name: str) -> SampleTypeSpec:
    """Find a sample type by its class (``CaptioningSample``), dataset class (``CaptioningWebdataset``) or short name.

    >>> sample_type_of_name("CaptioningWebdataset").name
    'CaptioningSample'
    >>> sample_type_of_name("crude").crude
    True
    """
    spec = _BY_LOWER_NAME.get(name.strip().lower())
    if spec is not None:
        return spec
    candidates = [alias for spec in _TYPES for alias in _names_of(spec)]
    near = (_BY_LOWER_NAME[alias.lower()].written_name for alias in nearest_names(name, candidates))
    nearest = " or ".join(dict.fromkeys(near))
    known = ", ".join(spec.written_name for spec in _TYPES)
    advice = f"did you mean {nearest}?" if nearest else f"known are {known}"
    raise ConfigError(f"there is no sample type {name!r}; {advice}", hint="use one of the sample types in the docs")
