"""Find two columns of lists that line up, as in OBELICS: the texts and pictures of documents in reading order."""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

from .arrow_columns import import_pyarrow
from .arrow_files import ArrowTable

__all__ = ["DocumentColumns", "do_line_up", "document_columns", "present_elements"]

_TEXT_NAMES = ("texts", "text_list", "sentences")
_PICTURE_NAMES = ("images", "image_list", "image_urls", "image_paths", "pictures")
_TEXT_TYPES = frozenset({"string", "large_string", "string_view"})
_BYTES_TYPES = frozenset({"binary", "large_binary", "binary_view"})
_MIN_SHARE = 0.5  # of the first rows whose lists are equally long: a damaged one must not hide the layout


class DocumentColumns(NamedTuple):
    """The columns of documents.

    Attributes:
        texts: Column of lists of texts.
        images: Column of lists of pictures.
        has_contents: Pictures are bytes, or structs of bytes and a path; False for paths and URLs.
    """

    texts: str
    images: str
    has_contents: bool


def document_columns(schema: Any) -> DocumentColumns | None:
    """Return the columns of a table whose rows are documents; None for another table.

    Args:
        schema: Its Arrow schema.
    """
    elements = {field.name: _element(field.type) for field in schema}
    texts = next((name for name in _TEXT_NAMES if elements.get(name) in ("text", "null")), None)
    images = next((name for name in _PICTURE_NAMES if elements.get(name)), None)
    if texts is None or images is None or {elements[texts], elements[images]} == {"null"}:
        return None
    return DocumentColumns(texts, images, elements[images] == "bytes")


def _element(type_: Any) -> str:
    """Return what the elements of a list are: ``text``, ``bytes``, ``null``, or an empty text for others."""
    from pyarrow import types

    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    if not any(is_list(type_) for is_list in lists):
        return ""
    element = type_.value_type
    if types.is_dictionary(element):
        element = element.value_type
    fields = {element.field(number).name for number in range(element.num_fields)} if types.is_struct(element) else ()
    if str(element) in _BYTES_TYPES or ("bytes" in fields and {*fields} <= {"bytes", "path"}):
        return "bytes"
    return "text" if str(element) in _TEXT_TYPES else "null" if types.is_null(element) else ""


def do_line_up(table: ArrowTable, columns: DocumentColumns) -> bool:
    """Return True if most of the first rows of a table have as many texts as pictures, empty places included."""
    compute: Any = import_pyarrow().compute
    names = [columns.texts, table.lengths_column(columns.images)]
    for _, batch in table.batches(0, names):
        texts, images = (compute.list_value_length(batch.column(name)).to_pylist() for name in columns[:2])
        equal = sum(text == image for text, image in zip(texts, images, strict=True))
        return bool(texts) and equal >= _MIN_SHARE * len(texts)
    return False


def present_elements(column: Any) -> list[list[bool]]:
    """Return for each list of an Arrow array which of its elements are not null; a list that is null has none."""
    compute: Any = import_pyarrow().compute
    present = iter(column.flatten().is_valid().to_pylist())
    return [[*islice(present, length or 0)] for length in compute.list_value_length(column).to_pylist()]
