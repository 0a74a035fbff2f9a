"""``aux: {images: ./images_ds, files: "filesystem://./folder"}``: stores beside a dataset, by name."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import Fault
from ..format.shown_value import shown
from .mapping_reader import MappingReader

__all__ = ["FILESYSTEM", "parse_aux"]

FILESYSTEM = "filesystem://"
"""Marks a folder of files; without it, an auxiliary store is a prepared dataset."""

_EXPECTED = 'expected the path of a dataset, or "filesystem://" and the path of a folder'
_TAKEN = ("cache", "primary", "sample")
"""What cookers are given under these names is no auxiliary store."""
_PREFIX_OF_KEY = {"path": "", "fs_path": FILESYSTEM}


def parse_aux(owner: MappingReader) -> Mapping[str, str]:
    """Read the key ``aux`` of a mapping: name → path or URL as it is written.

    The longer forms ``{path: …}`` and ``{fs_path: …}`` come out as the short ones.
    """
    reader = owner.child("aux")
    stores: dict[str, str] = {}
    if reader is None:
        return stores
    for name in reader.mapping:
        if not isinstance(name, str):
            reader.faults.append(Fault(place=reader.at(name), found="expected a name; put it in quotes"))
            continue
        if name in _TAKEN:
            reader.fault(name, f"expected another name: cookers get something else as {name}=")
            continue
        store = _store(reader, name)
        if store is not None:
            stores[name] = store
    return stores


def _store(reader: MappingReader, name: str) -> str | None:
    value = reader.mapping[name]
    if not isinstance(value, Mapping):
        store = value if isinstance(value, str) else None
        if not store or store == FILESYSTEM:
            reader.fault(name, f"{_EXPECTED}, found {shown(value)}")
        return store or None
    inner = MappingReader(value, reader.at(name), reader.faults)
    inner.expect_keys(_PREFIX_OF_KEY)
    keys = [key for key in _PREFIX_OF_KEY if key in inner]
    if len(keys) != 1:
        inner.fault("", f"expected either 'path' or 'fs_path', found {' and '.join(map(repr, keys)) or 'neither'}")
        return None
    text = inner.text(keys[0])
    return _PREFIX_OF_KEY[keys[0]] + text if text else None
