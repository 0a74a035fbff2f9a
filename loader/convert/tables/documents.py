"""Columns of lists that line up, as in OBELICS: the texts and pictures of documents in reading order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...accounting.kinds import kind_of_name, with_extension
from ...errors import SampleError
from ..rows.documents import NO_ITEMS, lined_up_items, with_items
from .columns import PartColumns, Role
from .names import extension_of_path
from .table_column import TableColumn

_TEXT_NAMES = ("texts", "text_list", "sentences")
_PICTURE_NAMES = ("images", "image_list", "image_urls", "image_paths", "pictures")
_MIN_SHARE = 0.5  # of the first rows whose lists are equally long: a damaged one must not hide the layout


def document_parts(columns: Sequence[TableColumn]) -> list[PartColumns]:
    """Return the parts of documents: numbered pictures, and ``json``; none for other tables.

    Args:
        columns: The columns, with their first values.
    """
    named = {column.name: column for column in columns}
    texts = next((named[name] for name in _TEXT_NAMES if name in named), None)
    images = next((named[name] for name in _PICTURE_NAMES if name in named), None)
    if texts is None or images is None:
        return []
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
    """Return a document for the part ``json``; its pictures have the names that their parts get.

    Raises:
        SampleError: The lists do not line up, or an entry is neither a text nor a picture.
    """
    texts, images, *others = part.columns
    items = lined_up_items(values.get(texts) or [], values.get(images) or [])
    if not items:
        raise SampleError(NO_ITEMS)
    pictures = [item.picture for item in items if item.picture is not None]
    names = [_part_name(number, picture) for number, picture in enumerate(pictures)]
    return with_items({name: values[name] for name in others if name in values}, items, names)


def _part_name(number: int, picture: str | bytes) -> str:
    if isinstance(picture, bytes):
        return with_extension(f"{number}.jpg", picture)
    extension = extension_of_path(picture)
    return f"{number}.{'jpg' if kind_of_name(extension) == 'bytes' else extension}"
