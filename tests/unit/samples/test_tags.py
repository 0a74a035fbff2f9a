"""``__tags__`` and ``has_tags``, the second names of subflavors."""

from __future__ import annotations

import pytest

from loader import Batch, Cooker, ImageSample, TextSample, edataclass
from loader.errors import ConfigError
from loader.samples.types import CrudeSample


@edataclass
class Texts(Batch):
    text: list[str]


def test_tags_of_samples_and_batches_are_their_subflavors() -> None:
    sample = TextSample(__key__="s.tar/0", text="a", __subflavors__={"x": 1})
    assert sample.__tags__ == {"x": 1}
    sample.__tags__ = {"y": 2}
    assert sample.__subflavors__ == {"y": 2}
    assert repr(sample) == "TextSample(__key__='s.tar/0', text='a')"
    batch = Texts.from_samples([sample, sample])
    assert batch.__tags__ == batch.__subflavors__ == [{"y": 2}, {"y": 2}]
    assert Texts.from_samples([sample], __tags__=[None]).__subflavors__ == [None]


def test_tags_are_given_when_a_sample_is_derived() -> None:
    base = TextSample(__key__="s.tar/0", text="a", __subflavors__={"x": 1})
    assert ImageSample.derive_from(base, image=None).__tags__ == {"x": 1}
    assert ImageSample.derive_from(base, image=None, __tags__={"y": 2}).__subflavors__ == {"y": 2}
    assert TextSample.extend(base, __tags__=None).__subflavors__ is None
    with pytest.raises(TypeError, match="expected __subflavors__ or __tags__, its other name, found both"):
        TextSample.derive_from(base, text="b", __tags__={}, __subflavors__={})


def test_crude_samples_have_tags() -> None:
    sample = CrudeSample(__subflavors__={"x": 1})
    assert sample["__tags__"] == {"x": 1}
    with pytest.raises(KeyError, match="txt"):
        sample["txt"]


def test_cookers_are_chosen_by_tags() -> None:
    by_tags = Cooker(dict, has_tags={"type": "ocr"})
    assert by_tags == Cooker(dict, has_subflavors={"type": "ocr"})
    assert (by_tags.has_subflavors, by_tags.takes_all) == ({"type": "ocr"}, False)
    assert by_tags.is_match({"type": "ocr", "x": 1})
    assert not by_tags.is_match({})
    with pytest.raises(ConfigError, match="expected has_subflavors or has_tags"):
        Cooker(dict, has_subflavors={}, has_tags={})
