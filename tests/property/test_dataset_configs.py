from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, strategies as st

from loader.errors import ConfigError
from loader.format.documents.dataset_config import format_dataset_config, parse_dataset_config
from loader.format.documents.sample_types import SAMPLE_TYPES

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
classes = st.sampled_from([*SAMPLE_TYPES, *(spec.dataset_class for spec in SAMPLE_TYPES.values()), "Mine"])
named = st.fixed_dictionaries(
    {}, optional={"__module__": st.sampled_from(["megatron.energon", "mine"]), "__class__": classes}
)
field_maps = st.dictionaries(
    st.sampled_from(["image", "caption", "text", "context"]), st.sampled_from(["jpg,png", "txt", "json[a][0]", "x["])
)
functions = st.sampled_from(["sample_loader.py:load", "nothing"])
documents = st.fixed_dictionaries(
    {},
    optional={
        "__module__": st.sampled_from(["megatron.energon", "mine"]) | values,
        "__class__": classes | values,
        "sample_type": named | values,
        "field_map": field_maps | values,
        "sample_loader": functions | values,
        "part_filter": functions | st.lists(st.text(max_size=4), max_size=3) | values,
        "subflavors": values,
        "other": values,
    },
)


@st.composite
def good_documents(draw: st.DrawFn) -> dict[str, Any]:
    spec = draw(st.sampled_from([*SAMPLE_TYPES.values()]))
    module = draw(st.sampled_from(["megatron.energon", "loader.samples"]))
    if spec.crude or draw(st.booleans()):
        document: dict[str, Any] = {"__module__": module, "__class__": spec.dataset_class}
    else:
        document = {"sample_type": {"__module__": module, "__class__": spec.name}}
    if spec.crude:
        document |= draw(st.fixed_dictionaries({}, optional={"part_filter": st.lists(st.text(max_size=4), max_size=3)}))
    elif draw(st.booleans()):
        names = [field.name for field in spec.fields if field.required or draw(st.booleans())]
        document["field_map"] = {name: draw(st.sampled_from(["jpg,png", "txt", "json[a][0]['b c']"])) for name in names}
    else:
        document["sample_loader"] = "sample_loader.py:load"
    labels = st.dictionaries(st.text(max_size=5), values, max_size=3)
    return document | draw(st.fixed_dictionaries({}, optional={"subflavors": labels}))


def as_yaml(document: Any) -> str:
    return yaml.safe_dump(document)  # PyYAML reads line breaks of YAML 1.1 that it wrote as they are as spaces


@given(good_documents())
def test_a_config_is_read_back_as_it_was_written(document: dict[str, Any]) -> None:
    config = parse_dataset_config(as_yaml(document), file="dataset.yaml")
    assert config.subflavors == document.get("subflavors", {})
    assert parse_dataset_config(format_dataset_config(config), file="dataset.yaml") == config


@given(documents | values)
def test_any_document_is_a_config_or_a_config_error(document: Any) -> None:
    try:
        config = parse_dataset_config(as_yaml(document), file="dataset.yaml")
    except ConfigError:
        return
    assert parse_dataset_config(format_dataset_config(config), file="dataset.yaml") == config


@given(st.text(max_size=30))
def test_any_text_is_a_config_or_a_config_error(text: str) -> None:
    try:
        config = parse_dataset_config(text, file="dataset.yaml")
    except ConfigError:
        return
    assert parse_dataset_config(format_dataset_config(config), file="dataset.yaml") == config
