"""Columns of Arrow tables, with what Hugging Face datasets note about them in the schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import ConfigError
from .columns import ColumnType, TableColumn
from .named_files import NamedFiles

_FEATURES = b"huggingface"


def import_pyarrow() -> Any:
    """Import ``pyarrow``."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ConfigError(
            "reading Parquet and Arrow files needs pyarrow, which is not installed",
            hint="run: pip install 'energon-toolkit[tables]'",
        ) from error
    return pa


def arrow_columns(schema: Any, files: NamedFiles) -> list[TableColumn]:
    """Return the columns of a table, without values.

    Args:
        files: The files that its values may name.
    """
    name, count = Counter(schema.names).most_common(1)[0] if schema.names else ("", 1)
    if count > 1:
        raise ConfigError(
            f"the name {name!r} is that of {count} columns, so that their values cannot be told apart",
            hint="rename the columns",
        )
    class_names = dict(_class_names(schema.metadata or {}))
    return [
        TableColumn(field.name, files, type=_type_of(field.type), class_names=class_names.get(field.name, ()))
        for field in schema
    ]


def python_values(values: Any) -> list[Any]:
    """Return the values of an Arrow array as Python's; of texts that are not UTF-8, what can be read."""
    try:
        listed: list[Any] = values.to_pylist()
    except (ValueError, OverflowError):
        listed = [_python_value(value) for value in values]
    return listed


def _python_value(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes().decode("utf-8", "replace") if hasattr(value, "as_buffer") else None
    except (ValueError, OverflowError):
        return None  # writing the row reports it


def has_values(values: Any) -> list[bool]:
    """Return whether each value of a column of bytes, media or texts is there."""
    return [*map(bool, present_values(values))]


def present_values(values: Any) -> list[Any]:
    """Return True, a struct of a path alone, or None for each value of a column of bytes, media or texts."""
    from pyarrow import compute, types

    if not types.is_struct(values.type):
        is_text = _type_of(values.type) == "text"
        present = python_values(values) if is_text else compute.is_valid(values).to_pylist()
        return [bool(value) or None for value in present]
    has_bytes: list[bool] = compute.is_valid(compute.struct_field(values, "bytes")).to_pylist()
    if values.type.get_field_index("path") < 0:
        return [has or None for has in has_bytes]
    paths = python_values(compute.struct_field(values, "path"))
    return [has or ({"path": path} if path else None) for has, path in zip(has_bytes, paths, strict=True)]


def _type_of(type_: Any) -> ColumnType:
    from pyarrow import types

    if types.is_dictionary(type_):
        return _type_of(type_.value_type)
    if hasattr(type_, "storage_type"):  # an extension
        return _type_of(type_.storage_type)
    if _is_bytes(type_):
        return "bytes"
    if _is_media(type_):
        return "media"
    is_view = str(type_).startswith(("list_view<", "large_list_view<"))
    if is_view or types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        inner = _type_of(type_.value_type)
        return "media list" if inner in ("bytes", "media") else "text list" if inner == "text" else "nested"
    if types.is_string(type_) or types.is_large_string(type_) or str(type_) == "string_view":
        return "text"
    if types.is_null(type_):
        return "empty"
    if types.is_integer(type_):
        return "integer"
    return "number" if types.is_floating(type_) or types.is_decimal(type_) else "nested"


def _is_bytes(type_: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(type_):
        type_ = type_.value_type
    is_binary = types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_)
    return is_binary or str(type_) == "binary_view"


def _is_media(type_: Any) -> bool:
    """Return True for a struct of bytes and a path."""
    from pyarrow import types

    if not types.is_struct(type_):
        return False
    fields = {type_.field(number).name: type_.field(number).type for number in range(type_.num_fields)}
    return "bytes" in fields and _is_bytes(fields["bytes"]) and fields.keys() <= {"bytes", "path", "sampling_rate"}


def _class_names(metadata: Mapping[bytes, bytes]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the columns of class numbers and the names of their classes, as the library ``datasets`` notes them."""
    try:
        features = json.loads(metadata.get(_FEATURES, b"{}"))["info"]["features"]
        for name, feature in features.items():
            if feature.get("_type") == "ClassLabel":
                yield name, tuple(map(str, feature.get("names") or ()))
    except (ValueError, KeyError, TypeError, AttributeError):
        return
