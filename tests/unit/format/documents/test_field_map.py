from __future__ import annotations

import pickle

import pytest

from loader.errors import ConfigError, SampleError
from loader.format.documents.field_map import FieldMap, parse_field_expression, parse_field_map
from loader.format.documents.value_name import ValueName


def field_map(**expressions: str) -> FieldMap:
    return parse_field_map(expressions, file="dataset.yaml")


@pytest.mark.parametrize(
    ("text", "accesses"),
    [
        ("jpg", [("jpg", ())]),
        ("seg.png", [("seg.png", ())]),
        ("jpg,png", [("jpg", ()), ("png", ())]),
        (" jpg , png ", [("jpg", ()), ("png", ())]),
        ("json[caption]", [("json", ("caption",))]),
        ("json[a][0][b]", [("json", ("a", 0, "b"))]),
        ("json[-1]", [("json", (-1,))]),
        ("json[two words]", [("json", ("two words",))]),
        ('json["caption"]', [("json", ("caption",))]),
        ("json['0']", [("json", ("0",))]),
        (r'json["a\"b\\"]', [("json", ('a"b\\',))]),
        ('json["a,b"][c],txt', [("json", ("a,b", "c")), ("txt", ())]),
        ("json[a,b]", [("json", ("a,b",))]),
        ('json[""]', [("json", ("",))]),
        ("json[it's]", [("json", ("it's",))]),
    ],
)
def test_an_expression_names_parts_and_paths(text: str, accesses: list[tuple[str, tuple[str | int, ...]]]) -> None:
    assert parse_field_expression(text) == tuple(ValueName(part, path) for part, path in accesses)


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("", 1),
        (" ", 1),
        ("jpg,,png", 5),
        (",jpg", 1),
        ("jpg,", 5),
        ("json[", 5),
        ("json[]", 5),
        ("json]", 5),
        ("j[a]b", 5),
    ],
)
def test_an_expression_that_is_none_is_refused_at_its_character(text: str, character: int) -> None:
    with pytest.raises(ValueError, match=f"at character {character} of"):
        parse_field_expression(text)


def test_all_faults_of_a_field_map_are_reported_with_their_places() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_field_map({"image": "jpg", "caption": "json[", "text": 3, 7: "txt"}, file="dataset.yaml")
    assert [fault.place for fault in caught.value.faults] == ["field_map.caption", "field_map.text", "field_map.7"]
    assert caught.value.file == "dataset.yaml"


def test_the_first_alternative_that_is_there_is_taken() -> None:
    images = field_map(image="jpg,png")
    assert images.apply({"png": 2, "jpg": 1}) == {"image": 1}
    assert images.apply({"png": 2}) == {"image": 2}


def test_an_alternative_whose_path_leads_nowhere_is_passed_over() -> None:
    captions = field_map(caption="json[en],json[de],txt")
    assert captions.apply({"json": {"de": "Katze"}, "txt": "cat"}) == {"caption": "Katze"}
    assert captions.apply({"json": {}, "txt": "cat"}) == {"caption": "cat"}


def test_none_is_a_value() -> None:
    assert field_map(caption="json[a],txt").apply({"json": {"a": None}, "txt": "x"}) == {"caption": None}


def test_a_number_indexes_a_list_and_may_be_the_key_of_a_mapping() -> None:
    decoded = {"json": {"a": [10, 20], "b": {"1": "one"}, "c": {1: "number"}}}
    assert field_map(x="json[a][1]").apply(decoded) == {"x": 20}
    assert field_map(x="json[a][-1]").apply(decoded) == {"x": 20}
    assert field_map(x="json[b][1]").apply(decoded) == {"x": "one"}
    assert field_map(x="msg[c][1]").apply({"msg": decoded["json"]}) == {"x": "number"}


@pytest.mark.parametrize(
    ("expression", "part", "found"),
    [
        ("txt,png", "txt", "this sample has only the parts jpg, json"),
        ("json[zz]", "json", "json has no 'zz', only a, b"),
        ("json[a][9]", "json", "json[a] has 2 items, no item 9"),
        ("json[a][-3]", "json", "json[a] has 2 items, no item -3"),
        ("json[a][k]", "json", "json[a] is a list, which has no key 'k'"),
        ("json[b][c]", "json", "json[b] is str, expected a mapping or a list"),
        ("jpg[0]", "jpg", "jpg is bytes, expected a mapping or a list"),
        ("png,json[zz]", "json", "json has no 'zz'"),
    ],
)
def test_a_missing_field_is_an_error_that_names_field_and_place(expression: str, part: str, found: str) -> None:
    with pytest.raises(SampleError) as caught:
        field_map(caption=expression).apply({"jpg": b"", "json": {"a": [1, 2], "b": "text"}})
    assert f"field 'caption' ({expression}) is missing: " in caught.value.message
    assert found in caught.value.message
    assert caught.value.part == part


def test_a_sample_without_parts_says_so() -> None:
    with pytest.raises(SampleError, match="has only the parts nothing"):
        field_map(text="txt").apply({})


def test_a_long_list_of_parts_is_cut() -> None:
    with pytest.raises(SampleError, match=r"p18, p19, …"):
        field_map(text="txt").apply({f"p{i}": b"" for i in range(30)})


def test_an_optional_field_that_is_missing_is_left_out() -> None:
    labels = field_map(image="jpg", label="cls", label_name="json[name]")
    assert labels.apply({"jpg": 1, "json": {}}, optional={"label", "label_name"}) == {"image": 1}


def test_parts_are_only_looked_at_when_needed() -> None:
    class Watched(dict[str, object]):
        def __getitem__(self, name: str) -> object:
            asked.append(name)
            return super().__getitem__(name)

    asked: list[str] = []
    field_map(image="jpg,png").apply(Watched(jpg=1, png=2, json=3))
    assert asked == ["jpg"]


def test_the_parts_needed_and_the_fields_missing_are_known_from_names_alone() -> None:
    fields = field_map(image="jpg,png", caption="json[caption]")
    assert fields.part_names() == {"jpg", "png", "json"}
    assert fields.missing({"png", "json"}) == []
    assert fields.missing(["txt"]) == ["image", "caption"]


def test_a_field_map_travels_to_worker_processes() -> None:
    fields = field_map(image="jpg,png", caption="json[caption]")
    assert pickle.loads(pickle.dumps(fields)) == fields


def test_text_is_quoted_only_where_it_must_be() -> None:
    fields = field_map(a="json['plain'][two words][0]['0'][\"a]b\"][' x']")
    assert str(fields) == """a: json[plain][two words][0]["0"]["a]b"][" x"]"""
