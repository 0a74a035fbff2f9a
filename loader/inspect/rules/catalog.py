"""All rules of lint and all reasons of accounts, by group and by code: the texts are in ``rules.toml``."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ...accounting import REASONS
from ...errors import ConfigError
from ...format.documents.messages import did_you_mean
from ...lint import CODES

_SEVERITIES = {"E": "error", "W": "warning", "L": "left out", "F": "failed"}
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@dataclass(frozen=True, slots=True)
class Rule:
    """The explanation of a code; its texts are Markdown of ``docs/reference/findings.md``.

    Attributes:
        code: A code of a finding, such as ``E302``, or of a reason, such as ``L101``.
        why: Consequences of the fault.
        action: Instruction that resolves it.
        example: A case in which it is found.
    """

    code: str
    why: str
    action: str
    example: str

    @property
    def meaning(self) -> str:
        """The fault, in one line of plain text."""
        return CODES[self.code] if self.code in CODES else REASONS[self.code]

    @property
    def severity(self) -> str:
        """``error`` (exit code 1) or ``warning``; of a reason, ``left out`` or ``failed``."""
        return _SEVERITIES[self.code[0]]


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """The rules of one kind of fault.

    Attributes:
        title: Title of the group.
        note: A remark on all its rules, in Markdown; may be empty.
        rules: The rules, sorted by code.
    """

    title: str
    note: str
    rules: tuple[Rule, ...]


def plain_text(markdown: str) -> str:
    """Return a line of Markdown as plain text: without backticks, and with the targets of links in parentheses.

    >>> plain_text("edit `split.yaml`; see [Choose the split](../how-to/choose-the-split.md)")
    'edit split.yaml; see Choose the split (docs/how-to/choose-the-split.md)'
    """
    return _LINK.sub(lambda link: f"{link[1]} ({link[2].replace('../', 'docs/', 1)})", markdown).replace("`", "")


RULE_GROUPS = tuple(
    RuleGroup(group["title"], group["note"], tuple(Rule(code, **texts) for code, texts in group["rules"].items()))
    for group in tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))["groups"]
)
"""The rules of lint in the order of their codes, then the reasons of accounts."""


def find_rule(code: str) -> Rule:
    """Return the rule of a code, in any case.

    Raises:
        ConfigError: There is no such code.
    """
    rules = {rule.code: rule for group in RULE_GROUPS for rule in group.rules}
    found = rules.get(code.upper())
    if found is not None:
        return found
    same_number = next((known for known in rules if known[1:] == code[1:]), None)
    near = f"; did you mean {same_number!r}?" if same_number else did_you_mean(code.upper(), rules)
    raise ConfigError(f"there is no code {code!r}{near}", hint="energon rule lists all codes")
