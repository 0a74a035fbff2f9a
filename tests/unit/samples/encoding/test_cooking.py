from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from loader.errors import ConfigError, EnergonError
from loader.samples import (
    Cooker,
    CrudeSample,
    HookContext,
    SourceInfo,
    TaskEncoder,
    TextSample,
    basic_sample_keys,
    cooker,
    set_hook_context,
)


def crude(**parts: Any) -> CrudeSample:
    return CrudeSample(
        {"__key__": "s.tar/0", "__restore_key__": ("read", 0), "__subflavors__": {}, "__sources__": ()} | parts
    )


def cook_text(sample: dict[str, Any]) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=sample["txt"])


def encoder_with(*cookers: Cooker) -> TaskEncoder[Any, Any, Any, Any]:
    class Encoder(TaskEncoder[Any, Any, Any, Any]):
        pass

    Encoder.cookers = list(cookers)
    return Encoder()


def names(*wanted: tuple[str, dict[str, Any] | None]) -> TaskEncoder[Any, Any, Any, Any]:
    """Return an encoder whose cookers return their own names."""
    return encoder_with(*(Cooker(lambda _, name=name, **__: name, has_subflavors=wish) for name, wish in wanted))


def test_a_cooked_sample_keeps_the_sources_of_the_crude_one() -> None:
    source = SourceInfo(dataset_path="/data", index=0, shard_name="s.tar", file_names=("0.txt",))
    sample = cook_text(crude(txt="a", __subflavors__={"x": 1}, __sources__=(source,)))
    assert (sample.__key__, sample.__restore_key__) == ("s.tar/0", ("read", 0))
    assert (sample.__subflavors__, sample.__sources__) == ({"x": 1}, (source,))


def test_shared_fields_that_a_crude_sample_lacks_are_none() -> None:
    assert basic_sample_keys({"__key__": "0"}) == {
        "__key__": "0",
        "__restore_key__": (),
        "__subflavors__": None,
        "__sources__": None,
    }


def test_sources_can_be_added() -> None:
    first, second = (SourceInfo(dataset_path=path, index=0, shard_name=None, file_names=()) for path in "ab")
    assert basic_sample_keys(crude(__sources__=(first,)), (second,))["__sources__"] == (first, second)
    assert basic_sample_keys({"__key__": "0"}, (second,))["__sources__"] == (second,)


def test_the_first_cooker_whose_subflavors_the_sample_has_cooks_it() -> None:
    encoder = names(("ocr", {"type": "ocr", "lang": "en"}), ("any ocr", {"type": "ocr"}), ("rest", None))
    cook = encoder.cook_crude_sample
    assert cook(crude(__subflavors__={"type": "ocr", "lang": "en", "more": 1})) == "ocr"
    assert cook(crude(__subflavors__={"type": "ocr", "lang": "de"})) == "any ocr"
    assert cook(crude(__subflavors__={"type": "caption"})) == "rest"
    assert cook(crude(__subflavors__=None)) == "rest"
    assert cook(CrudeSample({"__key__": "0"})) == "rest"


@pytest.mark.parametrize("subflavors", [{"a": 1}, {"a": 1, "b": 2}])
def test_a_subflavor_must_be_present_and_equal(subflavors: dict[str, Any]) -> None:
    one = Cooker(dict, has_subflavors={"a": 1})
    assert one.is_match(subflavors)
    assert not any(map(one.is_match, [{"a": 2}, {"b": 1}, {}, None]))


def test_subflavors_may_be_lists_and_dicts() -> None:
    one = Cooker(dict, has_subflavors={"langs": ["en", "de"], "crop": {"size": 3}})
    assert one.is_match({"crop": {"size": 3}, "langs": ["en", "de"], "more": []})
    assert not one.is_match({"crop": {"size": 4}, "langs": ["en", "de"], "more": []})


def test_none_as_expected_value_does_not_match_a_missing_one() -> None:
    assert not Cooker(dict, has_subflavors={"a": None}).is_match({})
    assert Cooker(dict, has_subflavors={"a": None}).is_match({"a": None})


def test_subflavors_may_be_passed_by_position() -> None:
    assert Cooker(dict, {"a": 1}).has_subflavors == {"a": 1}


def test_a_condition_sees_the_whole_sample() -> None:
    encoder = encoder_with(
        Cooker(lambda _: "text", condition=lambda sample: "txt" in sample), Cooker(lambda _: "no text")
    )
    assert encoder.cook_crude_sample(crude(txt="a")) == "text"
    assert encoder.cook_crude_sample(crude(json={})) == "no text"


def test_without_cookers_the_crude_sample_is_returned() -> None:
    sample = crude(txt="a")
    assert TaskEncoder().cook_crude_sample(sample, primary=object()) is sample


def test_the_error_of_a_sample_without_cooker_names_all_cookers() -> None:
    encoder = encoder_with(
        Cooker(cook_text, has_subflavors={"type": "ocr"}), Cooker(cook_text, {"lang": "en"}, lambda _: False)
    )
    with pytest.raises(ConfigError) as raised:
        encoder.cook_crude_sample(crude(__subflavors__={"type": "caption"}))
    assert str(raised.value).splitlines()[0] == (
        "no cooker accepts sample 's.tar/0' with subflavors {'type': 'caption'}: "
        "cook_text accepts {'type': 'ocr'}; cook_text accepts {'lang': 'en'} that pass its condition"
    )


def test_a_cooker_gets_auxiliary_stores_by_name_and_primary_and_cache_only_if_needed() -> None:
    given: dict[str, Any] = {}

    def cook(sample: dict[str, Any], **aux: Any) -> None:
        given.clear()
        given.update(aux)

    encoder = encoder_with(Cooker(cook))
    encoder.cook_crude_sample(crude(), pictures="store", primary="parts", cache="pool")
    assert given == {"pictures": "store"}
    encoder.cook_crude_sample(crude())
    assert given == {}


def test_a_cooker_gets_primary_and_cache_if_needed() -> None:
    @cooker(need_primary=True, need_cache=True)
    def cook(sample: dict[str, Any], primary: Any, cache: Any, **aux: Any) -> Any:
        return primary, cache, aux

    encoder = encoder_with(Cooker(cook))
    assert (encoder.cookers[0].need_primary, encoder.cookers[0].need_cache) == (True, True)
    found = encoder.cook_crude_sample(crude(), pictures="store", primary="parts", cache="pool")
    assert found == ("parts", "pool", {"pictures": "store"})


def test_marks_of_a_cooker_are_visible_through_a_partial() -> None:
    @cooker(need_primary=True)
    def cook(lang: str, sample: dict[str, Any], primary: Any) -> Any:
        return lang, primary

    encoder = encoder_with(Cooker(partial(cook, "en")))
    assert encoder.cook_crude_sample(crude(), primary="parts", cache="pool") == ("en", "parts")


def test_a_method_of_the_encoder_can_be_a_cooker() -> None:
    class Encoder(TaskEncoder[Any, Any, Any, Any]):
        def __init__(self) -> None:
            self.cookers = [Cooker(cooker(need_primary=True)(self.cook))]  # type: ignore[misc]

        def cook(self, sample: dict[str, Any], primary: Any) -> Any:
            return primary

    assert Encoder().cook_crude_sample(crude(), primary="parts") == "parts"


def test_a_plain_cooker_needs_neither_primary_nor_cache() -> None:
    @cooker
    def cook(sample: dict[str, Any]) -> Any:
        return sample

    for one in (Cooker(cook), Cooker(cook_text)):
        assert (one.need_primary, one.need_cache) == (False, False)


def test_a_missing_primary_store_is_a_config_error() -> None:
    @cooker(need_primary=True)
    def cook_page(sample: dict[str, Any], primary: Any) -> None: ...

    with pytest.raises(ConfigError, match="cook_page needs primary=, which is not available"):
        encoder_with(Cooker(cook_page)).cook_crude_sample(crude())


def test_a_missing_store_is_a_config_error() -> None:
    def cook_story(sample: dict[str, Any], photos: Any) -> None: ...

    with pytest.raises(ConfigError, match=r"cook_story missing a required argument: 'photos'; .* nothing else"):
        encoder_with(Cooker(cook_story)).cook_crude_sample(crude())
    with pytest.raises(ConfigError, match=r"cook_story .*'photos'.* available besides .* images="):
        encoder_with(Cooker(cook_story)).cook_crude_sample(crude(), images="store")


def test_an_unexpected_store_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"cook_text got an unexpected keyword argument 'photos'"):
        encoder_with(Cooker(cook_text)).cook_crude_sample(crude(txt="a"), photos="store")


def test_a_type_error_within_a_cooker_propagates() -> None:
    def cook_number(sample: dict[str, Any]) -> int:
        return int(sample["json"])

    with pytest.raises(TypeError, match="NoneType"):
        encoder_with(Cooker(cook_number)).cook_crude_sample(crude(json=None))


def test_a_cooker_that_needs_the_cache_gets_that_of_the_run() -> None:
    @cooker(need_cache=True)
    def cook(sample: dict[str, Any], cache: Any) -> Any:
        return cache

    encoder = encoder_with(Cooker(cook))
    set_hook_context(HookContext(cache="pool"))
    try:
        assert encoder.cook_crude_sample(crude()) == "pool"
        set_hook_context(HookContext())
        with pytest.raises(EnergonError, match="this run has none"):
            encoder.cook_crude_sample(crude())
    finally:
        set_hook_context(None)


def test_a_cooker_may_yield_several_samples() -> None:
    def cook_lines(sample: dict[str, Any]) -> Iterator[TextSample]:
        for line in sample["txt"].splitlines():
            yield TextSample(**basic_sample_keys(sample), text=line)

    cooked = encoder_with(Cooker(cook_lines)).cook_crude_sample(crude(txt="a\nb"))
    assert [sample.text for sample in cooked] == ["a", "b"]
