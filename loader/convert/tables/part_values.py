"""The bytes of a part, made of the values that a row has in its columns, and the row as a sample."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ...errors import SampleError, StorageError
from ...format.documents.conversation import CONVERSATION_KEYS
from ...format.records.table_schema import ClassNames
from ...parts.kinds import kind_of_name, with_extension
from ...storage import is_url, open_parent
from ..rows.documents import NO_ITEMS, lined_up_items, with_items
from ..rows.key_names import key_of_path
from ..rows.row import (
    NO_SPLIT,
    CutRef,
    ElementRef,
    FaultRef,
    FileRef,
    PartRef,
    Row,
    StoredRef,
    UrlRef,
    ValueRef,
    unique_part,
)
from .columns import PartColumns, Role, TableColumn, TableLayout, texts_in
from .inline_data import inline_contents
from .named_files import NamedFiles, extension_of_path, is_link, plain_url, split_extension
from .split_names import split_part


def part_bytes(part: PartColumns, values: Mapping[str, Any], class_names: Mapping[str, ClassNames]) -> bytes:
    """Return the bytes of a part that is text, a label or JSON, with names of classes instead of their numbers."""
    # Several columns are an object of JSON, or a document of texts and pictures.
    if part.is_object:
        present = [column for column in part.columns if column in values]
        names = {}
        if class_names and "label_name" not in values:
            names = {column: "label_name" for column in class_names if isinstance(values.get(column), str)}
        return encode_json(
            {names.get(c, c): _conversation(c, _named(values[c], class_names.get(c, ()))) for c in present}
        )
    if part.role == "document":
        return encode_json(document_of(part, values))
    # One column is written in the form of its part.
    column = part.columns[0]
    value = values.get(column)
    match part.role:
        case "text":
            return _encoded("" if value is None else str(value), column)
        case "label":
            if value is None or value == "":
                raise SampleError(f"column {column!r} is empty; expected a label")
            classes = class_names.get(column)
            if isinstance(classes, tuple) and classes and isinstance(value, str):
                value = classes.index(value)
            return _encoded(str(value), column)
        case "array":
            return npy_bytes(value)
        case _:
            inner = class_names.get(column, ()) if isinstance(value, dict | list) else ()
            return _json_text(value) or encode_json(_named(value, inner))


def encode_json(value: Any) -> bytes:
    """Return a value as JSON; dates as text, bytes in Base64, and :class:`LossyJson` for a value with NaN."""
    try:
        data = msgspec.json.encode(value, enc_hook=str)
        return LossyJson(data) if b"null" in data and _is_lossy(value) else data
    except (TypeError, ValueError, RecursionError) as error:
        raise SampleError(f"a value cannot be written as JSON: {error}") from error


def npy_bytes(array: Any) -> bytes:
    """Return an array as the bytes of a part ``npy``, with its type and shape."""
    encoded = io.BytesIO()
    np.save(encoded, array, allow_pickle=False)
    return encoded.getvalue()


class LossyJson(bytes):
    """JSON that has null for NaN and infinite numbers."""


def _is_lossy(value: Any) -> bool:
    if isinstance(value, dict | list | tuple):
        return any(map(_is_lossy, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and not math.isfinite(value)


def value_ref(data: bytes) -> ValueRef:
    """Return the reference to contents that are known."""
    return ValueRef(bytes(data), is_lossy=isinstance(data, LossyJson))


def is_empty(value: object) -> bool:
    """Return True for no picture or other file: null, an empty text, and a struct of bytes and path without either."""
    if isinstance(value, dict):
        return value.get("bytes") is None and not value.get("path")
    return value is None or value == ""


def media_bytes(value: Any, column: str, files: NamedFiles) -> bytes | UrlRef:
    """Return the contents of a value that is bytes, or a struct of bytes and a path; of a URL, the reference."""
    path = None
    # Bytes come before the path: a path may be on the author's machine.
    if isinstance(value, dict):
        value, path = value.get("bytes"), value.get("path")
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        contents = inline_contents(value)
        if contents is None:
            raise SampleError(f"column {column!r} has a text that is not a picture, sound or video in base64")
        return contents
    if not isinstance(path, str) or not path:
        raise SampleError(f"column {column!r} is empty; expected bytes or a path")
    # Read the file that the path names, if that is allowed.
    ref = files.ref(path, column, named_by_contents=False)
    if isinstance(ref, UrlRef):
        return ref
    if isinstance(ref, FaultRef):
        raise SampleError(ref.reason, hint=ref.hint or None, code=ref.code)
    full = os.fsdecode(ref.path) if isinstance(ref, FileRef) else path
    if ref.size_bytes < 0 and not is_url(full):
        raise SampleError(f"there is no file {full}", code="F102")
    storage, name = open_parent(full)
    return storage.read(name)


def _encoded(text: str, column: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SampleError(f"column {column!r} is not UTF-8 text") from None


def _json_text(value: Any) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        data = value.encode()
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None
    return data


def _named(value: Any, class_names: ClassNames) -> Any:
    """Return a value with the names of classes instead of their numbers, also inside of lists and objects."""
    if not class_names:
        return value
    if isinstance(value, list):
        return [_named(element, class_names) for element in value]
    if isinstance(class_names, Mapping):
        is_object = isinstance(value, dict)
        return {name: _named(inner, class_names.get(name, ())) for name, inner in value.items()} if is_object else value
    if not isinstance(value, int):
        return value
    return class_names[value] if 0 <= value < len(class_names) else None


def _conversation(column: str, value: Any) -> Any:
    data = _json_text(value) if column in CONVERSATION_KEYS else None
    return value if data is None else msgspec.Raw(data)


_TEXT_NAMES = ("texts", "text_list", "sentences")
_PICTURE_NAMES = ("images", "image_list", "image_urls", "image_paths", "pictures")
_MIN_SHARE = 0.5  # of the first rows whose lists are equally long: a damaged one must not hide the layout


def document_parts(columns: Sequence[TableColumn]) -> list[PartColumns]:
    """Return the parts of documents: numbered pictures, and ``json``; none for other tables."""
    named = {column.name: column for column in columns}
    # Find a column of texts and one of pictures.
    texts = next((named[name] for name in _TEXT_NAMES if name in named), None)
    images = next((named[name] for name in _PICTURE_NAMES if name in named), None)
    if texts is None or images is None:
        return []
    # Compare the lists of the first rows.
    rows = [pair for pair in zip(texts.values, images.values, strict=False) if all(isinstance(v, list) for v in pair)]
    entries = [{type(entry) for pair in rows for entry in pair[column]} - {type(None)} for column in (0, 1)]
    lined_up = sum(len(row_texts) == len(pictures) for row_texts, pictures in rows)
    has_contents = images.type == "media list"
    if not entries[1] or not entries[0] <= {str} or not (has_contents or entries[1] <= {str}):
        return []
    if lined_up < _MIN_SHARE * len(rows):
        return []
    others = [column.name for column in columns if column not in (texts, images)]
    role: Role = "bytes" if has_contents else "path"
    return [
        PartColumns(name="jpg", role=role, columns=(images.name,), is_list=True, named_by_contents=True),
        PartColumns(name="json", role="document", columns=(texts.name, images.name, *others)),
    ]


def document_of(part: PartColumns, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document for the part ``json``; its pictures have the names that their parts get."""
    texts, images, *others = part.columns
    items = lined_up_items(values.get(texts) or [], values.get(images) or [])
    if not items:
        raise SampleError(NO_ITEMS)
    pictures = [item.picture for item in items if item.picture is not None]
    names = [_part_name(index, picture) for index, picture in enumerate(pictures)]
    return with_items({name: values[name] for name in others if name in values}, items, names)


def _part_name(index: int, picture: str | bytes) -> str:
    if isinstance(picture, bytes):
        return with_extension(f"{index}.jpg", picture)
    extension = extension_of_path(picture)
    return f"{index}.{'jpg' if kind_of_name(extension) == 'bytes' else extension}"


_DIGITS = 9
_MAX_SECONDS = 1e9  # 30 years, so that numbers of frames are finite
_END = re.compile(r"[^.]+(\.gz)?$")
"""The extension at the end of a part name."""

CellOf = Callable[[PartColumns, int | None], PartRef]
"""Returns the reference to a part, or to an element of a list."""


class RowMaker:
    """Converts the values that a table has in its columns to rows of an import.

    Args:
        key_prefix: Begin of the keys that are numbers of rows.
    """

    def __init__(self, layout: TableLayout, *, key_prefix: str = "") -> None:
        self._layout = layout
        self._files = layout.files
        self._prefix = key_prefix
        self._is_document = layout.parts[-1].role == "document"
        used = {layout.key, layout.split, *(name for part in layout.parts for name in part.columns)}
        self._used = frozenset(name for name in used if name is not None)
        self._media = {part.name for part in layout.parts if part.role in ("path", "url", "bytes")}

    def make(
        self, values: Mapping[str, Any], *, row: int, origin: str, split: str = "", cell: CellOf | None = None
    ) -> Row | None:
        """Return a row as a sample; None for a row without files, if such are left out, and for one without any part.

        Args:
            values: Column → value; of all columns, or without those that ``cell`` reads.
            split: Split part, if there is no column of them.
            cell: Returns the reference to a part that is read later; None makes all parts now. Lists are in the values
                in any case, if only for their lengths.
        """
        layout = self._layout
        parts: dict[str, PartRef] = {}
        has_media = not self._media
        try:
            # Make the parts; a list of media may be empty.
            for part in layout.parts:
                if part.name in self._media:
                    media = self._media_parts(part, values, cell)
                    has_media |= bool(media) or part.is_list  # a list has any number
                    _join(parts, media)
                elif part.role == "array" and values.get(part.columns[0]) is None:
                    continue
                elif cell is not None:
                    _join(parts, {part.name: cell(part, None)})
                else:
                    _join(parts, self._value(part, values))
            # A line of JSON may have columns of its own.
            if layout.keeps_others and layout.object_part is None and cell is None:
                others = {name: value for name, value in values.items() if name not in self._used}
                if others:
                    parts["json" if "json" not in parts else "columns.json"] = value_ref(encode_json(others))
            if layout.group is not None and layout.object_part is not None:
                parts |= self._element(layout.object_part.name, layout.group, values, parts, origin)
        except (SampleError, StorageError) as error:
            parts = {layout.parts[0].name: FaultRef(error.message, code=getattr(error, "code", "F101"))}
            has_media = True
        if not parts or not (has_media or layout.keeps_text_only):
            return None
        return Row(key=self._key(values, row), parts=parts, origin=origin, split=self._split(values, split))

    def fault(self, row: int, origin: str, reason: str, hint: str = "") -> Row:
        """Return a row that fails when it is written, so that it is reported."""
        part = self._layout.parts[0].name
        return Row(key=f"{self._prefix}{row:0{_DIGITS}d}", parts={part: FaultRef(reason, hint=hint)}, origin=origin)

    def _element(
        self, name: str, group: str, values: Mapping[str, Any], parts: Mapping[str, PartRef], origin: str
    ) -> dict[str, PartRef]:
        """Return the object of JSON of a row that is one of a group; a row without a value is a group of its own."""
        value, known, reader = values.get(group), parts.get(name), self._layout.group_reader
        data, is_lossy = (known.data, known.is_lossy) if isinstance(known, ValueRef) else (b"{}", False)
        shared = f"\0{origin}" if value in (None, "") else str(value)
        if reader is not None:  # the file counts, whatever the table calls it
            shared = next((repr(part) for medium, part in parts.items() if medium != name), shared)
        return {name: ElementRef(data, is_lossy=is_lossy, group=shared, reader=reader or "")}

    def _media_parts(self, part: PartColumns, values: Mapping[str, Any], cell: CellOf | None) -> dict[str, PartRef]:
        value = values.get(part.columns[0])
        if part.role == "path" and isinstance(value, dict | list) and not part.is_list:
            value = next(filter(self._files.exists, texts_in(value)), None)
        if not part.is_list:
            media = {} if is_empty(value) else self._medium(part, part.name, value, cell, None)
            return {name: self._cut(name, ref, values) for name, ref in media.items()}
        parts: dict[str, PartRef] = {}
        elements = value if isinstance(value, list) else ()
        is_nested = isinstance(value, dict) or any(isinstance(element, dict | list) for element in elements)
        if is_nested and part.role == "path":
            # One file may be named twice, by its path and a URL.
            texts = (text for text in texts_in(value) if self._files.exists(text))
            elements = [*{self._files.name(text): text for text in texts}.values()]
        for index, element in enumerate(elements):
            if not is_empty(element):
                parts |= self._medium(part, part.element_name(len(parts)), element, cell, index)
        return parts

    def _medium(
        self, part: PartColumns, name: str, value: object, cell: CellOf | None, index: int | None
    ) -> dict[str, PartRef]:
        # Values are bytes, paths, URLs, or files in base64.
        path = value.get("path") if isinstance(value, dict) and value.get("bytes") is None else None
        if part.role == "bytes" and not isinstance(path, str):
            if cell is not None:
                return {name: cell(part, index)}
            data = media_bytes(value, part.columns[0], self._files)
            if isinstance(data, UrlRef):
                return {name: UrlRef(data.url, part.named_by_contents)}
            return self._contents(part, name, data)
        value = str(value) if type(value) is int else value if path is None else path
        if not isinstance(value, str):
            raise SampleError(f"expected a path or URL in column {part.columns[0]!r}, found {type(value).__name__}")
        contents = inline_contents(value)
        if contents is not None:
            return self._contents(part, name, contents)
        # The path has the extension, or else the contents when they are read.
        extension = extension_of_path(self._files.name(value))
        if kind_of_name(extension) == "bytes" and not self._files.is_tree:  # such as that of a script behind a URL
            extension = ""
        if part.named_by_contents and extension:
            name = _END.sub(extension, name)
        return {name: self._files.ref(value, name, named_by_contents=part.named_by_contents and not extension)}

    def _cut(self, name: str, ref: PartRef, values: Mapping[str, Any]) -> PartRef:
        """Return the segment of a recording that a row names; other files as they are."""
        segment = self._layout.segment
        if segment is None or isinstance(ref, FaultRef) or kind_of_name(name) not in ("audio", "video", "bytes"):
            return ref
        if not isinstance(ref, StoredRef):
            raise SampleError("recordings at URLs are not cut: fetch them, and import the folder")
        begin_s = _seconds(values, segment.begin) or 0.0
        end_s = _seconds(values, segment.end)
        return CutRef(ref, begin_s, end_s + begin_s if end_s is not None and segment.is_duration else end_s)

    def _contents(self, part: PartColumns, name: str, data: bytes) -> dict[str, PartRef]:
        return {with_extension(name, data) if part.named_by_contents else name: ValueRef(data)}

    def _value(self, part: PartColumns, values: Mapping[str, Any]) -> dict[str, PartRef]:
        if part.is_object and not any(name in values for name in part.columns):
            return {}  # a line of JSON has the columns that it names
        if part.is_object and self._layout.keeps_others:
            # Add columns that the layout does not have.
            others = {name: value for name, value in values.items() if name not in self._used}
            if others:
                named = {name: values[name] for name in part.columns if name in values}
                return {part.name: value_ref(encode_json({**named, **others}))}
        return {part.name: value_ref(part_bytes(part, values, self._layout.class_names))}

    def _key(self, values: Mapping[str, Any], row: int) -> str:
        if self._layout.key is not None:
            value = values.get(self._layout.key)
            if value is not None and value != "":
                return key_of_path(plain_url(value) if isinstance(value, str) and is_link(value) else str(value))
        # Without a column of keys, a path is the key.
        for part in () if self._is_document else self._layout.parts:
            path = values.get(part.columns[0]) if part.role == "path" else None
            if isinstance(path, list) and path:
                path = path[0]
            if self._files.is_tree and isinstance(path, dict | list):
                path = next(filter(self._files.exists, texts_in(path)), None)
            path = str(path) if type(path) is int else path
            if isinstance(path, str) and path and (self._files.is_tree or not is_link(path)):
                folder, slash, last = self._files.name(path).rpartition("/")
                return key_of_path(folder + slash + split_extension(last)[0])
        return f"{self._prefix}{row:0{_DIGITS}d}"

    def _split(self, values: Mapping[str, Any], split: str) -> str:
        if self._layout.split is None:
            return split
        value = values.get(self._layout.split)
        part = "" if value is None else split_part(str(value))
        return part or split or NO_SPLIT


def _seconds(values: Mapping[str, Any], column: str) -> float | None:
    value = values.get(column)
    if value is None or value == "":
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < _MAX_SECONDS:
        raise SampleError(f"expected seconds in column {column!r}, found {value!r}")
    return seconds


def _join(parts: dict[str, PartRef], others: Mapping[str, PartRef]) -> None:
    """Add parts; one with the name of another, such as a json file next to a json of columns, gets a number."""
    for name, ref in others.items():
        parts[unique_part(name, parts)] = ref
