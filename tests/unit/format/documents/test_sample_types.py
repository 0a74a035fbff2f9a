from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
import torch

from loader.errors import ConfigError
from loader.format.documents.conversation import Turn
from loader.format.documents.sample_types import (
    SAMPLE_TYPE_OF_NUMBER,
    SAMPLE_TYPES,
    SampleTypeSpec,
    sample_type_of_name,
)
from loader.samples import types

OF_KIND: dict[str, set[Any]] = {
    "any": {torch.Tensor, list[str], list[int]},
    "audio": {typing.Any},
    "image": {torch.Tensor},
    "image_list": {list[torch.Tensor]},
    "images": {list[torch.Tensor]},
    "label": {int},
    "label_name": {str},
    "sequence": {list[torch.Tensor | str]},
    "tensor": {torch.Tensor},
    "text": {str},
    "text_list": {list[str]},
    "turns": {list[Turn]},
    "video": {typing.Any},
}


@pytest.mark.parametrize("spec", SAMPLE_TYPES.values(), ids=lambda spec: spec.name)
def test_the_table_says_what_the_classes_say(spec: SampleTypeSpec) -> None:
    cls = getattr(types, spec.name)
    if spec.crude:
        assert issubclass(cls, dict)
        return
    shared = {field.name for field in dataclasses.fields(types.Sample)}
    own = [field for field in dataclasses.fields(cls) if field.name not in shared]
    assert [field.name for field in spec.fields] == [field.name for field in own]
    assert [field.required for field in spec.fields] == [
        field.default is field.default_factory is dataclasses.MISSING for field in own
    ]
    hints = typing.get_type_hints(cls)
    for field in spec.fields:
        kinds = set(typing.get_args(hints[field.name])) - {type(None)}
        assert OF_KIND[field.kind] & (kinds | {hints[field.name]}), field


def test_every_sample_class_is_in_the_table() -> None:
    classes = {name for name, value in vars(types).items() if getattr(value, "__module__", None) == types.__name__}
    assert {name for name in classes if name.endswith("Sample")} - {"Sample"} == set(SAMPLE_TYPES)
    names = [spec.short_name.lower() for spec in SAMPLE_TYPES.values()]
    assert names == sorted(names)


def test_the_numbers_that_scripts_use_stay() -> None:
    """Scripts pipe them to the prompts of prepare: a new type takes the next one."""
    first = "Captioning ImageClassification Image Interleaved MultiChoiceVQA OCR"
    later = "SimilarityInterleaved Text VQA VidQA Crude VQAOCR Conversation"
    expected = [*enumerate(first.split()), *enumerate(later.split(), start=7)]  # 6 is "Sample" in the other list
    found = [(number, spec.short_name) for number, spec in SAMPLE_TYPE_OF_NUMBER.items()]
    assert found[: len(expected)] == expected
    assert [number for number, _ in found] == [*range(6), *range(7, len(found) + 1)]


@pytest.mark.parametrize("spec", SAMPLE_TYPES.values(), ids=lambda spec: spec.name)
def test_a_type_is_found_by_each_of_its_names_in_any_case(spec: SampleTypeSpec) -> None:
    for name in (spec.name, spec.dataset_class, spec.short_name, spec.name.upper(), f" {spec.short_name.lower()} "):
        assert sample_type_of_name(name) is spec


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CaptioningSampel", "did you mean CaptioningSample or"),
        ("Caption", "did you mean CaptioningSample"),
        ("VQAWebdatset", "did you mean VQASample"),
        ("????", "known are CaptioningSample, ConversationSample,"),
    ],
)
def test_an_unknown_type_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sample_type_of_name(name)
    assert hint in caught.value.message


def test_fields_are_found_by_name() -> None:
    spec = sample_type_of_name("VQA")
    assert spec.required == ("image", "context")
    assert spec.optional == {"answers", "answer_weights"}
    assert spec.field("answers").kind == "text_list"
    with pytest.raises(KeyError, match="caption"):
        spec.field("caption")
