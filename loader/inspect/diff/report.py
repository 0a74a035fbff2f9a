"""The result of a comparison, and a bounded list of differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...training.states import Difference, Names


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport:
    """The result of a comparison.

    Attributes:
        kinds: The kinds of A and B: ``dataset``, ``metadataset``, ``records`` or ``checkpoint``.
        differences: The first differences.
        resumes: Whether a run with the data or settings of B continues the state A exactly; None if A is no checkpoint.
    """

    kinds: tuple[str, str]
    before: str
    after: str
    differences: tuple[Difference, ...]
    count: int
    resumes: bool | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """True if there is no difference."""
        return not self.count


@dataclass(slots=True)
class DifferenceList:
    """A list of differences that keeps the first ones and counts all.

    Attributes:
        kept: The first ones.
    """

    limit: int
    kept: list[Difference] = field(default_factory=list)
    count: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, place: str, name: str, before: object, after: object) -> None:
        """Add a difference, if the values differ."""
        if before != after:
            self.extend([Difference(place, name, before, after)])

    def add_names(self, place: str, name: str, before: Sequence[str], after: Sequence[str]) -> None:
        """Add the names that only one of both has, as one difference, if there are any.

        Args:
            place: Stages and path of what has the names; may be empty.
            name: What is named: ``"samples"``.
        """
        known, known_now = frozenset(before), frozenset(after)
        self.add(
            place,
            name,
            Names.of([one for one in before if one not in known_now]),
            Names.of([one for one in after if one not in known]),
        )

    def extend(self, found: Iterable[Difference]) -> None:
        """Add differences."""
        for one in found:
            self.count += 1
            if len(self.kept) < self.limit:
                self.kept.append(one)
