"""``subset: {range: [0%, 80%]}`` and ``subset: {range: [1000, end]}``."""

from __future__ import annotations

import re
from fractions import Fraction

from ..format.shown_value import shown
from .mapping_reader import MappingReader
from .subset import SampleRange, ShareRange, SubsetRange

__all__ = ["parse_subset"]

_PERCENTAGE = re.compile(r"\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)\s*%\s*")
_EXPECTED = "expected two percentages such as [0%, 80%], or two numbers of samples such as [1000, 2000] or [1000, end]"


def parse_subset(owner: MappingReader) -> SubsetRange | None:
    """Read the key ``subset`` of a mapping; None where there is none, or where it is wrong."""
    reader = owner.child("subset")
    if reader is None:
        return None
    reader.expect_keys(["range"])
    if "range" not in reader:
        reader.fault("range", f"this is missing; {_EXPECTED}")
        return None
    value = reader.mapping["range"]
    if not isinstance(value, list) or len(value) != 2:
        reader.fault("range", f"{_EXPECTED}, found {shown(value)}")
        return None
    shares = [_share(bound) for bound in value]
    if shares[0] is not None and shares[1] is not None:
        return _share_range(reader, shares[0], shares[1])
    start, stop = value
    if not _is_count(start) or not (stop == "end" or _is_count(stop)):
        reader.fault("range", f"{_EXPECTED}, found {shown(value)}")
        return None
    found = SampleRange(start=start, stop=None if stop == "end" else stop)
    if start < 0 or (found.stop is not None and found.stop <= start):
        reader.fault("range", f"expected a start of at least 0 and an end behind it, found {found}")
        return None
    return found


def _share_range(reader: MappingReader, start: Fraction, stop: Fraction) -> ShareRange | None:
    if 0 <= start < stop <= 1:
        return ShareRange(start=start, stop=stop)
    written = ", ".join(reader.mapping["range"])
    reader.fault("range", f"expected percentages from 0% to 100%, the first below the second, found [{written}]")
    return None


def _share(bound: object) -> Fraction | None:
    match = _PERCENTAGE.fullmatch(bound) if isinstance(bound, str) else None
    return Fraction(match[1]) / 100 if match else None


def _is_count(bound: object) -> bool:
    return isinstance(bound, int) and not isinstance(bound, bool)
