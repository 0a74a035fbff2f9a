"""The bytes of a part, made of the values that a row has in its columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from ...errors import SampleError
from ...format.documents.conversation import CONVERSATION_KEYS
from ...storage import is_url, open_parent
from ..rows.row import FaultRef, FileRef, UrlRef
from .columns import PartColumns
from .documents import document_of
from .inline_media import inline_contents
from .named_files import NamedFiles


def part_bytes(part: PartColumns, values: Mapping[str, Any], class_names: Mapping[str, tuple[str, ...]]) -> bytes:
    """Return the bytes of a part that is text, a label or JSON.

    Args:
        part: The part.
        values: Column → value.
        class_names: Column → names of its classes.

    Raises:
        SampleError: A label is missing, or a value cannot be written.
    """
    if part.is_object:
        present = [column for column in part.columns if column in values]
        return encode_json({c: _conversation(c, _named(values[c], class_names.get(c))) for c in present})
    if part.role == "document":
        return encode_json(document_of(part, values))
    column = part.columns[0]
    value = values.get(column)
    match part.role:
        case "text":
            return _encoded("" if value is None else str(value), column)
        case "label":
            if value is None or value == "":
                raise SampleError(f"column {column!r} is empty; expected a label")
            return _encoded(str(value), column)
        case _:
            return _json_text(value) or encode_json(value)


def encode_json(value: Any) -> bytes:
    """Return a value as JSON; dates as text, and bytes in Base64.

    Raises:
        SampleError: It cannot be written as JSON.
    """
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise SampleError(f"a value cannot be written as JSON: {error}") from error


def is_empty(value: object) -> bool:
    """Return True for no picture or other file: null, an empty text, and a struct of bytes and path without either."""
    if isinstance(value, dict):
        return value.get("bytes") is None and not value.get("path")
    return value is None or value == ""


def media_bytes(value: Any, column: str, files: NamedFiles) -> bytes | UrlRef:
    """Return the contents of a value that is bytes, or a struct of bytes and a path; of a URL, the reference.

    Args:
        value: The value.
        column: Name of its column.
        files: The files that paths name.

    Raises:
        SampleError: There is neither, or the file is missing or refused.
        StorageError: The file of the path cannot be read.
    """
    path = None
    if isinstance(value, dict):
        value, path = value.get("bytes"), value.get("path")
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        contents = inline_contents(value)
        if contents is None:
            raise SampleError(f"column {column!r} has a text that is no picture, sound or video in base64")
        return contents
    if not isinstance(path, str) or not path:
        raise SampleError(f"column {column!r} is empty; expected bytes or a path")
    ref = files.ref(path, column, named_by_contents=False)
    if isinstance(ref, UrlRef):
        return ref
    if isinstance(ref, FaultRef):
        raise SampleError(ref.reason, hint=ref.hint or None, code=ref.code)
    full = os.fsdecode(ref.path) if isinstance(ref, FileRef) else path
    if ref.size_bytes < 0 and not is_url(full):
        raise SampleError(f"there is no file {full}", code="F102")
    storage, name = open_parent(full)
    with storage.open(name) as file:
        return file.read_at(0, file.size_bytes)


def _encoded(text: str, column: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SampleError(f"column {column!r} is not UTF-8 text") from None


def _json_text(value: Any) -> bytes | None:
    """Return text that is JSON as it is."""
    if not isinstance(value, str):
        return None
    try:
        data = value.encode()
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None
    return data


def _named(value: Any, class_names: tuple[str, ...] | None) -> Any:
    if not class_names or not isinstance(value, int):
        return value
    return class_names[value] if 0 <= value < len(class_names) else None


def _conversation(column: str, value: Any) -> Any:
    """Return a conversation that a table has as text as the JSON that it is."""
    data = _json_text(value) if column in CONVERSATION_KEYS else None
    return value if data is None else msgspec.Raw(data)
