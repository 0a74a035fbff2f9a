# The public names of this package, each with the module that defines it.

from .catalog import (
    RULE_GROUPS as RULE_GROUPS,
    find_rule as find_rule,
)
from .rule import (
    Rule as Rule,
    RuleGroup as RuleGroup,
    plain_text as plain_text,
)
