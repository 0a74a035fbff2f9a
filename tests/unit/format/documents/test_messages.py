from __future__ import annotations

from loader.format.documents.messages import did_you_mean, nearest_names


def test_case_does_not_count() -> None:
    assert nearest_names("FIELD_MAP", ["field_map", "subflavors"]) == ["field_map"]


def test_the_most_alike_name_comes_first() -> None:
    assert nearest_names("captioning", ["CaptioningSample", "Captioning", "Text"]) == ["Captioning", "CaptioningSample"]


def test_a_hint_names_the_nearest_or_all() -> None:
    assert did_you_mean("smple_type", ["sample_type", "x"]) == "; did you mean 'sample_type'?"
    assert did_you_mean("????", ["sample_type", "x"]) == "; known are sample_type, x"
