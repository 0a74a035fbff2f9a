"""The bytes of a part, made of the values that a row has in its columns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ...errors import SampleError
from ...storage import is_url, open_parent, resolve_path
from ..rows.file_ref import file_ref
from ..rows.row import FileRef, PartRef
from .columns import PartColumns
from .names import is_link

__all__ = ["FilesBelow", "encode_json", "join_root", "media_bytes", "part_bytes"]


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
        return encode_json({column: _named(values[column], class_names.get(column)) for column in present})
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


def media_bytes(value: Any, column: str, root: str) -> bytes:
    """Return the contents of a value that is bytes, or a struct of bytes and a path.

    Args:
        value: The value.
        column: Name of its column.
        root: Folder or URL that relative paths start from.

    Raises:
        SampleError: There is neither.
        StorageError: The file of the path cannot be read.
    """
    path = None
    if isinstance(value, dict):
        value, path = value.get("bytes"), value.get("path")
    if isinstance(value, bytes):
        return value
    if not isinstance(path, str) or not path:
        raise SampleError(f"column {column!r} is empty; expected bytes or a path")
    storage, name = open_parent(join_root(root, path))
    with storage.open(name) as file:
        return file.read_at(0, file.size_bytes)


def join_root(root: str, path: str) -> str:
    """Return a path or URL of a table, relative ones from the root.

    >>> join_root("/data", "a.jpg"), join_root("/data", "/b.jpg"), join_root("s3://bucket/x", "c.jpg")
    ('/data/a.jpg', '/b.jpg', 's3://bucket/x/c.jpg')
    """
    if is_link(path):
        return resolve_path(path)
    return f"{root.rstrip('/')}/{path}" if is_url(root) else os.path.join(root, path)


@dataclass(frozen=True, slots=True)
class FilesBelow:
    """The files below a folder or URL, by paths that are relative to it or absolute.

    Attributes:
        root: The folder or URL.
    """

    root: str

    def exists(self, path: str) -> bool:
        """Return True if there is such a file; of a URL, always."""
        try:
            return is_url(self.root) or os.path.isfile(join_root(self.root, path))
        except ValueError:  # a zero byte
            return False

    def name(self, path: str) -> str:
        """Return the path."""
        return path

    def ref(self, path: str, part: str, *, named_by_contents: bool) -> PartRef:  # noqa: ARG002 - a file has no part
        """Return the reference to a file."""
        full = join_root(self.root, path)
        if is_url(full):
            return FileRef(full.encode("utf-8", "surrogateescape"), named_by_contents=named_by_contents)
        return file_ref(full, named_by_contents=named_by_contents)


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
