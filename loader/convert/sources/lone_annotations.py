"""Files of annotations that are named alone, without the folder of their pictures."""

from __future__ import annotations

import os

from ...errors import ConfigError
from ...format.documents import import_way
from ...storage import is_url
from ..annotations.xml_elements import tags_in
from ..readers.registry import reader_of, readers
from ..rows.file_access import data_folder
from ..tables.source_options import SourceOptions
from .table_source import TextTableSource

_EXTENSIONS = ("json", "xml")
_MAX_BYTES = 16 << 20  # of a file about one picture, which may have the picture itself in base64


def open_xml(path: str, options: SourceOptions) -> TextTableSource:
    """Return the elements of an XML document that are the annotations of a picture each.

    Raises:
        ConfigError: No format of annotations is recognised.
    """
    tables = (
        TextTableSource(path=path, kind="xml", columns=options, inside=tag)
        for tag in (() if is_url(path) else tags_in(path))
    )
    table = next((each for each in tables if each.reader_of_rows([])), None)
    if table is None:
        fault = "expected an XML document about several pictures, such as CVAT writes"
        raise ConfigError(fault, at=path, hint="name the folder that has it and the pictures")
    return table


def refuse_of_one_picture(path: str) -> None:
    """Raise a ``ConfigError`` for the annotations of a single picture, such as of LabelMe, which is next to them."""
    extension = path.rpartition(".")[2].lower()
    if extension not in _EXTENSIONS or os.path.getsize(path) > _MAX_BYTES:
        return
    with open(path, "rb") as file:
        name = reader_of([file.read()], extension)
    if name:
        fault = f"these are the annotations of one picture, as {readers()[name].title} writes them"
        raise ConfigError(fault, at=path, hint=str(import_way(data_folder(path), taken="all pictures of the folder")))
