"""Columns of Arrow tables, with what Hugging Face datasets note about them in the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import ConfigError
from .columns import ColumnType, TableColumn

__all__ = ["arrow_columns", "import_pyarrow"]

_FEATURES = b"huggingface"


def import_pyarrow() -> Any:
    """Import ``pyarrow``.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ConfigError(
            "reading Parquet and Arrow files needs pyarrow, which is not installed",
            hint="run: pip install 'energon-toolkit[tables]'",
        ) from error
    return pa


def arrow_columns(schema: Any, first: Any) -> list[TableColumn]:
    """Return the columns of a table.

    Args:
        schema: Its Arrow schema.
        first: Its first rows, an Arrow table or batch.
    """
    class_names = dict(_class_names(schema.metadata or {}))
    return [
        TableColumn(
            name=field.name,
            type=_type_of(field.type),
            values=tuple(first.column(position).to_pylist()),
            class_names=class_names.get(field.name, ()),
        )
        for position, field in enumerate(schema)
    ]


def _type_of(type_: Any) -> ColumnType:
    from pyarrow import types

    if types.is_dictionary(type_):
        return _type_of(type_.value_type)
    if _is_bytes(type_):
        return "bytes"
    if _is_media(type_):
        return "media"
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        inner = type_.value_type
        return "media list" if _is_bytes(inner) or _is_media(inner) else "nested"
    if types.is_string(type_) or types.is_large_string(type_) or type_ == "string_view":
        return "text"
    if types.is_null(type_):
        return "empty"
    if types.is_integer(type_):
        return "integer"
    return "number" if types.is_floating(type_) or types.is_decimal(type_) else "nested"


def _is_bytes(type_: Any) -> bool:
    from pyarrow import types

    return bool(types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_))


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
