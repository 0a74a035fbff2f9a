"""Convert the rows of a table to samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...accounting.kinds import with_extension
from ...errors import SampleError, StorageError
from ...storage import is_url
from ..rows.file_ref import file_ref
from ..rows.keys import key_of_path
from ..rows.row import NO_SPLIT, FaultRef, FileRef, PartRef, Row, ValueRef
from .columns import PartColumns, TableLayout
from .names import extension_of_path, is_link, split_part
from .part_values import encode_json, join_root, media_bytes, part_bytes

__all__ = ["CellOf", "RowMaker"]

_DIGITS = 9

CellOf = Callable[[PartColumns, int | None], PartRef]
"""Returns the reference to a part, or to an element of a list."""


class RowMaker:
    """Converts the values that a table has in its columns to rows of an import.

    Args:
        layout: What becomes of the columns.
        root: Folder or URL that relative paths start from.
        key_prefix: Begin of the keys that are numbers of rows.
    """

    def __init__(self, layout: TableLayout, root: str, *, key_prefix: str = "") -> None:
        self._layout = layout
        self._root = root
        self._prefix = key_prefix
        used = {layout.key, layout.split, *(name for part in layout.parts for name in part.columns)}
        self._used = frozenset(name for name in used if name is not None)

    def make(
        self, values: Mapping[str, Any], *, number: int, origin: str, split: str = "", cell: CellOf | None = None
    ) -> Row:
        """Return a row as a sample.

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
        try:
            for part in layout.parts:
                if part.role in ("path", "url"):
                    parts |= self._file(part, values)
                elif part.is_list:
                    parts |= self._elements(part, values, cell)
                elif cell is not None:
                    parts[part.name] = cell(part, None)
                else:
                    parts |= self._value(part, values)
            if layout.keeps_others and layout.object_part is None and cell is None:
                others = {name: value for name, value in values.items() if name not in self._used}
                if others:
                    parts["json" if "json" not in parts else "columns.json"] = ValueRef(encode_json(others))
        except (SampleError, StorageError) as error:
            parts = {layout.parts[0].name: FaultRef(error.message)}
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

    def _file(self, part: PartColumns, values: Mapping[str, Any]) -> dict[str, PartRef]:
        path = values.get(part.columns[0])
        if not isinstance(path, str) or not path:
            raise SampleError(f"column {part.columns[0]!r} is empty; expected a path or URL")
        name = part.name
        extension = extension_of_path(path)
        if part.named_by_contents and extension:
            first, dot, _ = name.rpartition(".")
            name = f"{first}{dot}{extension}"
        full = join_root(self._root, path)
        by_contents = part.named_by_contents and not extension
        if is_url(full):
            return {name: FileRef(full.encode("utf-8", "surrogateescape"), named_by_contents=by_contents)}
        return {name: file_ref(full, named_by_contents=by_contents)}

    def _elements(self, part: PartColumns, values: Mapping[str, Any], cell: CellOf | None) -> dict[str, PartRef]:
        parts: dict[str, PartRef] = {}
        for index, element in enumerate(values.get(part.columns[0]) or ()):
            name = part.element_name(index)
            if cell is not None:
                parts[name] = cell(part, index)
            else:
                data = media_bytes(element, part.columns[0], self._root)
                parts[with_extension(name, data)] = ValueRef(data)
        return parts

    def _value(self, part: PartColumns, values: Mapping[str, Any]) -> dict[str, PartRef]:
        if part.role == "bytes":
            data = media_bytes(values.get(part.columns[0]), part.columns[0], self._root)
            return {with_extension(part.name, data) if part.named_by_contents else part.name: ValueRef(data)}
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
                return key_of_path(str(value))
        for part in self._layout.parts:
            path = values.get(part.columns[0]) if part.role == "path" else None
            if isinstance(path, str) and path and not is_link(path):
                stem, dot, extension = path.rpartition(".")
                return key_of_path(stem if dot and "/" not in extension and stem else path)
        return f"{self._prefix}{number:0{_DIGITS}d}"

    def _split(self, values: Mapping[str, Any], split: str) -> str:
        if self._layout.split is None:
            return split
        value = values.get(self._layout.split)
        part = "" if value is None else split_part(str(value))
        return part or split or NO_SPLIT
