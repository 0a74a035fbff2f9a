"""Describe the columns of a table by its schema alone, as proposals of sample types take the parts of samples.

``energon import`` decides which parts the columns become; the proposal for these is that for the columns.
"""

from __future__ import annotations

from typing import Any

from ...convert.sources import SourceOptions
from ...convert.tables.arrow_rows import arrow_columns
from ...convert.tables.detect import find_layout
from ...convert.tables.named_files import NamedFiles
from ...format.records.table_schema import is_list, labelled_columns, media_columns
from ...parts.kinds import Kind, kind_of_name
from ...prepare.contents.proposed_fields import SeenParts

_STARTS = {"jpg": b"\xff\xd8\xff", "mp4": b"\0\0\0\x18ftypisom", "wav": b"RIFF\0\0\0\0WAVE"}  # of files
_SOUND, _VIDEO = ("audio", "sound", "speech"), ("video", "clip")  # in names of columns whose schema says no more
_ROLES = ("from", "role", "speaker")  # names of who speaks in a conversation
_TEXT = "a text of words"
_BYTES = Kind("image", "jpg", "of bytes, perhaps of pictures")  # which no type can use, or may drop


def columns_seen(schema: Any) -> SeenParts:
    """Return the parts that the columns of a schema of Arrow would become, and which column each one is."""
    # Give each column an example of its type.
    columns, media = arrow_columns(schema, NamedFiles("")), media_columns(schema)
    examples = {field.name: _example(field.type, field.name) for field in schema}
    for column in columns:
        if column.name in media:
            column.examples = [{"bytes": _STARTS[media[column.name] or _extension(column.plain_name)]}]
        elif column.type != "empty":
            column.add([examples[column.name]])
    layout = find_layout(columns, SourceOptions(), files=NamedFiles(""), at="the table")
    # Columns that are no parts of their own are values inside json; names of classes are, too.
    names, lists, columns_of = list[str](), set[str](), dict[str, str]()
    inside = {f"{name}_name": _TEXT for name in labelled_columns(schema)}
    for part in layout.parts:
        name = part.columns[0]
        # Paths and URLs are texts, which only an import follows.
        is_text = part.role == "path" or (part.role == "label" and isinstance(examples[name], str))
        if part.is_object or part.role in ("array", "document", "json") or is_text:
            inside = {each: examples[each] for each in part.columns} | inside
            continue
        known = part.name if name in media or kind_of_name(part.name) in ("label", "text") else f"{name}.bin"
        names.append(known)
        columns_of[known] = name
        lists |= {known} if part.is_list else set()
    names += ["json"] if inside else []
    kinds = {name: _BYTES for name in names if name.endswith(".bin")}
    return SeenParts(names, inside or None, kinds=kinds, lists=frozenset(lists), is_table=True, columns=columns_of)


def _extension(name: str) -> str:
    if any(word in name for word in _SOUND):
        return "wav"
    return "mp4" if any(word in name for word in _VIDEO) else "jpg"


def _example(type_: Any, name: str = "") -> Any:
    """Return a value of a type of Arrow."""
    from pyarrow import types

    if types.is_dictionary(type_):
        return _example(type_.value_type, name)
    if types.is_struct(type_):
        fields = map(type_.field, range(type_.num_fields))
        return {field.name: _example(field.type, field.name) for field in fields}
    if is_list(type_):
        return [_example(type_.value_type, name)]
    if types.is_integer(type_):
        return 1
    if types.is_floating(type_):
        return 0.5
    is_text = types.is_string(type_) or types.is_large_string(type_) or str(type_) == "string_view"
    return ("user" if name in _ROLES else _TEXT) if is_text else None
