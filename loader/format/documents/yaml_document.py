"""YAML text to plain Python values, safely.

No tag may construct an object, no key may be given twice, nothing may refer to itself, and neither deep nesting (which
would crash libyaml) nor references that expand without end (a "billion laughs") get past.
"""

from __future__ import annotations

from typing import Any

import yaml

from ..errors import ConfigError, Fault

__all__ = ["parse_yaml"]

_MAX_DEPTH = 100
_MAX_VALUES = 10_000_000  # or as many times eight letters
_LETTERS_A_VALUE = 8
_MAX_INTEGER_BITS = 1024  # Python refuses to write integers of more than 4,300 digits


class _PlainLoader(yaml.CSafeLoader):
    """The safe loader, which also notes keys that a mapping has twice (YAML forbids them; PyYAML takes the last)."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.repeated: list[Fault] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first_lines: dict[str, int] = {}
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                line = key_node.start_mark.line + 1
                if key_node.value in first_lines:
                    found = f"{key_node.value!r} is given twice, first on line {first_lines[key_node.value]}"
                    self.repeated.append(Fault(place=f"line {line}", found=found))
                first_lines.setdefault(key_node.value, line)
        return super().construct_mapping(node, deep=deep)


def _integer(loader: _PlainLoader, node: yaml.ScalarNode) -> int:
    value = int(loader.construct_yaml_int(node))
    if value.bit_length() > _MAX_INTEGER_BITS:
        mark: Any = node.start_mark
        raise yaml.MarkedYAMLError(problem=f"an integer has more than {_MAX_INTEGER_BITS} bits", problem_mark=mark)
    return value


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _integer)


def parse_yaml(text: str, *, file: str) -> Any:
    """Parse a YAML (or JSON) document into dicts, lists and scalars.

    Args:
        text: The document.
        file: Its name, for messages.

    Returns:
        The value; None for an empty document.

    Raises:
        ConfigError: The text is no YAML, holds a tag that asks for an object, or gives a key twice; with line and
            column.

    >>> parse_yaml("a: [1, 2]", file="x.yaml")
    {'a': [1, 2]}
    """
    try:
        _check_shape(text)
        loader = _PlainLoader(text)
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        found = " ".join(filter(None, [error.context, error.problem]))
        raise ConfigError(
            file=file,
            faults=[Fault(place=place, found=f"this is no plain YAML: {found}")],
            at=", ".join(filter(None, [file, place])),
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        # Unprintable characters, or a date such as 2024-99-99.
        raise ConfigError(file=file, faults=[Fault(place="", found=f"this is no plain YAML: {error}")]) from error
    if loader.repeated:
        raise ConfigError(file=file, faults=loader.repeated, do="remove one of the two")
    return value


def _check_shape(text: str) -> None:
    """Refuse what would recurse too deeply, or grow out of bounds, while it is made into values."""
    open_nodes: list[str | None] = []  # the anchors of the collections around this event
    sizes: list[int] = [0]  # how many values each of them has so far, references followed
    size_of_anchor: dict[str, int] = {}
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append(event.anchor)
            sizes.append(1)
            if len(open_nodes) > _MAX_DEPTH:
                raise _refusal("it is nested too deeply", event)
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop(), sizes.pop()
        elif isinstance(event, yaml.AliasEvent):
            target = event.anchor or ""
            if target in open_nodes:
                raise _refusal(f"*{target} refers to what it is itself part of", event)
            anchor, size = None, size_of_anchor.get(target, 1)
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, 1 + len(event.value) // _LETTERS_A_VALUE
        else:
            continue
        if anchor is not None:
            size_of_anchor[anchor] = size
        sizes[-1] += size
        if sizes[-1] > _MAX_VALUES:
            raise _refusal("its references expand to too many values", event)


def _refusal(found: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark  # the C parser's own class of mark, which types-PyYAML does not take for one
    return yaml.MarkedYAMLError(problem=found, problem_mark=mark)
