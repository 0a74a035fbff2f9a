"""All rules of lint and all reasons of accounts, by group and by code."""

from __future__ import annotations

from ...accounting import REASONS
from ...errors import ConfigError
from ...format.documents.messages import did_you_mean
from .dataset_rules import DATASET_RULES, SHARD_RULES, SPLIT_RULES
from .file_rules import FOLDER_RULES, JSONL_RULES, RECORD_RULES
from .rule import Rule, RuleGroup
from .sample_rules import METADATASET_RULES, SAMPLE_RULES

RULE_GROUPS: tuple[RuleGroup, ...] = (
    DATASET_RULES,
    SHARD_RULES,
    SPLIT_RULES,
    SAMPLE_RULES,
    JSONL_RULES,
    RECORD_RULES,
    METADATASET_RULES,
    FOLDER_RULES,
    RuleGroup(
        title="Input that a command leaves out, or fails on",
        note=(
            "Commands that turn input into output print these codes with the number of units, and have them in the"
            " `account` of `--json`. With `--strict`, nothing is published if there is any."
        ),
        rules=tuple(Rule(one.code, one.why, one.action, one.example) for one in REASONS.values()),
    ),
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
