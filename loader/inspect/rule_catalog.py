"""All rules of lint and all reasons of accounts, by group and by code."""

from __future__ import annotations

from ..accounting import Rule, RuleGroup, reasons
from ..errors import ConfigError
from ..format.documents.messages import did_you_mean
from ..lint.media_folder import MediaFolders
from ..lint.metadata import DatasetFiles, Split
from ..lint.record_file import ColumnFiles, JsonlFiles
from ..lint.samples import Samples
from ..lint.shard import Shards
from ..metadataset.lint import Metadatasets

LINT_RULES = (DatasetFiles, Shards, Split, Samples, JsonlFiles, ColumnFiles, Metadatasets, MediaFolders)
"""The groups of the rules of lint, in the order of their codes."""


def rule_groups() -> tuple[RuleGroup, ...]:
    """Return the rules of lint, then the reasons of accounts."""
    return (*(RuleGroup(group.title, group.note, group.rules) for group in LINT_RULES), reasons())


def find_rule(code: str) -> Rule:
    """Return the rule of a code, in any case."""
    rules = {rule.code: rule for group in rule_groups() for rule in group.rules}
    found = rules.get(code.upper())
    if found is not None:
        return found
    same_number = next((known for known in rules if known[1:] == code[1:]), None)
    near = f"; did you mean {same_number!r}?" if same_number else did_you_mean(code.upper(), rules)
    raise ConfigError(f"there is no code {code!r}{near}", hint="energon rule lists all codes")
