"""The user's choices about the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..rows.file_access import FileAccess
from .named_files import NamedFiles

GroupBy = Literal["name", "folder", "parallel", "number", "suffix"]
"""What the files of a sample share: the name, the folder, the path but for one folder of it, or a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Settings of sources: the columns that the user names, and how folders are read; all else is detected.

    Attributes:
        parts: Part name → column; if there are any, no other column becomes a part. A name without a known extension
            gets the extension of the contents: ``left`` becomes ``left.jpg``.
        key: Column with the keys of samples.
        split: Column with the split parts.
        root: Folder or URL that relative paths start from; None for the folder of the table.
        access: Decides which files paths may name.
        files: Files that paths name; None for those below the root.
        keep_text_only: Rows without a picture or another file are samples, too; None if they are conversations.
        keep_urls: Columns of URLs stay text.
        places: Columns that name files of a tree, if ``files`` are a tree.
        is_only_table: No other table is imported whose classes would need the same numbers.
        classes: Subfolders of a folder are labels; None decides by its files.
        splits: Subfolders such as ``train`` are split parts; None decides by their names.
        group_by: None decides by the names of files.
        group_column: Column of a table by whose values rows are one sample; None for a sample of each row.
        segments: Rows that name segments of recordings get these, or the ``"whole"`` recordings; None refuses them.
        split_lists: Pattern of the tables and lists in a folder that tell split parts; None for all.
        tell: Gets lines for people before what may take long.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    split: str | None = None
    root: str | None = None
    access: FileAccess = field(default_factory=FileAccess)
    files: NamedFiles | None = None
    places: Sequence[str] = ()
    keep_text_only: bool | None = None
    keep_urls: bool = False
    is_only_table: bool = True
    classes: bool | None = None
    splits: bool | None = None
    group_by: GroupBy | None = None
    group_column: str | None = None
    segments: Literal["cut", "whole"] | None = None
    split_lists: str | None = None
    tell: Callable[[str], None] | None = None

    @property
    def option_of_rows(self) -> str:
        """The option that only rows of tables have a meaning for, as users write it; an empty text for none."""
        if self.group_column is not None:
            return f"--group-by column:{self.group_column}"
        return f"--segments {self.segments}" if self.segments else ""
