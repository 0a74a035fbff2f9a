from .account import (
    Account as Account,
    AccountEntry as AccountEntry,
    AccountError as AccountError,
    IncompleteError as IncompleteError,
    Rule as Rule,
    RuleGroup as RuleGroup,
    Unit as Unit,
    meanings as meanings,
    plain_text as plain_text,
    reasons as reasons,
)
