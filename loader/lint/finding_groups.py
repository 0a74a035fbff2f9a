"""Group findings that have one cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .rule import Finding

# What differs between the messages of samples with one cause, each with its replacement.
_DETAILS = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"\bb'(?:[^'\\]|\\.)*'|\bb\"(?:[^\"\\]|\\.)*\"", "b''"),  # first bytes of a part
        (r"(; the sample has |has only the parts |, only |: found |, found (?!an image)\w+: ).*", r"\1"),  # other parts
        (r"^sample \S.* has the same key", "a sample has the same key"),
        (r"\d+", "0"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """Findings of one cause: with the same code, dataset and part, and messages that differ in details only.

    Attributes:
        findings: At least one, in the order of the report.
    """

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def places(self) -> tuple[str, ...]:
        """The distinct places, in order: ``<shard>/<key>``, a shard, or a shard and a byte offset."""
        if self.first.key is not None:
            return tuple(dict.fromkeys(f"{finding.shard}/{finding.key}" for finding in self.findings))
        shards = tuple(dict.fromkeys(str(finding.shard) for finding in self.findings))
        if len(shards) == len(self.findings):
            return shards
        return tuple(f"{finding.shard} at byte {finding.offset}" for finding in self.findings)

    @property
    def noun(self) -> str:
        """The noun that counts the places: ``sample``, ``shard``, ``file`` or ``place``."""
        if self.first.key is not None:
            return "sample"
        if len({finding.shard for finding in self.findings}) < len(self.findings):
            return "place"
        return "shard" if str(self.first.shard).endswith(".tar") else "file"


def group_findings(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Group findings by their cause, in the order of the first finding of each group.

    Findings about a whole dataset, which name no shard, stay single.

    >>> from loader.lint.samples import SampleFaults
    >>> found = [Finding(SampleFaults.E302, f"it ends at byte {end}", shard="s.tar", key=str(end)) for end in (7, 9)]
    >>> [group.places for group in group_findings(found)]
    [('s.tar/7', 's.tar/9')]
    """
    groups: dict[object, list[Finding]] = {}
    for index, finding in enumerate(findings):
        # A finding about the dataset is a group by itself.
        groups.setdefault(index if finding.shard is None else _cause(finding), []).append(finding)
    return [FindingGroup(findings=tuple(group)) for group in groups.values()]


def _cause(finding: Finding) -> tuple[object, ...]:
    # Messages of one cause differ in numbers, keys and bytes of the data only.
    message = finding.message
    for details, replacement in _DETAILS:
        message = details.sub(replacement, message)
    return finding.dataset, finding.code, finding.part, finding.key is None, message
