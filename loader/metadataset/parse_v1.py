"""``Metadataset``, the first version: a split is a list of ``datasets`` with weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .mapping_reader import MappingReader
from .metadataset_spec import BlendEntry, BlendSpec
from .parse_reference import REFERENCE_KEYS, parse_reference

__all__ = ["parse_v1_split"]

_V2_ONLY = ("aux", "subset")
_KEYS = (*(key for key in REFERENCE_KEYS if key not in _V2_ONLY), "weight", "subflavor")
_WHY_NOT = {
    key: f"only a MetadatasetV2 has {key!r}; set __class__ to that"
    for key in (*_V2_ONLY, "blend", "blend_epochized", "join", "repetitions")
}


def parse_v1_split(reader: MappingReader) -> BlendSpec | None:
    """Read a split, as the blend of the second version that it means; None where nothing can be read."""
    reader.expect_keys(["datasets"], {**_WHY_NOT, "path": "expected a list of 'datasets'; paths stand there"})
    if "datasets" not in reader:
        reader.fault("datasets", "this is missing; expected a list of datasets")
        return None
    entries = tuple(_entries(reader))
    return BlendSpec(place=reader.at("datasets"), kind="blend", entries=entries) if entries else None


def _entries(reader: MappingReader) -> Iterator[BlendEntry]:
    for entry in reader.entries("datasets"):
        entry.expect_keys(_KEYS, _WHY_NOT)
        weight = entry.positive("weight", 1.0)
        label = entry.text("subflavor")
        reference = parse_reference(entry)
        if reference is None:
            continue
        if label is not None:
            reference = replace(reference, subflavors={"__subflavor__": label, **reference.subflavors})
        yield BlendEntry(amount=weight, source=reference)
