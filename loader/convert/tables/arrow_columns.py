"""Columns of Arrow tables, with what Hugging Face datasets note about them in the schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import ConfigError
from .columns import ColumnType
from .named_files import NamedFiles
from .table_column import TableColumn

__all__ = ["arrow_columns", "follow_values", "has_values", "import_pyarrow"]

_FEATURES = b"huggingface"
_MAY_NAME_A_FILE = r"\.[A-Za-z0-9]{1,10}$|^[a-z][a-z0-9+.-]{1,12}://|^data:|^[A-Za-z0-9+/=]{64}"
"""Texts that are a path, a URL, or a picture in base64 match this pattern; others may, too."""


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


def arrow_columns(schema: Any, files: NamedFiles) -> list[TableColumn]:
    """Return the columns of a table, without values.

    Args:
        schema: Its Arrow schema.
        files: The files that its values may name.

    Raises:
        ConfigError: Several columns have one name.
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


def follow_values(column: TableColumn, values: Any) -> None:
    """Add the values of a batch to a column of texts, or of keys; only the values that may name files become Python's.

    Args:
        column: The column.
        values: An Arrow array.
    """
    from pyarrow import compute

    if column.type != "text" or column.follows_all:
        known = [value for value in values.to_pylist() if value is not None and value != ""]
        column.count(len(values), len(known))
        column.follow(known)
        return
    texts = _plain_texts(values)
    column.count(len(texts), compute.sum(compute.not_equal(texts, "")).as_py() or 0)
    if not column.is_named_media:
        texts = texts.filter(compute.match_substring_regex(texts, _MAY_NAME_A_FILE))
    column.follow(text for text in texts.to_pylist() if text)


def has_values(values: Any) -> Any:
    """Return whether each value of a column of bytes, media or texts in base64 is there, as an array of numpy."""
    from pyarrow import compute, types

    if types.is_struct(values.type):
        contents = compute.is_valid(compute.struct_field(values, "bytes"))
        names = [values.type.field(number).name for number in range(values.type.num_fields)]
        if "path" in names:
            path = _plain_texts(compute.struct_field(values, "path"))
            contents = compute.or_(contents, compute.fill_null(compute.not_equal(path, ""), fill_value=False))
        return contents.to_numpy(zero_copy_only=False)
    if _type_of(values.type) == "text":
        values = _plain_texts(values)
        return compute.fill_null(compute.not_equal(values, ""), fill_value=False).to_numpy(zero_copy_only=False)
    return compute.is_valid(values).to_numpy(zero_copy_only=False)


def _plain_texts(values: Any) -> Any:
    """Return texts of any type as those that the functions of pyarrow know."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(values.type):
        texts = values.dictionary.cast(pa.large_string())  # functions know no views
        values = pa.DictionaryArray.from_arrays(values.indices, texts).dictionary_decode()
    return values if values.type in (pa.string(), pa.large_string()) else values.cast(pa.large_string())


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
