"""The readers of this folder and of installed packages by name, and what all do with damaged annotations."""

from __future__ import annotations

import importlib
import pkgutil
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ...errors import ConfigError, EnergonError, SampleError
from ...extensions import extension_names, load_extension
from ..tables.columns import TableColumn
from ..tables.named_files import CAPTION_NAMES
from .reader import About, Annotation, AnnotationReader

_DAMAGED = (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_MIN_SHARE = 0.7  # of the drawn annotations that a reader recognises; the others are damaged


@cache
def readers() -> Mapping[str, AnnotationReader]:
    """Return the reader of each module in this folder, by the name of the module, and the readers of packages.

    Raises:
        ConfigError: A package is damaged, or uses the name of a reader of this library.
    """
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    modules = {name: importlib.import_module(f".{name}", __package__) for name in names}
    ours = {name: module.READER for name, module in modules.items() if hasattr(module, "READER")}
    added = {name: load_extension("readers", name) for name in extension_names("readers")}
    if taken := ours.keys() & added.keys():
        raise ConfigError(f"an installed package adds a reader {min(taken)!r}, which this library has already")
    return ours | added


def reader_of(drawn: Iterable[bytes], extension: str = "") -> str:
    """Return the name of the reader that recognises annotations; an empty text for none.

    Args:
        drawn: Some files, or elements; empty ones say nothing.
        extension: Of the files; an empty text for elements.
    """
    seen = [data.removeprefix(BOM_UTF8) for data in drawn if data.strip()]
    shares = {"": 0.0}
    for name, reader in readers().items():
        if reader.extension == extension:
            known = [each for data in seen if (each := _recognises(reader, data)) is not None]
            shares[name] = sum(known) / len(known) if known else 0
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= _MIN_SHARE else ""


def reader_of_rows(columns: Sequence[TableColumn], name: str) -> str:
    """Return the reader of rows that name pictures several times; an empty text for other tables.

    Rows with captions, such as expressions that refer to boxes, are samples of their own.

    Args:
        name: Name of the column of the pictures.
    """
    by_name = {column.name: column for column in columns}
    have_captions = any(column.plain_name in CAPTION_NAMES and column.type == "text" for column in columns)
    if have_captions or name not in by_name or not by_name.pop(name).has_repeats:
        return ""
    rows = zip(*(column.values for column in by_name.values()), strict=False)
    return reader_of((msgspec.json.encode(dict(zip(by_name, row, strict=True))) for row in rows), "rows")


def _recognises(reader: AnnotationReader, data: bytes) -> bool | None:
    try:
        return reader.recognises(data)
    except (EnergonError, *_DAMAGED):
        return False


def read_annotation(name: str, annotation: Annotation) -> dict[str, Any]:
    """Return the annotations of a picture in the one form.

    Raises:
        SampleError: They are damaged.
    """
    reader = readers()[name]
    try:
        return reader.read(annotation._replace(data=annotation.data.removeprefix(BOM_UTF8)))
    except EnergonError as error:
        raise SampleError(f"the annotations of {reader.title} are damaged: {error.message}") from error
    except _DAMAGED as error:
        fault = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise SampleError(f"the annotations of {reader.title} are damaged: {fault}") from error


def read_about(reader: str, name: str, data: bytes) -> About:
    """Return what a file says about all annotations that a reader reads; nothing for another file.

    Raises:
        ConfigError: The file is damaged.
    """
    try:
        return readers()[reader].about(name, data.removeprefix(BOM_UTF8))
    except (EnergonError, *_DAMAGED) as error:
        fault = error.message if isinstance(error, EnergonError) else str(error)
        hint = "repair it, or remove it to import the annotations without names of classes"
        raise ConfigError(f"{name} cannot be read: {fault}", hint=hint) from error
