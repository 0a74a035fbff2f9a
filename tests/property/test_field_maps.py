from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from loader.format.documents.field_map import FieldMap, parse_field_expression, parse_field_map
from loader.format.documents.value_name import ValueName

part_names = st.from_regex(r"[a-z0-9_]{1,5}(\.[a-z]{1,4})?", fullmatch=True)
steps = st.one_of(st.text(max_size=8), st.integers(-10, 10))
accesses = st.builds(ValueName, part_names, st.lists(steps, max_size=4).map(tuple))
alternatives = st.lists(accesses, min_size=1, max_size=4).map(tuple)
trees = st.recursive(
    st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text(max_size=5), inner, min_size=1),
    max_leaves=10,
)


@given(alternatives)
def test_an_expression_is_read_back_as_it_was_written(places: tuple[ValueName, ...]) -> None:
    assert parse_field_expression(",".join(map(str, places))) == places


@given(st.dictionaries(st.text(min_size=1, max_size=8), alternatives, max_size=4))
def test_a_field_map_is_read_back_as_it_was_written(fields: dict[str, tuple[ValueName, ...]]) -> None:
    written = FieldMap(fields)
    assert parse_field_map(written.expressions(), file="dataset.yaml") == written


@given(st.text(max_size=20))
def test_any_text_is_an_expression_or_a_value_error(text: str) -> None:
    try:
        places = parse_field_expression(text)
    except ValueError:
        return
    assert parse_field_expression(",".join(map(str, places))) == places


@given(trees, st.data())
def test_every_value_inside_a_part_can_be_reached(tree: Any, data: st.DataObject) -> None:
    path: list[str | int] = []
    value = tree
    while isinstance(value, dict | list) and data.draw(st.booleans()):
        step = data.draw(st.sampled_from(sorted(value)) if isinstance(value, dict) else st.integers(0, len(value) - 1))
        path.append(step)
        value = value[step]
    expression = str(ValueName("json", tuple(path)))
    assert parse_field_map({"x": expression}, file="f").apply({"json": tree}) == {"x": value}
