"""Results of a lint's tasks as they are stored for a merge: a rule is its code, and texts are bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from .report import PictureCounts
from .rule import Finding, LintRule, LintRules

_TEXTS = ("message", "shard", "key", "part", "dataset", "at", "hint")


class StoredFinding(msgspec.Struct, frozen=True, array_like=True):
    """A finding.

    Attributes:
        code: Code of its rule.
        texts: Message, shard, key, part, dataset, place and hint, as :func:`pack_text` packs them.
    """

    code: str
    texts: tuple[bytes | None, ...]
    offset: int | None
    in_index: bool


class CheckedSamples(msgspec.Struct, frozen=True, array_like=True):
    """The result of the check of some samples, or of a file.

    Attributes:
        pictures: Part name, trait and number of pictures.
        media: Number of parts of sound and video that were decoded.
    """

    findings: list[StoredFinding]
    pictures: list[tuple[bytes, str, int]]
    media: int

    @classmethod
    def pack(cls, findings: Iterable[Finding], pictures: PictureCounts, media: int) -> CheckedSamples:
        """Return the result of a check."""
        counts = [(pack_text(part), trait, count) for (part, trait), count in pictures.items()]
        return cls(pack_findings(findings), counts, media)

    def unpack(self, groups: Iterable[type[LintRules]]) -> tuple[list[Finding], PictureCounts, int]:
        """Return findings of rules of these groups, the traits of pictures and the number of media."""
        counts = Counter({(unpack_text(part), trait): count for part, trait, count in self.pictures})
        return unpack_findings(self.findings, groups), counts, self.media


class CheckedShard(msgspec.Struct, frozen=True, array_like=True):
    """The result of the checks of a shard, or of several files.

    Attributes:
        findings: About the headers of a shard, or about a file of records.
        samples: About its samples, or about each file, in the order of the lint.
    """

    findings: list[StoredFinding]
    samples: list[CheckedSamples]


def pack_findings(findings: Iterable[Finding]) -> list[StoredFinding]:
    """Return findings as they are stored."""
    return [
        StoredFinding(
            each.code,
            tuple(None if (text := getattr(each, name)) is None else pack_text(text) for name in _TEXTS),
            None if each.offset is None else int(each.offset),
            each.in_index,
        )
        for each in findings
    ]


def unpack_findings(stored: Iterable[StoredFinding], groups: Iterable[type[LintRules]]) -> list[Finding]:
    """Return the findings; their rules are of these groups."""
    rules: Mapping[str, LintRule] = {rule.code: rule for group in groups for rule in group.rules}
    findings = []
    for each in stored:
        message, *places = (None if text is None else unpack_text(text) for text in each.texts)
        named = dict(zip(_TEXTS[1:], places, strict=True))
        findings.append(Finding(rules[each.code], message or "", offset=each.offset, in_index=each.in_index, **named))
    return findings


def pack_text(text: str) -> bytes:
    """Return a text as bytes; names may have bytes that are not UTF-8, as lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def unpack_text(data: bytes) -> str:
    """Return the text that :func:`pack_text` has packed."""
    return data.decode("utf-8", "surrogatepass")
