"""Rules: what a code of a finding or of unused input means, why it matters, and what to do."""

from __future__ import annotations

import re
import tomllib
from dataclasses import KW_ONLY, dataclass
from functools import cache
from pathlib import Path

_SEVERITIES = {"E": "error", "W": "warning", "L": "left out", "F": "failed"}
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@dataclass(frozen=True, eq=False)
class Rule:
    """The explanation of a code; all texts but the meaning are Markdown of ``docs/reference/findings.md``.

    Attributes:
        meaning: The fault, in one line of plain text.
        why: Consequences of the fault.
        action: Instruction that resolves it.
        example: A case in which it is found.
        code: The letter of the severity, and a number.
    """

    meaning: str
    _: KW_ONLY
    why: str
    action: str
    example: str
    code: str = ""

    @property
    def severity(self) -> str:
        """``error`` (exit code 1) or ``warning``; of a reason, ``left out`` or ``failed``."""
        return _SEVERITIES[self.code[0]]


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """The rules of one kind of fault.

    Attributes:
        note: A remark on all its rules, in Markdown; may be empty.
    """

    title: str
    note: str
    rules: tuple[Rule, ...]


@cache  # most commands leave nothing out, so the texts are read when a reason is first named
def reasons() -> RuleGroup:
    """Return the reasons why input is left out or fails."""
    texts = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text("utf-8"))
    return RuleGroup(
        texts["title"], texts["note"], tuple(Rule(code=code, **rule) for code, rule in texts["reasons"].items())
    )


@cache
def meanings() -> dict[str, str]:
    """Return the meaning of each reason, by code."""
    return {rule.code: rule.meaning for rule in reasons().rules}


def plain_text(markdown: str) -> str:
    """Return a line of Markdown as plain text: without backticks, and with the targets of links in parentheses.

    >>> plain_text("edit `split.yaml`; see [Choose the split](../how-to/choose-the-split.md)")
    'edit split.yaml; see Choose the split (docs/how-to/choose-the-split.md)'
    """
    return _LINK.sub(lambda link: f"{link[1]} ({link[2].replace('../', 'docs/', 1)})", markdown).replace("`", "")
