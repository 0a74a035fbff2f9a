"""The columns of a table: as they are, and as the parts that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..rows.file_access import FileAccess
from .named_files import NamedFiles

ColumnType = Literal["text", "integer", "number", "bytes", "media", "media list", "text list", "nested", "empty"]
"""Type of the values: ``media`` is a struct of bytes and a path, as in Hugging Face datasets."""

Role = Literal["key", "split", "path", "url", "bytes", "text", "label", "json", "document", "not written"]
"""What becomes of a column: the key, the split part, or a part of the sample; ``document`` is that of lists of texts
and pictures that line up, and of what belongs to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns that the user names; the others are detected.

    Attributes:
        parts: Part name → column; if there are any, no other column becomes a part. A name without a known extension
            gets that of the contents: ``left`` becomes ``left.jpg``.
        key: Column with the keys of samples.
        split: Column with the split parts.
        root: Folder or URL that relative paths start from; None for the folder of the table.
        access: Decides which files paths may name.
        files: Files that paths name; None for those below the root.
        keep_text_only: Rows without a picture or another file are samples, too; None if they are conversations.
        keep_urls: Columns of URLs stay text.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    split: str | None = None
    root: str | None = None
    access: FileAccess = field(default_factory=FileAccess)
    files: NamedFiles | None = None
    keep_text_only: bool | None = None
    keep_urls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundColumn:
    """A column with its use, for people.

    Attributes:
        name: Its name.
        type: Type of its values.
        role: What it is used for.
        part: The part that it becomes, or is in; None for the key and the split.
        examples: Its first values, shortened.
    """

    name: str
    type: ColumnType
    role: Role
    part: str | None
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartColumns:
    """A part, and the columns that it is made of.

    Attributes:
        name: Its name, with the extension that the first rows suggest.
        role: How the value becomes bytes.
        columns: One column, or several that become an object of JSON.
        is_object: The columns are the members of an object of JSON.
        named_by_contents: Each sample has the extension of its own contents.
        is_list: The value is a list, each element of which becomes a part: ``images.0.jpg``, ``images.1.jpg``.
    """

    name: str
    role: Role
    columns: tuple[str, ...]
    is_object: bool = False
    named_by_contents: bool = False
    is_list: bool = False

    def element_name(self, index: int) -> str:
        """Return the name of the part of an element of a list."""
        first, _, extension = self.name.rpartition(".")
        return f"{first}.{index}.{extension}".removeprefix(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The conversion of the rows of a table to samples.

    Attributes:
        key: Column with the keys; None makes them of paths or of the number of the row.
        split: Column with the split parts.
        parts: The parts.
        found: All columns, in the order of the table.
        class_names: Column → names of its classes, which an object of JSON has instead of numbers.
        keeps_others: Values of columns that the first rows do not have are members of the object of JSON, too.
        files: Files that paths name.
        is_chat: A column has conversations.
        keeps_text_only: Rows without a picture or another file are samples, too.
        notes: What users should know about the columns, a sentence each.
    """

    key: str | None
    split: str | None
    parts: tuple[PartColumns, ...]
    found: tuple[FoundColumn, ...]
    class_names: Mapping[str, tuple[str, ...]]
    keeps_others: bool
    files: NamedFiles
    is_chat: bool
    keeps_text_only: bool
    notes: tuple[str, ...]

    @property
    def object_part(self) -> PartColumns | None:
        """The part that is an object of several columns."""
        return next((part for part in self.parts if part.is_object), None)
