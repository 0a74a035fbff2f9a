"""The keys that references to datasets have in common, in either version of the document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..format.shown_value import shown
from .mapping_reader import MappingReader
from .metadataset_spec import ReferenceSpec
from .parse_aux import parse_aux
from .parse_subset import parse_subset

__all__ = ["REFERENCE_KEYS", "parse_epochs_together", "parse_reference", "parse_subflavors"]

REFERENCE_KEYS = (
    "path",
    "split_part",
    "split_config",
    "dataset_config",
    "subflavors",
    "shuffle_over_epochs_multiplier",
    "subset",
    "aux",
)


def parse_reference(reader: MappingReader) -> ReferenceSpec | None:
    """Read a reference; None where it has no path. Keys that are not known are left to the caller."""
    path = reader.text("path")
    if path is None and reader.mapping.get("path") is None:
        reader.fault("path", "expected the path of a dataset, found nothing")
    reference = ReferenceSpec(
        place=reader.place,
        path=path or "",
        split_part=reader.text("split_part"),
        split_config=_file_in_nv_meta(reader, "split_config"),
        dataset_config=_file_in_nv_meta(reader, "dataset_config"),
        subflavors=parse_subflavors(reader),
        epochs_together=parse_epochs_together(reader),
        subset=parse_subset(reader),
        aux=parse_aux(reader),
    )
    return reference if path is not None else None


def parse_subflavors(reader: MappingReader) -> Mapping[str, Any]:
    """Read the key ``subflavors``; its keys become texts."""
    found = reader.child("subflavors")
    return {str(key): value for key, value in found.mapping.items()} if found else {}


def parse_epochs_together(reader: MappingReader) -> int | None:
    """Read the key ``shuffle_over_epochs_multiplier``; where it is missing, 1."""
    value = reader.mapping.get("shuffle_over_epochs_multiplier", 1)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and (value == -1 or value >= 1)):
        return value
    reader.fault("shuffle_over_epochs_multiplier", f"expected a whole number >= 1, -1 or null, found {shown(value)}")
    return 1


def _file_in_nv_meta(reader: MappingReader, key: str) -> str | None:
    name = reader.text(key)
    if name is None or not (name.startswith("/") or ".." in name.split("/")):
        return name
    reader.fault(key, f"expected the name of a file in .nv-meta, found {shown(name)}")
    return None
