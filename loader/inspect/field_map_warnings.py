"""Whether the first sample can be made as a field map says, and what was probably meant where it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from loader.format.documents.dataset_config import DatasetConfig
from loader.format.documents.field_map import FieldMap, parse_field_map
from loader.format.documents.messages import nearest_names
from loader.format.documents.part_kinds import part_kind
from loader.format.prepare.proposals import propose_field_map

if TYPE_CHECKING:
    from .choices import DatasetYaml
    from .look import Look

__all__ = ["field_map_doubts"]


def field_map_doubts(choice: DatasetYaml, look: Look, *, meta_folder: Path, trust_code: bool) -> list[str]:
    """Say of each field that the samples looked at cannot fill why not; later samples may.

    Args:
        choice: The sample type and its field map.
        look: What the first samples are like.
        meta_folder: The dataset's ``.nv-meta``.
        trust_code: Load pickles.
    """
    if choice.field_map is None or not look.samples:
        return []
    field_map = parse_field_map(dict(choice.field_map), file="the field map")
    proposals = propose_field_map(choice.spec, look.part_names, look.json_example)
    doubts: list[str] = []
    testable: dict[str, str] = {}
    for name in field_map.fields:
        expression = field_map.expressions()[name]
        unseen = _unseen(field_map, name, look)
        if unseen is not None:
            doubts.append(f"{unseen}{_meant(field_map, name, look, proposals)}")
        elif FieldMap({name: field_map.fields[name]}).missing(look.parts):
            if choice.spec.field(name).required:
                only = ", ".join(look.parts)
                doubts.append(f"field {name!r} ({expression}): the first sample, {look.key}, has only {only}")
        else:
            testable[name] = expression
    for name, fault in _faults(choice, testable, look, meta_folder=meta_folder, trust_code=trust_code):
        proposal = proposals.get(name)
        asks = "did you mean" in fault or proposal in (None, testable[name])
        doubts.append(f"in the first sample, {look.key}, {fault}{'' if asks else f'; did you mean {proposal!r}?'}")
    return doubts


def _unseen(field_map: FieldMap, name: str, look: Look) -> str | None:
    if not FieldMap({name: field_map.fields[name]}).missing(look.part_counts):
        return None
    expression = field_map.expressions()[name]
    seen = f"the first {look.samples:,} samples have" if look.samples > 1 else "the only sample looked at has"
    return f"field {name!r} comes from {expression!r}, but {seen} only {', '.join(look.part_names)}"


def _meant(field_map: FieldMap, name: str, look: Look, proposals: Mapping[str, str]) -> str:
    near = nearest_names(field_map.fields[name][0].part, look.part_names, limit=1)
    meant = near[0] if near else proposals.get(name)
    return f"; did you mean {meant!r}?" if meant else ""


def _faults(
    choice: DatasetYaml, expressions: Mapping[str, str], look: Look, *, meta_folder: Path, trust_code: bool
) -> Iterator[tuple[str, str]]:
    """Yield the fields that the first sample's parts do not fill; one by one, so that each is told."""
    from loader.samples.building.check import DecodeCheck

    for name, expression in expressions.items():
        field_map = parse_field_map({name: expression}, file="the field map")
        config = DatasetConfig(sample_type=choice.spec.name, field_map=field_map)
        needed = {part: data for part, data in look.parts.items() if part in field_map.part_names()}
        if not trust_code and any(part_kind(part) == "pickle" for part in needed):
            continue  # what is in them is not looked at
        faults = DecodeCheck(config, meta_folder, trust_code)(look.key, needed)
        for part, fault in faults:
            if choice.spec.field(name).required or part is not None or "is missing" not in fault:
                yield name, fault if fault.startswith("field ") else f"field {name!r} ({expression}): {fault}"
