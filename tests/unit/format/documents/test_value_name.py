"""Names of values in all spellings that are taken, and what they mean in a dataset with certain parts."""

from __future__ import annotations

import pytest

from loader.format.documents.value_name import TRAITS, PartNames, parse_value_name
from loader.format.media.metadata import AVMetadata

PARTS = ("jpg", "seg.png", "left-eye.jpg", "txt", "json", "meta.json", "mp4")

MEANT: dict[str, str] = {
    "jpg.width": "jpg.width",
    "seg.png.width": "seg.png.width",
    "seg_png_width": "seg.png.width",
    "left-eye.jpg.width": 'part("left-eye.jpg").width',
    "part('left-eye.jpg').width": 'part("left-eye.jpg").width',
    "left_eye_jpg_width": 'part("left-eye.jpg").width',
    "json[a][0]['b.c'].chars": "json[a][0][b.c].chars",
    "json[a].b.chars": "json[a][b].chars",
    "json.label": "json[label]",
    "json.width": "json[width]",
    "json.length": "json.length json[length]",
    "json_label": "json[label]",
    "json.objects.0": "json[objects.0] json[objects][0]",
    "json.caption.chars": "json[caption.chars] json[caption].chars json[caption][chars]",
    "meta.json.x": "meta.json[x]",
    "txt": "txt",
    "txt_chars": "txt.chars",
    "label": "json[label] meta.json[label]",
    "fps": "mp4.fps json[fps] meta.json[fps]",
    "orientation": 'jpg.orientation seg.png.orientation part("left-eye.jpg").orientation json[orientation] '
    "meta.json[orientation]",
    "seg": "json[seg] meta.json[seg]",
}


@pytest.mark.parametrize("text", MEANT)
def test_a_spelling_means_these_values(text: str) -> None:
    assert " ".join(map(str, PartNames(PARTS).meant(text))) == MEANT[text]


def test_what_is_no_part_and_no_value_of_one_means_nothing() -> None:
    assert (
        PartNames(["jpg"]).meant("png.width")
        == PartNames(["txt"]).meant("width")
        == PartNames(["jpg"]).meant("label")
        == ()
    )
    assert PartNames(["seg.width"]).meant("width") == ()


def test_a_part_that_is_called_like_a_trait_is_told_apart() -> None:
    both = ["seg", "seg.width"]
    assert [*map(str, PartNames(both).meant("seg.width"))] == ["seg.width"]
    assert [*map(str, PartNames(both).meant('part("seg.width")'))] == ['part("seg.width")']
    assert [*map(str, PartNames(["seg.width"]).meant("seg.width"))] == ['part("seg.width")']


@pytest.mark.parametrize("text", ["", " ", "[a]", "json[]", "json[a", "json[a]b", "a,b"])
def test_a_text_that_is_no_name_is_refused_with_the_character(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected .* at character \d"):
        parse_value_name(text)


def test_each_field_of_media_metadata_is_a_trait() -> None:
    fields = {name.removeprefix("video_") for name in AVMetadata.__dataclass_fields__ if not name.endswith("_duration")}
    assert fields <= TRAITS
    assert all(PartNames(["mp4"]).has_trait("mp4", name) for name in (*fields, "duration", "bytes"))
