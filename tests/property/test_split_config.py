from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given, strategies as st

from loader.errors import ConfigError
from loader.format.documents.split_config import SplitConfig, format_split_config, parse_split_config

name = st.text(min_size=1, max_size=15).filter(lambda text: not text.endswith("/"))
names = st.lists(name, max_size=6, unique=True).map(tuple)
configs = st.builds(SplitConfig, split_parts=st.dictionaries(name, names, max_size=4), exclude=names)

json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["split_parts", "exclude", "train"]) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(configs)
def test_what_is_written_is_what_is_read(config: SplitConfig) -> None:
    """parse(format(config)) == config, for any names."""
    assert parse_split_config(format_split_config(config), file="split.yaml") == config


@given(configs)
def test_any_yaml_parser_reads_what_is_written(config: SplitConfig) -> None:
    document = yaml.safe_load(format_split_config(config))
    assert document.keys() == {"split_parts", "exclude"}
    assert document["split_parts"].keys() == config.split_parts.keys()


@given(json_value)
def test_any_json_is_either_a_split_or_a_config_error(value: Any) -> None:
    try:
        config = parse_split_config(json.dumps(value), file="split.json")
    except ConfigError as error:
        assert error.faults  # noqa: PT017 - the other outcome is tested below
    else:
        assert isinstance(config, SplitConfig)
