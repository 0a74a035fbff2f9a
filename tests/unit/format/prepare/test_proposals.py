from __future__ import annotations

import dataclasses
import typing

import pytest
import torch

from loader.errors import ConfigError
from loader.format.sample_type_proposals import propose_field_map, propose_sample_types
from loader.format.sample_types import CRUDE, SAMPLE_TYPES, SampleTypeSpec, sample_type_of_name
from loader.samples import types

OF_KIND = {
    "any": {torch.Tensor, list[str], list[int]},
    "audio": {typing.Any},
    "image": {torch.Tensor},
    "images": {list[torch.Tensor]},
    "label": {int},
    "label_name": {str},
    "sequence": {list[torch.Tensor | str]},
    "tensor": {torch.Tensor},
    "text": {str},
    "text_list": {list[str]},
    "video": {typing.Any},
}


def short_names(specs: list[SampleTypeSpec]) -> list[str]:
    return [spec.short_name for spec in specs]


@pytest.mark.parametrize("spec", SAMPLE_TYPES.values(), ids=lambda spec: spec.name)
def test_the_table_says_what_the_classes_say(spec: SampleTypeSpec) -> None:
    cls = getattr(types, spec.name)
    if spec.crude:
        assert issubclass(cls, dict)
        return
    shared = {field.name for field in dataclasses.fields(types.Sample)}
    own = [field for field in dataclasses.fields(cls) if field.name not in shared]
    assert [field.name for field in spec.fields] == [field.name for field in own]
    assert [field.required for field in spec.fields] == [field.default is dataclasses.MISSING for field in own]
    hints = typing.get_type_hints(cls)
    for field in spec.fields:
        kinds = set(typing.get_args(hints[field.name])) - {type(None)}
        assert OF_KIND[field.kind] & (kinds | {hints[field.name]}), field


def test_every_sample_class_is_in_the_table() -> None:
    assert set(types.__all__) - {"Sample"} == set(SAMPLE_TYPES)
    names = [spec.short_name.lower() for spec in SAMPLE_TYPES.values()]
    assert names == sorted(names)


@pytest.mark.parametrize("spec", SAMPLE_TYPES.values(), ids=lambda spec: spec.name)
def test_a_type_is_found_by_each_of_its_names_in_any_case(spec: SampleTypeSpec) -> None:
    for name in (spec.name, spec.dataset_class, spec.short_name, spec.name.upper(), f" {spec.short_name.lower()} "):
        assert sample_type_of_name(name) is spec


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CaptioningSampel", "did you mean CaptioningSample?"),
        ("Caption", "did you mean CaptioningSample"),
        ("VQAWebdatset", "did you mean VQASample"),
        ("????", "known are CaptioningSample, CrudeSample,"),
    ],
)
def test_an_unknown_type_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sample_type_of_name(name)
    assert hint in caught.value.found


def test_fields_are_found_by_name() -> None:
    spec = sample_type_of_name("VQA")
    assert spec.required == ("image", "context")
    assert spec.optional == {"answers", "answer_weights"}
    assert spec.field("answers").kind == "text_list"
    with pytest.raises(KeyError, match="caption"):
        spec.field("caption")


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        (["jpg", "txt"], "Captioning"),
        (["jpg", "json"], "Image"),
        (["jpg", "txt", "json"], "Captioning"),
        (["jpg", "cls"], "ImageClassification"),
        (["png", "cls", "json"], "ImageClassification"),
        (["webp"], "Image"),
        (["mp4", "json"], "Crude"),
        (["txt"], "Text"),
        (["json"], "Crude"),
        (["json", "npy"], "Crude"),
        (["bin"], "Crude"),
        (["wav", "txt"], "Crude"),
        ([], "Crude"),
    ],
)
def test_the_likeliest_type_that_parts_can_fill_is_proposed_first(parts: list[str], first: str) -> None:
    proposed = propose_sample_types(parts)
    assert proposed[0].short_name == first
    for spec in proposed[: proposed.index(CRUDE)]:
        assert set(spec.required) <= propose_field_map(spec, parts).keys(), "types that need code come last"
    assert len(set(short_names(proposed))) == len(proposed)


@pytest.mark.parametrize(
    ("parts", "example", "first", "field_map"),
    [
        (["jpg", "json"], {"caption": "a cat"}, "Captioning", {"image": "jpg", "caption": "json[caption]"}),
        (
            ["jpg", "json"],
            {"question": "why?", "answer": "so"},
            "VQA",
            {"image": "jpg", "context": "json[question]", "answers": "json[answer]"},
        ),
        (
            ["jpg", "json"],
            {"question": "why?", "choices": ["so", "no"], "answer": 1},
            "MultiChoiceVQA",
            {
                "image": "jpg",
                "context": "json[question]",
                "choices": "json[choices]",
                "correct_choice_idx": "json[answer]",
            },
        ),
        (["jpg", "json"], {"label": 3}, "ImageClassification", {"image": "jpg", "label": "json[label]"}),
        (["jpg", "json"], {"width": 3}, "Image", {"image": "jpg"}),
        (["mp4", "json"], {"question": "why?"}, "VidQA", {"video": "mp4", "context": "json[question]"}),
        (["json"], {"text": "once"}, "Text", {"text": "json[text]"}),
        (["json"], {"width": 3}, "Crude", {}),
    ],
)
def test_keys_of_json_tell_the_type_and_fill_its_fields(parts, example, first, field_map) -> None:
    spec = propose_sample_types(parts, example)[0]
    assert spec.short_name == first
    assert propose_field_map(spec, parts, example) == field_map


@pytest.mark.parametrize(
    ("name", "parts", "example", "expected"),
    [
        ("Captioning", ["jpg", "txt"], None, {"image": "jpg", "caption": "txt"}),
        ("Captioning", ["jpg", "txt", "json"], {"caption": "a"}, {"image": "jpg", "caption": "txt"}),
        ("Captioning", ["jpg", "json"], {"id": 3, "caption": "a"}, {"image": "jpg", "caption": "json[caption]"}),
        ("Captioning", ["jpg", "json"], {"meta": {"text": "a"}}, {"image": "jpg", "caption": "json[meta][text]"}),
        ("Captioning", ["jpg", "json"], {"id": 3, "caption": ["a"]}, {"image": "jpg"}),
        ("Captioning", ["jpg", "png", "seg.png", "txt"], None, {"image": "jpg,png", "caption": "txt"}),
        ("Captioning", ["left.jpg", "right.jpg", "txt"], None, {"image": "left.jpg", "caption": "txt"}),
        (
            "Captioning",
            ["image.jpg", "jpg", "caption.txt", "txt"],
            None,
            {"image": "image.jpg", "caption": "caption.txt"},
        ),
        ("ImageClassification", ["jpg", "cls"], None, {"image": "jpg", "label": "cls"}),
        (
            "ImageClassification",
            ["jpg", "json"],
            {"label": 3, "class_name": "cat"},
            {"image": "jpg", "label": "json[label]", "label_name": "json[class_name]"},
        ),
        ("ImageClassification", ["jpg", "json"], {"label": True}, {"image": "jpg"}),
        (
            "VQA",
            ["jpg", "json"],
            {"question": "?", "answers": ["a"], "answer_weights": [1.0]},
            {
                "image": "jpg",
                "context": "json[question]",
                "answers": "json[answers]",
                "answer_weights": "json[answer_weights]",
            },
        ),
        ("VQAOCR", ["jpg", "txt", "json"], {"text": "b"}, {"image": "jpg", "context": "txt", "text": "json[text]"}),
        ("VidQA", ["mp4", "json"], {"question": "?"}, {"video": "mp4", "context": "json[question]"}),
        ("Text", ["jsn"], {"text": "a"}, {"text": "jsn[text]"}),
        ("Interleaved", ["sequence.json"], None, {"sequence": "sequence.json"}),
        ("Interleaved", ["json"], {"sequence": ["a"]}, {"sequence": "json[sequence]"}),
        (
            "SimilarityInterleaved",
            ["images.npy", "json", "wav"],
            {"texts": ["a"], "similarity_matrix": [[1]], "matched_text_indices": [0]},
            {
                "images": "images.npy",
                "texts": "json[texts]",
                "audio": "wav",
                "similarity_matrix": "json[similarity_matrix]",
                "matched_text_indices": "json[matched_text_indices]",
            },
        ),
        ("Captioning", ["bin"], None, {}),
        ("Crude", ["jpg", "txt"], None, {}),
    ],
)
def test_each_field_gets_the_part_or_path_that_fits(
    name: str, parts: list[str], example: dict | None, expected: dict[str, str]
) -> None:
    assert propose_field_map(sample_type_of_name(name), parts, example) == expected
