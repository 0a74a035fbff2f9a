"""Find out what the columns of a table are, from their names, their types and the first rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from ...accounting.kinds import kind_of_name, part_extension, usual_extension
from ...errors import ConfigError
from ...format.documents.messages import did_you_mean, short_repr
from ...storage import is_url
from .columns import Columns, FoundColumn, PartColumns, Role, TableColumn, TableLayout
from .names import (
    CAPTION_NAMES,
    KEY_NAMES,
    LABEL_NAMES,
    MEDIA_NAMES,
    SPLIT_NAMES,
    check_part_name,
    extension_of_path,
    is_link,
    part_name_of_column,
    plain_name,
)
from .part_values import join_root

__all__ = ["EXAMPLE_ROWS", "find_layout"]

EXAMPLE_ROWS = 100
"""Number of first rows that tell what the columns are."""

_MAX_PATH = 1024
_MIN_SHARE = 0.9  # of values that look like paths
_MAX_SPLIT_PARTS = 20
_SHOWN_EXAMPLES = 3
_BYTES_TYPES = ("bytes", "media", "media list")
_MEDIA_ROLES = ("path", "url", "bytes")


def find_layout(table: Sequence[TableColumn], columns: Columns, *, root: str, at: str) -> TableLayout:
    """Return how the rows of a table become samples.

    Args:
        table: The columns with the values of the first rows.
        columns: The columns that the user names.
        root: Folder or URL that relative paths start from.
        at: Path of the table, for errors.

    Raises:
        ConfigError: A named column does not exist, or no column can be a part.
    """
    finder = _Finder(table, columns, root, at)
    parts = finder.named_parts() if columns.parts else finder.detected_parts()
    if not parts:
        shown = ", ".join(f"{column.name!r} ({column.type})" for column in table) or "none"
        raise ConfigError(
            f"this table has no column that can be a part of a sample; its columns are: {shown}",
            at=at,
            hint="name columns by --part jpg=COLUMN or --part txt=COLUMN",
        )
    return TableLayout(
        key=finder.key,
        split=finder.split,
        parts=tuple(parts),
        found=finder.found(parts),
        class_names={column.name: column.class_names for column in table if column.class_names},
        keeps_others=not columns.parts,
    )


class _Finder:
    def __init__(self, table: Sequence[TableColumn], columns: Columns, root: str, at: str) -> None:
        self._table = {column.name: column for column in table}
        self._columns = columns
        self._root = root
        self._at = at
        for option, column in [
            *((f"--part {part}", name) for part, name in columns.parts.items()),
            ("--key", columns.key),
            ("--split-column", columns.split),
        ]:
            if column is not None and column not in self._table:
                raise ConfigError(
                    f"{option}: this table has no column {column!r}{did_you_mean(column, self._table)}", at=at
                )
        used = {*columns.parts.values()}
        self.split = columns.split or self._first(_is_split, {*used, columns.key})
        self.key = columns.key or self._first(_is_key, {*used, self.split})
        self._free = [c for c in table if c.name not in (self.key, self.split)]

    def _first(self, matches: object, used: set[str | None]) -> str | None:
        """Return the first column that matches and is not used."""
        return next((c.name for c in self._table.values() if c.name not in used and matches(c)), None)  # type: ignore[operator]

    # ---------------------------------------------------------------------------------------- named by the user

    def named_parts(self) -> list[PartColumns]:
        parts = []
        for name, column in self._columns.parts.items():
            check_part_name(name)
            parts.append(self._named_part(name, self._table[column]))
        return parts

    def _named_part(self, name: str, column: TableColumn) -> PartColumns:
        role = self._role_of_named(name, column)
        is_known = kind_of_name(name) != "bytes"
        if role in _MEDIA_ROLES:
            extension = _usual_extension(column)
            is_list = column.type == "media list"
            by_contents = is_list or (not is_known and part_extension(name) != extension)
            full = f"{name}.{extension or 'bin'}" if by_contents else name
            return PartColumns(
                name=full, role=role, columns=(column.name,), named_by_contents=by_contents, is_list=is_list
            )
        extensions = {"text": "txt", "label": "cls"}
        full = name if is_known else f"{name}.{extensions.get(role, 'json')}"
        return PartColumns(name=full, role=role, columns=(column.name,))

    def _role_of_named(self, name: str, column: TableColumn) -> Role:
        kind = kind_of_name(name)
        if column.type in _BYTES_TYPES:
            return "bytes"
        if column.type == "text" and kind not in ("label", "tree"):
            if _share(column, is_link) >= _MIN_SHARE:
                return "url"
            if kind != "text" and (kind != "bytes" or self._is_path(column)):
                return "path"
            if kind == "text" and self._files_exist(column):
                return "path"
            return "text"
        if kind == "text":
            return "text"
        if kind == "label" or (kind == "bytes" and column.type == "integer"):
            return "label"
        return "path" if kind == "tree" and column.type == "text" and self._files_exist(column) else "json"

    # ------------------------------------------------------------------------------------------------ detected

    def detected_parts(self) -> list[PartColumns]:
        media = self._media()
        parts = [part for column, role in media for part in self._media_part(column, role, only=len(media) == 1)]
        rest = [column for column in self._free if column not in [column for column, _ in media]]
        labels = [c for c in rest if c.class_names or (c.type == "integer" and plain_name(c.name) in LABEL_NAMES)]
        if labels:
            parts.append(PartColumns(name="cls", role="label", columns=(labels[0].name,)))
            if not labels[0].class_names:
                rest.remove(labels[0])  # else the object of JSON has the name
        text = _caption(rest)
        if text is not None and all(part.name != "txt" for part in parts):
            parts.append(PartColumns(name="txt", role="text", columns=(text.name,)))
            rest.remove(text)
        if rest:
            name = "json" if all(part.name != "json" for part in parts) else "columns.json"
            parts.append(PartColumns(name=name, role="json", columns=tuple(c.name for c in rest), is_object=True))
        return parts

    def _media(self) -> list[tuple[TableColumn, Role]]:
        """Return the columns of pictures, audio, video or other files; paths next to bytes only name these."""
        media: list[tuple[TableColumn, Role]] = [
            (column, "bytes") for column in self._free if column.type in _BYTES_TYPES
        ]
        if media:
            return media
        paths = [column for column in self._free if self._is_path(column)]
        present = [column for column in paths if self._files_exist(column)]
        urls = [column for column in self._free if _is_media_url(column)]
        if present or (paths and not urls):
            return [(column, "path") for column in present or paths]
        return [(column, "url") for column in urls]

    def _media_part(self, column: TableColumn, role: Role, *, only: bool) -> list[PartColumns]:
        extension = _usual_extension(column) or "bin"
        name = extension if only and column.type != "media list" else f"{part_name_of_column(column.name)}.{extension}"
        is_list = column.type == "media list"
        return [PartColumns(name=name, role=role, columns=(column.name,), named_by_contents=True, is_list=is_list)]

    def _is_path(self, column: TableColumn) -> bool:
        if column.type != "text" or _share(column, is_link) >= _MIN_SHARE:
            return False
        if _share(column, _looks_like_file) >= _MIN_SHARE:
            return True
        return bool(MEDIA_NAMES.search(plain_name(column.name))) and self._files_exist(column)

    def _files_exist(self, column: TableColumn) -> bool:
        """Return True if one of the first values is a file; of a remote root, if all look like files."""
        if is_url(self._root):
            return _share(column, _looks_like_file) >= _MIN_SHARE
        return any(_is_file(join_root(self._root, value)) for value in column.known_values if isinstance(value, str))

    # ------------------------------------------------------------------------------------------------- report

    def found(self, parts: Sequence[PartColumns]) -> tuple[FoundColumn, ...]:
        """Return what becomes of each column."""
        uses: dict[str, tuple[Role, str | None]] = {}
        for part in reversed(parts):  # a label with class names is in an object, too
            uses |= dict.fromkeys(part.columns, (part.role, part.name))
        if self.split:
            uses.setdefault(self.split, ("split", None))
        if self.key:
            uses.setdefault(self.key, ("key", None))
        found = []
        for column in self._table.values():
            role, part_name = uses.get(column.name, ("not written", None))
            examples = tuple(_shown(value) for value in column.known_values[:_SHOWN_EXAMPLES])
            found.append(FoundColumn(name=column.name, type=column.type, role=role, part=part_name, examples=examples))
        return tuple(found)


def _is_split(column: TableColumn) -> bool:
    values = column.known_values
    is_name = plain_name(column.name) in SPLIT_NAMES and column.type == "text"
    return is_name and bool(values) and len(set(values)) <= _MAX_SPLIT_PARTS and all(len(v) < 40 for v in values)


def _is_key(column: TableColumn) -> bool:
    if plain_name(column.name) not in KEY_NAMES or column.type not in ("text", "integer"):
        return False
    values = column.known_values
    return len(values) == len(column.values) and len(set(values)) == len(values)


def _caption(rest: Sequence[TableColumn]) -> TableColumn | None:
    """Return the column that is the text of samples."""
    texts = {plain_name(column.name): column for column in reversed(rest) if column.type == "text"}
    for name in CAPTION_NAMES:
        if name in texts:
            return texts[name]
    return rest[0] if len(rest) == 1 and rest[0].type == "text" and not rest[0].class_names else None


def _is_media_url(column: TableColumn) -> bool:
    if column.type != "text" or _share(column, is_link) < _MIN_SHARE:
        return False
    return bool(MEDIA_NAMES.search(plain_name(column.name))) or _share(column, _looks_like_file) >= _MIN_SHARE


def _looks_like_file(value: str) -> bool:
    if len(value) > _MAX_PATH or "\n" in value:
        return False
    extension = extension_of_path(value)
    return bool(extension) and kind_of_name(extension) not in ("bytes", "label")


def _share(column: TableColumn, matches: object) -> float:
    values = column.known_values
    if not values:
        return 0.0
    return sum(isinstance(value, str) and bool(matches(value)) for value in values) / len(values)  # type: ignore[operator]


def _is_file(path: str) -> bool:
    try:
        return os.path.isfile(path)
    except ValueError:  # a zero byte
        return False


def _usual_extension(column: TableColumn) -> str | None:
    """Return the extension that most of the first values have."""
    counts = Counter(filter(None, map(_extension, _flat(column.known_values))))
    return counts.most_common(1)[0][0] if counts else None


def _flat(values: Sequence[object]) -> list[object]:
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def _extension(value: object) -> str | None:
    if isinstance(value, dict):
        data, path = value.get("bytes"), value.get("path")
        return usual_extension(data) if isinstance(data, bytes) else extension_of_path(path or "")
    if isinstance(value, bytes):
        return usual_extension(value)
    return extension_of_path(value) if isinstance(value, str) else None


def _shown(value: object) -> str:
    if isinstance(value, dict) and value.keys() >= {"bytes"}:
        value = value["bytes"] or value.get("path")
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list) and value and isinstance(value[0], dict | bytes):
        return f"[{', '.join(map(_shown, value[:_SHOWN_EXAMPLES]))}{', …' * (len(value) > _SHOWN_EXAMPLES)}]"
    return value if isinstance(value, str) and len(value) <= 60 else short_repr(value)
