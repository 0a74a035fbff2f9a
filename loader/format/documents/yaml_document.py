"""Parse untrusted YAML into plain Python values.

Refused are tags that construct objects, repeated keys, values that refer to themselves, deep nesting (which would crash
libyaml), very many values (a million takes some seconds), and references that expand to very many ("billion laughs").
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import yaml

from ...collector import paused_collection
from ...errors import ConfigError, Fault, escape_controls
from ...storage import max_document_bytes
from ...storage.protocol import DOCUMENT_LIMIT_VARIABLE

_MAX_DEPTH = 100
_BYTES_PER_VALUE = 256  # share of the limit of bytes that allows one value: a million, with the default limit
_MAX_EXPANDED_VALUES = 10_000_000
_LETTERS_PER_VALUE = 8  # Longer text counts as several values.
_TOO_DEEP = "it is nested too deeply"
_MAX_INTEGER_BITS = 1024  # Python refuses to write integers of more than 4,300 digits
_EVENTS_PER_LETTER = 4  # at most: "a:" is a mapping, whose start and end count, with a key and an empty value
_COLLECTION_SIGNS = "[{-:?"  # each collection has one of its own
_STRING, _SEQUENCE, _MAPPING = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


class _PlainLoader(yaml.CSafeLoader):
    """The safe loader, which also notes repeated keys of a mapping: YAML forbids them, but PyYAML takes the last."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.repeated: list[Fault] = []
        self.last_wins: Collection[str] = ()
        self.replaced: list[str] = []

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        first_lines: dict[str, int] = {}
        # A tag such as !!map may be that of a list, which the safe loader refuses.
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                line = key_node.start_mark.line + 1
                if key_node.value in first_lines:
                    message = f"{key_node.value!r} is given twice, first on line {first_lines[key_node.value]}"
                    if key_node.value in self.last_wins:
                        self.replaced.append(f"line {line}: {message}; the last one is used")
                    else:
                        self.repeated.append(Fault(place=f"line {line}", message=message))
                first_lines.setdefault(key_node.value, line)
        return super().construct_mapping(node, deep=deep)

    def plain_value(self, node: yaml.Node) -> Any:
        """Return the value of a node without references; the common kinds cost a third of the safe loader's time."""
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.tag == _STRING else self.construct_object(node, deep=True)
        if isinstance(node, yaml.SequenceNode) and node.tag == _SEQUENCE:
            return [self.plain_value(item) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == _MAPPING:
            keys = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag == _STRING}
            if len(keys) == len(node.value):  # they are different strings, and there is no merge
                return {key.value: self.plain_value(value) for key, value in node.value}
        return self.construct_object(node, deep=True)


def _integer(loader: _PlainLoader, node: yaml.ScalarNode) -> int:
    value = int(loader.construct_yaml_int(node))
    if value.bit_length() > _MAX_INTEGER_BITS:
        mark: Any = node.start_mark
        raise yaml.MarkedYAMLError(problem=f"an integer has more than {_MAX_INTEGER_BITS} bits", problem_mark=mark)
    return value


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _integer)


def parse_yaml(text: str, *, file: str, last_wins: Collection[str] = ()) -> Any:
    """Parse a YAML (or JSON) document into dicts, lists and scalars.

    Args:
        last_wins: Keys that may be repeated; the last value is used, with a warning.

    Returns:
        The value; None for an empty document.

    Warns:
        UserWarning: A key of ``last_wins`` is repeated.

    >>> parse_yaml("a: [1, 2]", file="x.yaml")
    {'a': [1, 2]}
    """
    try:
        # Check the shape of large texts, and of texts with references, before a document is built.
        has_references = "*" in text
        if has_references or not _is_small(text):
            _check_shape(text, file)
        loader = _PlainLoader(text)
        loader.last_wins = last_wins
        try:
            with paused_collection():
                # Without references, nodes convert directly, in less time than by PyYAML's constructors.
                node = None if has_references else loader.get_single_node()
                value = loader.get_single_data() if has_references else node and loader.plain_value(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError) as error:
        raise error_of_yaml(error, file=file) from error
    except (LookupError, AttributeError, TypeError, OverflowError) as error:  # of PyYAML, for !!int "" and !!bool x
        raise error_of_yaml(ValueError("a value does not have the form of its tag"), file=file) from error
    # Report repeated keys, which PyYAML accepts.
    if loader.repeated:
        raise ConfigError(file=file, faults=loader.repeated, hint="remove one of the two")
    for replaced in loader.replaced:
        warnings.warn(escape_controls(f"{file}, {replaced}"), UserWarning, stacklevel=2)
    return value


def error_of_yaml(error: yaml.YAMLError | ValueError, *, file: str) -> ConfigError:
    """Return an error of PyYAML as a :class:`ConfigError` with its line and column."""
    if not isinstance(error, yaml.MarkedYAMLError):  # unprintable characters, or a date such as 2024-99-99
        return ConfigError(file=file, faults=[Fault(place="", message=f"this is not plain YAML: {error}")])
    mark = error.problem_mark or error.context_mark
    position = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    reason = " ".join(filter(None, [error.context, error.problem]))
    if "nesting depth" in reason:  # a limit of newer versions of libyaml, which some documents meet first
        reason = _TOO_DEEP
    return ConfigError(
        file=file,
        faults=[Fault(place=position, message=f"this is not plain YAML: {reason}")],
        at=", ".join(filter(None, [file, position])),
    )


def _is_small(text: str) -> bool:
    """Return True if a document without references is neither deep nor large, whatever its signs mean."""
    most = max_document_bytes() // _BYTES_PER_VALUE
    return (len(text) + 1) * _EVENTS_PER_LETTER < most and sum(map(text.count, _COLLECTION_SIGNS)) <= _MAX_DEPTH


def _check_shape(text: str, file: str) -> None:
    """Refuse a document that would recurse too deeply, or grow too large, when its values are constructed."""
    open_nodes: list[str | None] = []  # anchors of the collections around this event
    sizes: list[int] = [0]  # number of values in each of them so far, with references expanded
    size_of_anchor: dict[str, int] = {}
    most = max_document_bytes() // _BYTES_PER_VALUE
    # Values of other mappings that "<<" merges are built again, as if they were written; others are shared.
    most_expanded = most if "<<" in text else _MAX_EXPANDED_VALUES
    for count, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        if count > most:
            hint = f"if it is right, set the environment variable {DOCUMENT_LIMIT_VARIABLE}={max_document_bytes() * 4}"
            fault = Fault(place="", message=f"this document has more than {most:,} values")
            raise ConfigError(file=file, faults=[fault], hint=hint)
        # A collection counts when it ends; until then its values are added up.
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append(event.anchor)
            sizes.append(1)
            if len(open_nodes) > _MAX_DEPTH:
                raise _refusal(_TOO_DEEP, event)
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop(), sizes.pop()
        elif isinstance(event, yaml.AliasEvent):
            target = event.anchor or ""
            if target in open_nodes:
                raise _refusal(f"*{target} refers to a value that contains it", event)
            anchor, size = None, size_of_anchor.get(target, 1)
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, 1 + len(event.value) // _LETTERS_PER_VALUE
        else:
            continue
        # Add the size of the value to the collection around it.
        if anchor is not None:
            size_of_anchor[anchor] = size
        sizes[-1] += size
        if sizes[-1] > most_expanded:
            raise _refusal("its references expand to too many values", event)


def _refusal(message: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark  # The C parser has its own class of marks, which types-PyYAML does not accept.
    return yaml.MarkedYAMLError(problem=message, problem_mark=mark)


_LINE_BREAKS = frozenset("\x85\u2028\u2029")  # of YAML 1.1, which PyYAML writes as they are and reads as spaces


class PlainDumper(yaml.SafeDumper):
    """Writes documents for people, and so that they are read back as they were.

    Repeated values are written in full, because references (``&id001``) are hard to read.
    """

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = None if _LINE_BREAKS.isdisjoint(data) else '"'
        return self.represent_scalar(_STRING, data, style=style)


PlainDumper.add_representer(str, PlainDumper.represent_str)
