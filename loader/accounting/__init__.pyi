from .account import (
    Account as Account,
    AccountEntry as AccountEntry,
    AccountError as AccountError,
    IncompleteError as IncompleteError,
    Unit as Unit,
)
from .rules import (
    Rule as Rule,
    RuleGroup as RuleGroup,
    meanings as meanings,
    plain_text as plain_text,
    reasons as reasons,
)
