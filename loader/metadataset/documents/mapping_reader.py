"""Read typed values of a YAML document, and collect faults with their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, TypeGuard

from ...errors import Fault
from ...format.documents.messages import did_you_mean, short_key, short_repr

_MAX_BITS = 1000  # larger integers may not convert to a float


class MappingReader:
    """Reader of one mapping in a document. A getter adds a fault for an invalid value, and returns its default.

    Args:
        place: Its place in the document; empty for the whole document.
        faults: List to which faults are added; shared by all mappings of a document.
    """

    def __init__(self, mapping: Mapping[Any, Any], place: str, faults: list[Fault]) -> None:
        self.mapping = mapping
        self.place = place
        self.faults = faults

    def __contains__(self, key: str) -> bool:
        return key in self.mapping

    def at(self, key: object) -> str:
        return f"{self.place}.{short_key(key)}" if self.place else short_key(key)

    def fault(self, key: str, message: str) -> None:
        """Add a fault of a key, or of the whole mapping if the key is empty."""
        self.faults.append(Fault(place=self.at(key) if key else self.place, message=message))

    def fault_at(self, key: object, message: str) -> None:
        self.faults.append(Fault(place=self.at(key), message=message))

    def expect_keys(self, known: Iterable[str], why_not: Mapping[str, str] | None = None) -> None:
        """Add a fault for every unknown key.

        Args:
            why_not: Messages for keys that are valid elsewhere: key → message.
        """
        names = list(known)
        for key in self.mapping:
            if key not in names:
                reason = (why_not or {}).get(key) if isinstance(key, str) else None
                found = reason or f"there is no such key{did_you_mean(short_key(key), names)}"
                self.faults.append(Fault(place=self.at(key), message=found))

    def text(self, key: str) -> str | None:
        """Return a non-empty string; None if it is missing or null."""
        value = self.mapping.get(key)
        if value is None or (isinstance(value, str) and value and "\0" not in value):
            return value
        quotes = "; put it in quotes" if isinstance(value, int | float) else ""
        self.fault(key, f"expected a text, found {short_repr(value)}{quotes}")
        return None

    def positive(self, key: str, default: float) -> float:
        """Return a number above 0."""
        value = self.mapping.get(key, default)
        if _is_number(value) and isfinite(value) and value > 0:
            return float(value)
        self._fault_of_number(key, value, "> 0")
        return default

    def at_least_0(self, key: object) -> float:
        """Return a number from 0 on."""
        value = self.mapping.get(key)
        if _is_number(value) and isfinite(value) and value >= 0:
            return float(value)
        self._fault_of_number(key, value, "of at least 0")
        return 0.0

    def _fault_of_number(self, key: object, value: object, expected: str) -> None:
        hint = "; in YAML a number with an exponent is written as 1.0e-3" if _has_exponent(value) else ""
        self.fault_at(key, f"expected a number {expected}, found {short_repr(value)}{hint}")

    def child(self, key: str) -> MappingReader | None:
        """Return a reader for the mapping at a key; None if it is missing or null."""
        value = self.mapping.get(key)
        if value is None:
            return None
        return self.mapping_of(value, self.at(key))

    def mapping_of(self, value: object, place: str) -> MappingReader | None:
        """Return a reader for a value of this mapping; None if the value is not a mapping."""
        if isinstance(value, Mapping):
            return MappingReader(value, place, self.faults)
        self.faults.append(Fault(place=place, message=f"expected a mapping, found {short_repr(value)}"))
        return None

    def entries(self, key: str) -> list[MappingReader]:
        value = self.mapping.get(key)
        if not isinstance(value, list) or not value:
            found = "an empty list" if value == [] else short_repr(value)
            self.fault(key, f"expected a list of datasets, found {found}")
            return []
        found_all = (self.mapping_of(item, f"{self.at(key)}[{index}]") for index, item in enumerate(value))
        return [entry for entry in found_all if entry is not None]


def _has_exponent(value: object) -> bool:
    """Return True for a number such as 1e-3, which YAML parses as a string."""
    try:
        return isinstance(value, str) and "e" in value.lower() and isfinite(float(value))
    except ValueError:
        return False


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= _MAX_BITS)
