# The public names of this package, each with the module that defines it.

from .catalog import (
    RULE_GROUPS as RULE_GROUPS,
    Rule as Rule,
    RuleGroup as RuleGroup,
    find_rule as find_rule,
    plain_text as plain_text,
)
