"""Documents have the values that PyYAML's safe loader gives them, and small ones cannot be deep or large."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given, settings, strategies as st

from loader.errors import ConfigError
from loader.format.documents.yaml_document import parse_yaml

SIGNS = "[]{}-:?,&!|>%@`\"'# \n\tab01<=.~"
WORDS = (
    "a",
    "b: ",
    "- ",
    "? ",
    "\n",
    "  ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "<<: ",
    "!!set ",
    "!!str ",
    "!!int ",
    "&x ",
    "*x ",
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.dates() | st.text(max_size=12)
KEYS = st.text(max_size=8) | st.integers() | st.booleans() | st.none()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=30
)


def typed(value: Any) -> Any:
    """Return a value with the types of its parts, so that 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return dict, [(typed(key), typed(item)) for key, item in value.items()]
    return type(value), [typed(item) for item in value] if isinstance(value, list) else value


def check(text: str) -> None:
    """Check that a document has the value, or is refused, as the safe loader does; repeated keys are refused, too."""
    try:
        expected = yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError):
        expected = ConfigError
    try:
        found = parse_yaml(text, file="x.yaml")
    except ConfigError as error:
        found = ConfigError
        if "is given twice" in str(error) or "refers to a value that contains it" in str(error):
            return
    assert typed(found) == typed(expected)


@given(VALUES, st.booleans() | st.none(), st.booleans())
def test_what_is_written_is_read(value: Any, flow: bool | None, is_indented: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, sort_keys=False, indent=4 if is_indented else 2)
    assert typed(parse_yaml(text, file="x.yaml")) == typed(yaml.safe_load(text))


@settings(max_examples=400)
@given(st.text(SIGNS, max_size=30) | st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
@example("{<<: {a: 1}, b: 2}")
@example("a: 1\na: 2")
@example("? a\n? b\n")
@example("!!set {a, b}")
@example("- &x a\n- b")
@example("{=: 1}")
@example("!!map [a]")
@example("!!int ''")
@example("!!bool x")
@example("!!timestamp x")
@example("!!float x")
def test_any_text_is_read_as_the_safe_loader_does(text: str) -> None:
    check(text)


@settings(max_examples=400)
@given(st.text("[]{}-:?, \nab", max_size=24) | st.lists(st.sampled_from(WORDS[:11]), max_size=14).map("".join))
@example("?")
@example("[? ]")
@example("- - - a: ? b")
def test_collections_and_values_are_bounded_by_the_signs_and_letters_of_a_document(text: str) -> None:
    """Each collection has a sign of its own, and a letter is at most four events: what small documents rely on."""
    try:
        events = list(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError:
        return
    collections = sum(isinstance(event, yaml.CollectionStartEvent) for event in events)
    assert collections <= sum(map(text.count, "[{-:?"))
    assert len(events) <= 4 * (len(text) + 1)
