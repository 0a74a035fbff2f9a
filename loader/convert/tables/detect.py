"""Find out what the columns of a table are, from their names, their types and the values of all rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...errors import ConfigError, hide_secrets
from ...format.documents.conversation import CONVERSATION_KEYS
from ...format.documents.messages import did_you_mean, short_repr
from ...parts.kinds import kind_of_name, part_extension
from ...storage import is_url
from ...storage.remote import hide_query
from ..rows.row import unique_part
from .columns import FoundColumn, PartColumns, Role, TableColumn, TableLayout, segment_columns
from .name_index import STEM
from .named_files import (
    CAPTION_NAMES,
    KEY_NAMES,
    LABEL_NAMES,
    NamedFiles,
    check_part_name,
    is_link,
    part_name_of_column,
)
from .part_values import document_parts
from .source_options import SourceOptions
from .split_names import SPLIT_NAMES, is_split_name

_MIN_SHARE = 0.9  # of values that look like paths
_MAX_SPLIT_PARTS = 20
_SHOWN_EXAMPLES = 3
_BYTES_TYPES = ("bytes", "media", "media list")
_MEDIA_ROLES = ("path", "url", "bytes")


def find_layout(
    table: Sequence[TableColumn],
    columns: SourceOptions,
    *,
    files: NamedFiles,
    at: str,
    group_reader: str | None = None,
) -> TableLayout:
    """Return how the rows of a table become samples, by columns to which the values of all rows were added.

    Args:
        group_reader: Reader of rows that name one file, which may be none; None for groups of values.
    """
    finder = _Finder(table, columns, files, at, are_of_files=group_reader is not None)
    if columns.parts and columns.group_column:
        raise ConfigError(
            "--part names the parts of a row, and by --group-by column: the columns of rows are a list in json",
            at=at,
            hint="omit one of them",
        )
    parts = finder.named_parts() if columns.parts else finder.detected_parts()
    if not parts:
        shown = ", ".join(f"{column.name!r} ({column.type})" for column in table) or "none"
        raise ConfigError(
            f"this table has no column that can be a part of a sample; its columns are: {shown}",
            at=at,
            hint="name columns by --part jpg=COLUMN or --part txt=COLUMN",
        )
    # Segments are cut on request.
    segment = segment_columns(table) if columns.segments else None
    if columns.segments and segment is None:
        raise ConfigError(
            f"--segments {columns.segments}: this table has no column of numbers that says where segments begin",
            at=at,
            hint="name it start or offset; it has seconds",
        )
    has_chats = any(column.name in CONVERSATION_KEYS for column in table)
    return TableLayout(
        key=finder.key,
        split=finder.split,
        parts=tuple(parts),
        found=finder.found(parts),
        class_names={c.name: names for c in table if (names := c.class_names or c.inner_names)},
        keeps_others=not columns.parts,
        files=finder.files,
        keeps_text_only=has_chats if columns.keep_text_only is None else columns.keep_text_only,
        notes=(*finder.missed_files(parts), *finder.repeated_files(parts)),
        group=columns.group_column,
        group_reader=group_reader,
        segment=segment if columns.segments == "cut" else None,
    )


class _Finder:
    def __init__(
        self, table: Sequence[TableColumn], columns: SourceOptions, files: NamedFiles, at: str, *, are_of_files: bool
    ) -> None:
        self._table = {column.name: column for column in table}
        self._columns = columns
        self._is_remote = columns.files is None and is_url(files.root)
        self.files = files
        self._names: set[str] = set()
        # Check the columns that the user names.
        for option, column in [
            *((f"--part {part}", name) for part, name in columns.parts.items()),
            ("--key-column", columns.key),
            ("--split-column", columns.split),
            ("--group-by", columns.group_column),
        ]:
            if column is not None and column not in self._table:
                raise ConfigError(
                    f"{option}: this table has no column {column!r}{did_you_mean(column, self._table)}", at=at
                )
        # Find the split and the keys among the others.
        used: set[str | None] = {*columns.parts.values(), columns.key}
        self.split = columns.split or self._first(_is_split, used) or self._first(_has_splits, used)
        group = columns.group_column
        self.key = columns.key or (None if are_of_files else group) or self._first(_is_key, {*used, self.split})
        key = self._table[self.key] if self.key and not columns.key else None
        if key is not None and self._is_path(key) and not (key.forms and min(key.forms) >= STEM):
            self.key = None  # keys come from the files
        self._free = [c for c in table if c.name not in (self.key, self.split) or c.name == group]

    def _first(self, matches: Callable[[TableColumn], bool], used: set[str | None]) -> str | None:
        return next((c.name for c in self._table.values() if c.name not in used and matches(c)), None)

    # ---------------------------------------------------------------------------------------- named by the user

    def named_parts(self) -> list[PartColumns]:
        return [self._named_part(name, self._table[column]) for name, column in self._columns.parts.items()]

    def _named_part(self, name: str, column: TableColumn) -> PartColumns:
        check_part_name(name)
        role = self._role_of_named(name, column)
        is_known = kind_of_name(name) != "bytes"
        # A name without a known extension gets the extension of the contents.
        if role in _MEDIA_ROLES:
            extension = column.usual_extension
            is_list = _is_list(column)
            by_contents = is_list or (not is_known and part_extension(name) != extension)
            full = f"{name}.{extension or 'bin'}" if by_contents else name
            return PartColumns(
                name=full, role=role, columns=(column.name,), named_by_contents=by_contents, is_list=is_list
            )
        # Texts, labels and JSON have extensions of their own.
        extensions = {"text": "txt", "label": "cls", "array": "npy"}
        full = name if is_known else f"{name}.{extensions.get(role, 'json')}"
        return PartColumns(name=full, role=role, columns=(column.name,))

    def _role_of_named(self, name: str, column: TableColumn) -> Role:
        # The extension that the user names decides, as far as the values allow it.
        kind = kind_of_name(name)
        if column.type in _BYTES_TYPES:
            return "bytes"
        if column.type == "number list" and kind in ("bytes", "array"):
            return "array"
        if _is_text(column) and kind not in ("label", "tree"):
            if column.share(column.links) >= _MIN_SHARE:
                return ("text" if column.type == "text" else "json") if self._columns.keep_urls else "url"
            if kind != "text" and _is_inline(column):
                return "bytes"
            if kind != "text" and (kind != "bytes" or self._is_path(column)):
                self._files_exist(column)
                return "path"
            if kind == "text" and self._files_exist(column):
                return "path"
            return "text" if column.type == "text" else "json"
        if kind == "text":
            return "text"
        if kind == "label" or (kind == "bytes" and column.type == "integer"):
            return "label"
        return "path" if kind == "tree" and column.type == "text" and self._files_exist(column) else "json"

    # ------------------------------------------------------------------------------------------------ detected

    def detected_parts(self) -> list[PartColumns]:
        # Lists of texts and pictures that line up are documents.
        is_grouped = self._columns.group_column is not None
        documents = [] if is_grouped else document_parts(self._free)
        if documents and not (self._columns.keep_urls and _has_urls(self._table[documents[0].columns[0]])):
            return documents
        # Else take media, a label, a caption, and all other columns as JSON.
        media = self._media()
        parts = [self._media_part(column, role, only=len(media) == 1) for column, role in media]
        # What is nested around the names of files is data, too.
        whole = [column for column, _ in media if column.type != "nested"]
        rest = [column for column in self._free if column not in whole]
        label = None if is_grouped else _label(rest)
        if label is not None and (label.type != "text" or self._columns.is_only_table):
            parts.append(PartColumns(name="cls", role="label", columns=(label.name,)))
        if label is not None and not label.class_names:
            rest.remove(label)  # else the object of JSON has the name
        text = None if is_grouped else _caption(rest) or _transcript(rest, parts)
        if text is not None and all(part.name != "txt" for part in parts):
            parts.append(PartColumns(name="txt", role="text", columns=(text.name,)))
            rest.remove(text)
        # Lists of numbers, such as tokens, are arrays, which keep their type; short ones of one length are attributes.
        lists = [column for column in rest if column.type == "number list" and not column.has_short_lists]
        for column in lists if not is_grouped else ():
            array = unique_part(f"{part_name_of_column(column.name)}.npy", {part.name for part in parts})
            parts.append(PartColumns(name=array, role="array", columns=(column.name,)))
            rest.remove(column)
        if rest or is_grouped:
            name = "json" if all(part.name != "json" for part in parts) else "columns.json"
            parts.append(PartColumns(name=name, role="json", columns=tuple(c.name for c in rest), is_object=True))
        return parts

    def _media(self) -> list[tuple[TableColumn, Role]]:
        """Return the columns of pictures, audio, video or other files; paths next to bytes only name these."""
        media: list[tuple[TableColumn, Role]] = [
            (column, "bytes") for column in self._free if column.type in _BYTES_TYPES or _is_inline(column)
        ]
        if media:
            return media
        paths = [column for column in self._free if self._is_path(column)]
        present = [column for column in paths if self._files_exist(column)]
        urls = [column for column in self._free if _is_media_url(column) and not self._columns.keep_urls]
        if self.files.is_tree:
            present = [self._table[name] for name in self._columns.places]
        if present or (paths and not urls):
            return [(column, "path") for column in present or paths]
        return [(column, "url") for column in urls]

    def _media_part(self, column: TableColumn, role: Role, *, only: bool) -> PartColumns:
        extension = column.usual_extension or "bin"
        is_list = _is_list(column)
        name = extension if only and not is_list else f"{part_name_of_column(column.name)}.{extension}"
        name = unique_part(name, self._names)  # of columns whose names have the same letters, or none
        self._names.add(name)
        return PartColumns(name=name, role=role, columns=(column.name,), named_by_contents=True, is_list=is_list)

    def _is_path(self, column: TableColumn) -> bool:
        if self.files.is_tree:
            return column.name in self._columns.places
        if not _is_text(column) or _has_urls(column):
            return False
        # Most values are paths, URLs or files in base64.
        if column.share(column.paths + column.links + column.inline) >= _MIN_SHARE:
            return column.paths > 0 or column.inline > 0
        # Files that exist are no chance if most values look like files, or the name says so.
        return column.has_files and (column.is_named_media or column.share(column.paths) >= 0.5)

    def _files_exist(self, column: TableColumn) -> bool:
        """Return True if one of the values is a file; of a remote root, if all look like files."""
        if self.files.is_tree:
            return column.resolved > 0
        if self._is_remote:
            return column.share(column.paths) >= _MIN_SHARE
        return column.has_files

    # ------------------------------------------------------------------------------------------------- report

    def missed_files(self, parts: Sequence[PartColumns]) -> list[str]:
        media = {name for part in parts if part.role in _MEDIA_ROLES for name in part.columns}
        if any(self._table[name].type in _BYTES_TYPES for name in media):
            return []  # paths describe the bytes
        return [
            f"column {column.name!r} has files in some rows, such as {column.first_file!r}, but is written as text;"
            f" --part NAME={column.name} writes them as parts"
            for column in self._free
            if column.first_file and column.name not in media
        ]

    def repeated_files(self, parts: Sequence[PartColumns]) -> list[str]:
        paths = [part.columns[0] for part in parts if part.role == "path" and not part.is_list]
        if (
            self._columns.group_column is not None
            or self._columns.segments
            or len(paths) != 1
            or not self._table[paths[0]].has_repeats
        ):
            return []
        joins = f"--group-by column:{paths[0]} makes one sample of these rows"
        return [f"several rows name one file, and each is a sample; {joins}"]

    def found(self, parts: Sequence[PartColumns]) -> tuple[FoundColumn, ...]:
        uses: dict[str, tuple[Role, str | None]] = {}
        for part in reversed(parts):  # a label with class names is in an object, too
            uses |= dict.fromkeys(part.columns, (part.role, part.name))
        # Columns are parts, the split, the key, or not written.
        if self.split:
            uses.setdefault(self.split, ("split", None))
        if self.key:
            uses.setdefault(self.key, ("key", None))
        shown = []
        for column in self._table.values():
            role, part_name = uses.get(column.name, ("not written", None))
            examples = tuple(_shown(value) for value in column.examples[:_SHOWN_EXAMPLES])
            shown.append(FoundColumn(name=column.name, type=column.type, role=role, part=part_name, examples=examples))
        return tuple(shown)


def _is_split(column: TableColumn) -> bool:
    values = column.distinct
    is_name = column.plain_name in SPLIT_NAMES and column.type == "text"
    return is_name and bool(values) and len(values) <= _MAX_SPLIT_PARTS and all(len(v) < 40 for v in values)


def _has_splits(column: TableColumn) -> bool:
    """Return True for a column whose values are all names of split parts, and that is not text or label."""
    values = column.texts.values or ()
    is_other = column.plain_name in CAPTION_NAMES or column.plain_name in LABEL_NAMES
    return column.type == "text" and not is_other and len(values) > 1 and all(map(is_split_name, values))


def _is_key(column: TableColumn) -> bool:
    return column.plain_name in KEY_NAMES and column.type in ("text", "integer") and column.is_unique


def _label(rest: Sequence[TableColumn]) -> TableColumn | None:
    """Return the column of classes: a usual name comes before the only column, if that has few different texts."""
    named = [column for column in rest if column.plain_name in LABEL_NAMES]
    numbered = [column for column in rest if column.class_names or (column in named and column.type == "integer")]
    if numbered:
        return numbered[0]
    # Names of classes get numbers, if every row has one.
    alone = rest if len(rest) == 1 and rest[0].plain_name not in CAPTION_NAMES else ()
    for column in (*named, *alone):
        if column.type == "text" and column.texts.count == column.rows:
            column.class_names = column.texts.classes(are_labels=column in named)
            return column if column.class_names else None
    return None


def _caption(rest: Sequence[TableColumn]) -> TableColumn | None:
    texts = {column.plain_name: column for column in reversed(rest) if column.type == "text"}
    # A usual name comes first, then the only column of texts.
    for name in CAPTION_NAMES:
        if name in texts:
            return texts[name]
    is_caption = len(rest) == 1 and rest[0].type == "text" and rest[0].name not in CONVERSATION_KEYS
    return rest[0] if is_caption and not rest[0].class_names else None


def _transcript(rest: Sequence[TableColumn], parts: Sequence[PartColumns]) -> TableColumn | None:
    """Return the first column of texts of several words next to sound, if no column has a name.

    LJSpeech has the transcript as it is written, and then normalised.
    """
    are_sounds = any(kind_of_name(part.name) == "audio" for part in parts)
    are_unnamed = all(re.fullmatch(r"column_\d+", column.name) for column in rest)
    texts = (column for column in rest if are_sounds and are_unnamed and column.type == "text")
    return next((c for c in texts if 2 * sum(" " in str(value) for value in c.examples) > len(c.examples)), None)


def _has_urls(column: TableColumn) -> bool:
    return _is_text(column) and column.share(column.links) >= _MIN_SHARE


def _is_media_url(column: TableColumn) -> bool:
    if not _has_urls(column):
        return False
    return column.is_named_media or column.share(column.media_links) >= _MIN_SHARE


def _is_text(column: TableColumn) -> bool:
    return column.type in ("text", "text list")


def _is_inline(column: TableColumn) -> bool:
    return column.type == "text" and column.share(column.inline) >= 0.5


def _is_list(column: TableColumn) -> bool:
    return column.type in ("media list", "text list") or (column.type == "nested" and column.most_files > 1)


def _shown(value: object) -> str:
    # Show the size of bytes, and no secrets of URLs.
    if isinstance(value, dict) and value.keys() >= {"bytes"}:
        value = value["bytes"] or value.get("path")
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list) and value and isinstance(value[0], dict | bytes):
        return f"[{', '.join(map(_shown, value[:_SHOWN_EXAMPLES]))}{', …' * (len(value) > _SHOWN_EXAMPLES)}]"
    if isinstance(value, str) and is_link(value):
        value = hide_query(value)
    return hide_secrets(value if isinstance(value, str) and len(value) <= 60 else short_repr(value))
