from __future__ import annotations

from typing import Any

import pytest

from loader.format.documents.sample_types import CRUDE, SampleTypeSpec, sample_type_of_name
from loader.parts.kinds import kind_of_bytes
from loader.parts.part_sets import PartSet
from loader.prepare.contents.proposals import propose
from loader.prepare.contents.proposed_fields import SeenParts, propose_field_map
from loader.prepare.contents.texts import Texts

LLAVA = {"id": "7", "conversations": [{"from": "human", "value": "<image>\nWho?"}, {"from": "gpt", "value": "A cat."}]}
CHATML = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "A cat."}]


def part_set(names: str, samples: int) -> PartSet:
    return PartSet(parts=tuple(names.split()), samples=samples, shards=1, first_sample=0, example="s_0.tar/x0")


def short_names(specs: list[SampleTypeSpec]) -> list[str]:
    return [spec.short_name for spec in specs]


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        (["jpg", "txt"], "Captioning"),
        (["jpg", "json"], "Crude"),
        (["JPG", "TXT"], "Captioning"),
        (["jpg", "seg.png", "txt"], "Crude"),
        (["jpg", "txt", "cls"], "Crude"),
        (["jpg", "txt", "json"], "Captioning"),
        (["jpg", "cls"], "ImageClassification"),
        (["png", "cls", "json"], "ImageClassification"),
        (["webp"], "Image"),
        (["avif", "txt"], "Captioning"),
        (["jxl", "txt"], "Captioning"),
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
    proposed = [*propose(SeenParts(parts)).sample_types]
    assert proposed[0].short_name == first
    for spec in proposed[: proposed.index(CRUDE)]:
        assert set(spec.required) <= propose_field_map(spec, SeenParts(parts)).keys(), "types that need code come last"
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
        (["JPG", "JSON"], {"caption": "a cat"}, "Captioning", {"image": "JPG", "caption": "JSON[caption]"}),
        (["jpg", "JPG", "txt", "TXT"], {}, "Captioning", {"image": "jpg,JPG", "caption": "txt,TXT"}),
        (["jpg", "json"], LLAVA, "Conversation", {"turns": "json[conversations]", "images": "jpg"}),
        (["json"], {"messages": CHATML}, "Conversation", {"turns": "json[messages]"}),
        (["json"], {"system": "Be brief.", "messages": CHATML}, "Conversation", {"turns": "json"}),
        (["jpg", "json"], {"story": "a long tale"}, "Crude", {}),
        (["jpg", "json", "txt"], LLAVA, "Crude", {}),
        (["jpg", "json"], {"question": "why?"}, "VQA", {"image": "jpg", "context": "json[question]"}),
        (["jpg", "json"], {"question": "why?", "label": 1}, "Crude", {}),
        (["jpg", "json"], {"prompt": "a cat on a mat"}, "Captioning", {"image": "jpg", "caption": "json[prompt]"}),
        (
            ["jpg", "cls", "json"],
            {"label": "cat"},
            "ImageClassification",
            {"image": "jpg", "label": "cls", "label_name": "json[label]"},
        ),
        (
            ["jpg", "txt", "json"],
            {"question": "why?", "answer": "so"},
            "Crude",
            {},
        ),
        (["json"], {"messages": CHATML, "answer": "A cat."}, "Conversation", {"turns": "json[messages]"}),
    ],
)
def test_keys_of_json_tell_the_type_and_fill_its_fields(
    parts: list[str], example: dict[str, Any], first: str, field_map: dict[str, str]
) -> None:
    spec = propose(SeenParts(parts, example)).sample_types[0]
    assert spec.short_name == first
    assert propose_field_map(spec, SeenParts(parts, example)) == field_map


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
    name: str, parts: list[str], example: dict[str, Any] | None, expected: dict[str, str]
) -> None:
    assert propose_field_map(sample_type_of_name(name), SeenParts(parts, example)) == expected


@pytest.mark.parametrize(
    ("parts", "example", "first", "reason"),
    [
        (["jpg", "txt"], None, "Captioning", None),
        (["jpg", "txt", "json"], {"license": "CC BY"}, "Captioning", "no field of CaptioningSample holds json"),
        (
            ["left.jpg", "right.jpg", "txt"],
            None,
            "Crude",
            "CaptioningSample would drop right.jpg; crude samples (dicts of parts) keep",
        ),
        (["jpg", "json"], {"story": "a long tale"}, "Crude", "ImageSample would drop json"),
        (["jpg", "cls", "txt"], None, "Crude", "CaptioningSample would drop cls"),
        (["mp4", "txt"], None, "Crude", "TextSample would drop mp4"),
        (["mp4"], None, "Crude", "no sample type has fields for mp4"),
        (["jpg", "json"], {"caption": "a", "label": 3}, "Crude", "CaptioningSample would drop json[label]"),
        (
            ["txt", "json"],
            {"chosen": "yes", "rejected": "no"},
            "Crude",
            "drop json[chosen] (a preference), json[rejected] (a preference)",
        ),
        (["json"], {"messages": CHATML, "chosen": "a", "rejected": "b"}, "Crude", "json[chosen] (a preference)"),
        (["txt", "json"], {"chosen": "yes"}, "Text", "no field of TextSample holds json"),
        (["txt", "json"], {"completion": "so"}, "Crude", "TextSample would drop json[completion]"),
        (["jpg", "txt", "json"], {"objects": [{"bbox": [0, 1]}]}, "Crude", "drop json[objects] (boxes)"),
        (["jpg", "json"], LLAVA, "Conversation", "megatron-energon does not have this type"),
        (["0.jpg", "1.jpg", "json"], LLAVA, "Conversation", "several images"),
        (
            ["0.jpg", "1.jpg", "json"],
            {"texts": ["a", None, "b", None]},
            "Interleaved",
            "runs only with trust_code=True",
        ),
    ],
)
def test_a_proposal_drops_no_text_and_says_why(
    parts: list[str], example: dict[str, Any] | None, first: str, reason: str | None
) -> None:
    proposal = propose(SeenParts(parts, example))
    assert proposal.sample_types[0].short_name == first
    assert (reason or "") in (proposal.reason or "")
    assert (reason is None) == (proposal.reason is None)


def test_alternatives_that_one_sample_has_together_are_not_alternatives() -> None:
    assert propose(SeenParts(["jpg", "png", "txt"])).reason is None
    proposal = propose(SeenParts(["jpg", "png", "txt"], sets=[part_set("jpg png txt", 5)]))
    assert (proposal.sample_types[0], proposal.reason) == (
        CRUDE,
        "CaptioningSample would drop png; crude samples (dicts of parts) keep all parts",
    )


@pytest.mark.parametrize("name", ["img", "txt", "photo.json"])
def test_a_picture_under_another_name_is_kept_and_named(name: str) -> None:
    kinds = {name: kind_of_bytes(b"\x89PNG\r\n\x1a\n"), "caption.txt": kind_of_bytes(b"a cat")}
    proposal = propose(SeenParts([name, "caption.txt"], kinds=kinds))
    assert proposal.sample_types[0] == CRUDE
    assert f"part {name!r} is a PNG picture" in (proposal.reason or "")
    assert "Captioning" in short_names(list(proposal.sample_types)), "the type that it would be is offered"
    for spec in proposal.sample_types:
        assert name not in propose_field_map(spec, SeenParts([name, "caption.txt"], kinds=kinds)).values()


def test_video_under_an_unknown_name_fills_a_field_since_loaders_keep_media_as_bytes() -> None:
    kinds = {"clip": kind_of_bytes(b"\0\0\0\x18ftypisom")}
    example = {"question": "What?", "answer": "A cat."}
    (vid, *_) = propose(SeenParts(["clip", "json"], example, kinds=kinds)).sample_types
    assert vid.short_name == "VidQA"
    assert propose_field_map(vid, SeenParts(["clip", "json"], example, kinds=kinds))["video"] == "clip"


@pytest.mark.parametrize(
    ("sets", "first", "field_map"),
    [
        ([("jpg txt", 1200), ("txt webp", 600)], "Captioning", {"image": "jpg,webp", "caption": "txt"}),
        ([("jpg txt", 1980), ("jpg", 20)], "Captioning", {"image": "jpg", "caption": "txt"}),
        ([("mp4 json", 90), ("webm json", 10)], "VidQA", {"video": "mp4,webm"}),
        ([("jpg txt", 5000), ("json wav", 3)], "Captioning", {"image": "jpg", "caption": "txt"}),
    ],
)
def test_a_type_comes_from_all_part_sets(sets: list[tuple[str, int]], first: str, field_map: dict[str, str]) -> None:
    table = [part_set(*each) for each in sets]
    names = list(dict.fromkeys(name for each in table for name in each.parts))
    example = {"question": "why?", "answer": "so"} if first == "VidQA" else {"id": 7}
    proposal = propose(SeenParts(names, example, sets=table, count_with=lambda _: (50, 50)))
    assert proposal.sample_types[0].short_name == first
    proposed = propose_field_map(proposal.sample_types[0], SeenParts(names, example, sets=table))
    assert field_map.items() <= proposed.items()


def test_no_type_is_proposed_that_no_sample_fits() -> None:
    apart = [part_set("jpg", 50), part_set("txt", 50)]
    assert propose(SeenParts(["jpg", "txt"], sets=apart)).sample_types[0] == CRUDE
    values = {"question": "Why is that?", "answer": "so"}
    together = [part_set("jpg json", 50)]
    assert (
        propose(SeenParts(["jpg", "json"], values, sets=together, count_with=lambda _: (50, 50))).sample_types[0]
        != CRUDE
    )
    assert (
        propose(SeenParts(["jpg", "json"], values, sets=together, count_with=lambda _: (0, 50))).sample_types[0]
        == CRUDE
    )


@pytest.mark.parametrize(
    ("sets", "fits"),
    [
        ([("bin", 5000), ("jpg txt", 30)], "30 of 5,030"),
        ([("jpg txt", 1979), ("jpg", 21)], "1,979 of 2,000"),
        ([("jpg txt", 97), ("jpg", 2)], "97 of 99"),
        ([("jpg txt", 1), ("jpg", 1)], "1 of 2"),
    ],
)
def test_a_type_that_too_few_samples_fit_is_not_proposed_and_the_reason_says_so(
    sets: list[tuple[str, int]], fits: str
) -> None:
    proposal = propose(SeenParts(["txt", "jpg"], sets=[part_set(*each) for each in sets]))
    assert (proposal.sample_types[0], proposal.reason) == (
        CRUDE,
        f"CaptioningSample fits {fits} samples; crude samples (dicts of parts) keep all parts",
    )


def test_of_few_samples_one_may_lack_a_field() -> None:
    few = [part_set("jpg txt", 2), part_set("txt", 1)]
    assert propose(SeenParts(["txt", "jpg"], sets=few)).sample_types[0].short_name == "Captioning"


def test_values_inside_json_fill_a_field_of_nearly_all_samples_that_were_inspected() -> None:
    def first(count: int, total: int) -> str | None:
        seen = SeenParts(["jpg", "json"], {"caption": "a cat"}, count_with=lambda _: (count, total))
        return propose(seen).sample_types[0].short_name

    assert [first(*counts) for counts in ((256, 256), (254, 256), (250, 256), (9, 10))] == [
        "Captioning",
        "Captioning",
        "Crude",
        "Captioning",
    ]


def test_a_rare_part_keeps_its_samples_but_not_all_others_from_a_type() -> None:
    rare = [part_set("jpg txt", 5000), part_set("jpg txt wav", 3)]
    assert propose(SeenParts(["jpg", "txt", "wav"], sets=rare)).sample_types[0].short_name == "Captioning"
    frequent = [part_set("jpg txt", 5000), part_set("jpg txt wav", 300)]
    proposal = propose(SeenParts(["jpg", "txt", "wav"], sets=frequent))
    assert (proposal.sample_types[0], proposal.reason) == (
        CRUDE,
        "CaptioningSample would drop wav; crude samples (dicts of parts) keep all parts",
    )


def seen_texts(*texts: str) -> SeenParts:
    seen = Texts()
    for text in texts:
        seen.add([text])
    return SeenParts(["jpg", "txt"], texts={"txt": seen})


@pytest.mark.parametrize(
    ("texts", "first", "reason"),
    [
        (["a cat", "0 1"], "Captioning", ""),
        (
            ["0 0.5 0.5 0.2 0.2", "1 .1 .1 .3 .3\n0 1 1 1e-3 1"],
            "Crude",
            "would drop txt (mostly numbers, which are no text)",
        ),
        ([f"ok 154 1{n} 408 746 89 A|MOVE" for n in range(3)], "Crude", "mostly numbers"),
        ([f"{n:010d} basic" for n in range(3)], "Crude", "mostly numbers"),
        (["2 dogs", "3 cats", "at 12:30 PM", "picture 000000000009.jpg"], "Captioning", ""),
        (["cat", "dog"] * 3, "ImageClassification", ""),
        (["cat", "dog"], "Captioning", ""),
        (["a man on a horse", "a dog in the rain"] * 3, "Captioning", ""),
    ],
)
def test_texts_tell_captions_from_boxes_and_classes(texts: list[str], first: str, reason: str) -> None:
    proposal = propose(seen_texts(*texts))
    assert proposal.sample_types[0].short_name == first
    assert reason in (proposal.reason or "")


def test_a_name_of_a_class_in_a_text_fills_the_label_name() -> None:
    field_map = propose_field_map(sample_type_of_name("ImageClassification"), seen_texts(*["cat", "dog"] * 3))
    assert field_map == {"image": "jpg", "label_name": "txt"}
