"""Convert the rows of a table to samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...accounting.kinds import kind_of_name, with_extension
from ...errors import SampleError, StorageError
from ..rows.keys import key_of_path, unique_part
from ..rows.row import NO_SPLIT, FaultRef, PartRef, Row, UrlRef, ValueRef
from .columns import PartColumns, TableLayout
from .inline_media import inline_contents
from .names import extension_of_path, is_link, plain_url, split_part
from .part_values import encode_json, is_empty, media_bytes, part_bytes

_DIGITS = 9

CellOf = Callable[[PartColumns, int | None], PartRef]
"""Returns the reference to a part, or to an element of a list."""


class RowMaker:
    """Converts the values that a table has in its columns to rows of an import.

    Args:
        layout: What becomes of the columns.
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
        self, values: Mapping[str, Any], *, number: int, origin: str, split: str = "", cell: CellOf | None = None
    ) -> Row | None:
        """Return a row as a sample; None for a row without files, if such are left out, and for one without any part.

        Args:
            values: Column → value; of all columns, or without those that ``cell`` reads.
            number: Number of the row in its table.
            origin: Place of the row, for reports.
            split: Split part, if there is no column of them.
            cell: Returns the reference to a part that is read later; None makes all parts now. Lists are in the values
                in any case, if only for their lengths.
        """
        layout = self._layout
        parts: dict[str, PartRef] = {}
        has_media = not self._media
        try:
            for part in layout.parts:
                if part.name in self._media:
                    media = self._media_parts(part, values, cell)
                    has_media |= bool(media) or part.is_list  # a list has any number
                    _join(parts, media)
                elif cell is not None:
                    _join(parts, {part.name: cell(part, None)})
                else:
                    _join(parts, self._value(part, values))
            if layout.keeps_others and layout.object_part is None and cell is None:
                others = {name: value for name, value in values.items() if name not in self._used}
                if others:
                    parts["json" if "json" not in parts else "columns.json"] = ValueRef(encode_json(others))
        except (SampleError, StorageError) as error:
            parts = {layout.parts[0].name: FaultRef(error.message, code=getattr(error, "code", "F101"))}
            has_media = True
        if not parts or not (has_media or layout.keeps_text_only):
            return None
        return Row(key=self._key(values, number), parts=parts, origin=origin, split=self._split(values, split))

    def fault(self, number: int, origin: str, reason: str, hint: str = "") -> Row:
        """Return a row that fails when it is written, so that it is reported.

        Args:
            number: Number of the row in its table.
            origin: Its place.
            reason: What was expected and what was found.
            hint: What the user can do.
        """
        part = self._layout.parts[0].name
        return Row(key=f"{self._prefix}{number:0{_DIGITS}d}", parts={part: FaultRef(reason, hint=hint)}, origin=origin)

    def _media_parts(self, part: PartColumns, values: Mapping[str, Any], cell: CellOf | None) -> dict[str, PartRef]:
        """Return the pictures or other files of a column: none, one, or those of a list."""
        value = values.get(part.columns[0])
        if not part.is_list:
            return {} if is_empty(value) else self._medium(part, part.name, value, cell, None)
        parts: dict[str, PartRef] = {}
        for index, element in enumerate(value if isinstance(value, list) else ()):
            if not is_empty(element):
                parts |= self._medium(part, part.element_name(len(parts)), element, cell, index)
        return parts

    def _medium(
        self, part: PartColumns, name: str, value: object, cell: CellOf | None, index: int | None
    ) -> dict[str, PartRef]:
        path = value.get("path") if isinstance(value, dict) and value.get("bytes") is None else None
        if part.role == "bytes" and not isinstance(path, str):
            if cell is not None:
                return {name: cell(part, index)}
            data = media_bytes(value, part.columns[0], self._files)
            if isinstance(data, UrlRef):
                return {name: UrlRef(data.url, part.named_by_contents)}
            return self._contents(part, name, data)
        value = value if path is None else path
        if not isinstance(value, str):
            raise SampleError(f"expected a path or URL in column {part.columns[0]!r}, found {type(value).__name__}")
        contents = inline_contents(value)
        if contents is not None:
            return self._contents(part, name, contents)
        extension = extension_of_path(value) or extension_of_path(self._files.name(value))
        if kind_of_name(extension) == "bytes":  # such as that of a script behind a URL
            extension = ""
        if part.named_by_contents and extension:
            first, dot, _ = name.rpartition(".")
            name = f"{first}{dot}{extension}"
        return {name: self._files.ref(value, name, named_by_contents=part.named_by_contents and not extension)}

    def _contents(self, part: PartColumns, name: str, data: bytes) -> dict[str, PartRef]:
        return {with_extension(name, data) if part.named_by_contents else name: ValueRef(data)}

    def _value(self, part: PartColumns, values: Mapping[str, Any]) -> dict[str, PartRef]:
        if part.is_object and not any(name in values for name in part.columns):
            return {}  # a line of JSON has the columns that it names
        if part.is_object and self._layout.keeps_others:
            others = {name: value for name, value in values.items() if name not in self._used}
            if others:
                named = {name: values[name] for name in part.columns if name in values}
                return {part.name: ValueRef(encode_json({**named, **others}))}
        return {part.name: ValueRef(part_bytes(part, values, self._layout.class_names))}

    def _key(self, values: Mapping[str, Any], number: int) -> str:
        if self._layout.key is not None:
            value = values.get(self._layout.key)
            if value is not None and value != "":
                return key_of_path(plain_url(value) if isinstance(value, str) and is_link(value) else str(value))
        for part in () if self._is_document else self._layout.parts:
            path = values.get(part.columns[0]) if part.role == "path" else None
            if isinstance(path, list) and path:
                path = path[0]
            if isinstance(path, str) and path and not is_link(path):
                path = self._files.name(path)
                stem, dot, extension = path.rpartition(".")
                return key_of_path(stem if dot and "/" not in extension and stem else path)
        return f"{self._prefix}{number:0{_DIGITS}d}"

    def _split(self, values: Mapping[str, Any], split: str) -> str:
        if self._layout.split is None:
            return split
        value = values.get(self._layout.split)
        part = "" if value is None else split_part(str(value))
        return part or split or NO_SPLIT


def _join(parts: dict[str, PartRef], others: Mapping[str, PartRef]) -> None:
    """Add parts; one with the name of another, such as a json file next to a json of columns, gets a number."""
    for name, ref in others.items():
        parts[unique_part(name, parts)] = ref
