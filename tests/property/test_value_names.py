"""Names of values are read back as they were printed, by every reader of names."""

from __future__ import annotations

from hypothesis import given, strategies as st

from loader.dataset.query import Condition
from loader.format.documents.value_name import (
    TRAITS,
    PartNames,
    ValueName,
    parse_value_name,
    read_value_names,
    value_name_end,
)

odd_texts = st.text(st.sampled_from("ab0.[]\"'\\, ()_-é\n"), min_size=1, max_size=6)
usual_parts = st.sampled_from(["jpg", "seg.png", "left.jpg", "seg.width", "in", "bytes", "json", 'part("x")'])
part_names = odd_texts | usual_parts
steps = odd_texts | st.text(max_size=8) | st.integers(-10, 10)
names = st.builds(ValueName, part_names, st.lists(steps, max_size=3).map(tuple), st.sampled_from(["", *sorted(TRAITS)]))


@given(names)
def test_a_name_is_read_back_as_it_was_printed(name: ValueName) -> None:
    assert parse_value_name(str(name)) == name


@given(names, names)
def test_a_list_of_names_is_divided_between_them(first: ValueName, second: ValueName) -> None:
    assert [name for name, _ in read_value_names(f"{first}, {second}")] == [first, second]


@given(names)
def test_a_condition_reads_the_whole_name(name: ValueName) -> None:
    assert value_name_end(f"{name} > 3", 0) == len(str(name))
    assert Condition(f"not known({name}) or {name} in ['b.c', \"json[a]\"] and 1 < 2").columns == (str(name),)


@given(names)
def test_a_printed_name_means_itself_in_each_dataset_with_the_part(name: ValueName) -> None:
    meant = PartNames(["jpg", "json", "seg", name.part]).meant(str(name))
    is_key = name.part == "json" and name.trait not in {"", "bytes"} and not name.path
    assert meant[0] == name if not is_key else ValueName("json", (name.trait,)) in meant
    assert len(meant) == 1 or is_key


@given(st.lists(st.from_regex(r"[a-z]{1,4}", fullmatch=True), min_size=1, max_size=4))
def test_dots_and_underscores_may_replace_brackets(path: list[str]) -> None:
    name = ValueName("json", tuple(path))
    assert name in PartNames(["jpg", "json"]).meant(name.dotted)
    assert name in PartNames(["jpg", "json"]).meant(name.identifier)


@given(st.text(max_size=20))
def test_any_text_is_a_name_or_a_value_error(text: str) -> None:
    try:
        name = parse_value_name(text)
    except ValueError:
        return
    assert parse_value_name(str(name)) == name
