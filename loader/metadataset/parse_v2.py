"""``MetadatasetV2``: a split is a reference, a ``blend``, a ``blend_epochized`` or a ``join``."""

from __future__ import annotations

from collections.abc import Iterator

from ..format.shown_value import shown_keys
from .mapping_reader import MappingReader
from .metadataset_spec import BlendEntry, BlendKind, BlendSpec, JoinSpec, ReferenceSpec
from .parse_join import JOIN_KEYS, parse_join
from .parse_reference import REFERENCE_KEYS, parse_reference
from .parse_subset import parse_subset

__all__ = ["parse_v2_split"]

_BLENDS: tuple[BlendKind, ...] = ("blend", "blend_epochized")
_AMOUNT: dict[BlendKind, str] = {"blend": "weight", "blend_epochized": "repetitions"}
_HEADS = ("path", *_BLENDS, "join")

_ELSEWHERE = {
    "weight": "only what stands in a 'blend' has a weight",
    "repetitions": "only what stands in a 'blend_epochized' has repetitions",
}
_ELSEWHERE_IN_BLENDS: dict[BlendKind, dict[str, str]] = {
    "blend": {"repetitions": "a 'blend' is mixed by 'weight'; repetitions belong to 'blend_epochized'"},
    "blend_epochized": {"weight": "a 'blend_epochized' is mixed by 'repetitions'; a weight belongs to 'blend'"},
}
_NOT_IN_A_JOIN = dict.fromkeys(
    ("aux", "dataset_config", "split_config", "nonmatch"), "set it at each dataset of the join"
)


def parse_v2_split(reader: MappingReader) -> ReferenceSpec | JoinSpec | BlendSpec | None:
    """Read what a split is made of; None where that cannot be told."""
    heads = [key for key in _HEADS if key in reader]
    if len(heads) != 1:
        _fault_of_heads(reader, heads, _HEADS)
        return None
    for kind in _BLENDS:
        if kind in reader:
            reader.expect_keys((kind, "subset"), dict.fromkeys(REFERENCE_KEYS, f"set it at each dataset of the {kind}"))
            entries = tuple(_entries(reader, kind))
            subset = parse_subset(reader)
            return BlendSpec(place=reader.at(kind), kind=kind, entries=entries, subset=subset) if entries else None
    return _parse_source(reader, (), _ELSEWHERE)


def _entries(reader: MappingReader, kind: BlendKind) -> Iterator[BlendEntry]:
    for entry in reader.entries(kind):
        amount = entry.positive(_AMOUNT[kind], 1.0)
        nested = next((key for key in _BLENDS if key in entry), None)
        if nested is not None:
            entry.fault(nested, "a blend within a blend has a metadataset file of its own; name that as 'path'")
            continue
        heads = [key for key in ("path", "join") if key in entry]
        if len(heads) != 1:
            _fault_of_heads(entry, heads, ("path", "join"), _AMOUNT[kind])
            continue
        source = _parse_source(entry, (_AMOUNT[kind],), _ELSEWHERE_IN_BLENDS[kind])
        if source is not None:
            yield BlendEntry(amount=amount, source=source)


def _parse_source(
    reader: MappingReader, more_keys: tuple[str, ...], why_not: dict[str, str]
) -> ReferenceSpec | JoinSpec | None:
    if "join" in reader:
        reader.expect_keys((*JOIN_KEYS, *more_keys), {**_NOT_IN_A_JOIN, **why_not})
        return parse_join(reader)
    reader.expect_keys((*REFERENCE_KEYS, *more_keys), {"nonmatch": "only datasets of a 'join' have it", **why_not})
    return parse_reference(reader)


def _fault_of_heads(reader: MappingReader, found: list[str], expected: tuple[str, ...], *more_keys: str) -> None:
    """Say what is wrong where none of the keys is there by which a kind is told, or several."""
    known = {*REFERENCE_KEYS, *JOIN_KEYS, *expected, *more_keys}
    reader.expect_keys(sorted(known))
    names = ", ".join(map(repr, expected[:-1])) + f" or {expected[-1]!r}"
    here = " and ".join(map(repr, found)) if found else shown_keys(reader.mapping)
    reader.fault("", f"expected one of {names}, found {here}")
